"""Methods: one paper, one file."""
