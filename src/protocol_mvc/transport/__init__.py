"""Semi-relaxed partial optimal transport: the pseudo-labels of PROTOCOL, usable on its own."""

from protocol_mvc.transport.solver import PotLabels, Transport, mass_schedule, pot_labels, solve

__all__ = ["PotLabels", "Transport", "mass_schedule", "pot_labels", "solve"]
