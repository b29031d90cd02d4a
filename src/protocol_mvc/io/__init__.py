"""Read and write files: multi-view data of many formats, labels, and saved models."""

from protocol_mvc.io.export import convert
from protocol_mvc.io.read import MultiViewDataset, read_views
from protocol_mvc.io.write import write_anndata, write_labels

__all__ = ["MultiViewDataset", "convert", "read_views", "write_anndata", "write_labels"]
