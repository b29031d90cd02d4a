"""Loss functions of tensors."""
