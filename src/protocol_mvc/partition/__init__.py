"""The starting partition of stage 3, found without labels."""
