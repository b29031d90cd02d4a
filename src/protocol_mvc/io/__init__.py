"""Files in and out: many formats become views, and labels are written beside or into them."""

from protocol_mvc.io.export import convert
from protocol_mvc.io.read import MultiViewDataset, read_views
from protocol_mvc.io.write import write_anndata, write_labels

__all__ = ["MultiViewDataset", "convert", "read_views", "write_anndata", "write_labels"]
