"""Loss functions: pure functions of tensors, each with its equation."""
