"""Read and write files: multi-view data of many formats, labels, and saved models."""

from protocol_mvc.io.read import MultiViewDataset, ReadInfo, read_views
from protocol_mvc.io.table_format import TableOptions
from protocol_mvc.io.write import convert, write_anndata, write_labels, write_views

__all__ = [
    "MultiViewDataset",
    "ReadInfo",
    "TableOptions",
    "convert",
    "read_views",
    "write_anndata",
    "write_labels",
    "write_views",
]
