"""Metrics with labels, stability without them, and robustness to attacks."""
