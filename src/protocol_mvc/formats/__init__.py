"""Files in and out: many formats become views, and labels are written beside or into them."""

from protocol_mvc.formats.converting import convert
from protocol_mvc.formats.reading import Loaded, read
from protocol_mvc.formats.results import write_back, write_labels

__all__ = ["Loaded", "convert", "read", "write_back", "write_labels"]
