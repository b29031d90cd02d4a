"""Read and write files: multi-view data of many formats, labels, and saved models."""

from protocol_mvc.io.read import MultiViewDataset, read_views
from protocol_mvc.io.write import convert, write_anndata, write_labels

__all__ = ["MultiViewDataset", "convert", "read_views", "write_anndata", "write_labels"]
