"""Evaluation: metrics with known classes, stability without them, and robustness to attacks."""
