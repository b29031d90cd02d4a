"""Semi-relaxed partial optimal transport: the pseudo-labels of PROTOCOL, usable on its own."""

from protocol_mvc.transport.labels import PotLabels, mass_schedule, pot_labels
from protocol_mvc.transport.solver import Transport, solve

__all__ = ["PotLabels", "Transport", "mass_schedule", "pot_labels", "solve"]
