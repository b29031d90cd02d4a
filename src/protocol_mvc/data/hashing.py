"""A fingerprint of multi-view data."""

import hashlib
from typing import Any

import numpy as np

from protocol_mvc.data.checks import is_sparse, row_slices
from protocol_mvc.data.views import Views


def data_hash(views: Views) -> str:
    """Return a sha256 of sample ids, and of names, values, dtypes, shapes and missing rows of all views."""
    digest = hashlib.sha256()
    for name, array in views.views.items():
        digest.update(f"{name!r}{array.dtype.str}{array.shape}".encode())
        for rows in row_slices(array):
            block: Any = array[rows]
            parts = (block.indptr, block.indices, block.data) if is_sparse(block) else (block,)
            for part in parts:
                digest.update(np.ascontiguousarray(part).data)
    digest.update(np.packbits(views.mask).data)
    digest.update(repr([str(sample) for sample in views.sample_ids.tolist()]).encode())
    return digest.hexdigest()
