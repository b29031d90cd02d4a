"""The training loop, its stages and checkpoints."""
