"""The starting partition of stage 3, and the number of clusters, found without labels."""
