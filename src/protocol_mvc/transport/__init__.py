"""Semi-relaxed partial optimal transport: the label step of the method, usable on its own."""

from protocol_mvc.transport.labels import PotLabels, pot_labels, ramp
from protocol_mvc.transport.solver import Transport, solve

__all__ = ["PotLabels", "Transport", "pot_labels", "ramp", "solve"]
