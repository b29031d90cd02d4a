"""Neural networks: layers, attention over samples, heads, and the networks of the methods."""
