"""Write small `.mat` files: v5 by scipy, and v7.3 as MATLAB lays it out, by h5py."""

import h5py
import numpy as np
from scipy.io import savemat
from scipy.sparse import csc_array

from protocol_mvc.data.checks import is_sparse


def write_v5(path, variables, *, column=False, compress=False):
    """Write arrays, and lists as cell arrays of one row, or of one column."""
    contents = {}
    for name, value in variables.items():
        if isinstance(value, list):
            cell = np.empty(len(value), dtype=object)
            cell[:] = [*value]
            contents[name] = cell[:, None] if column else cell[None]
        else:
            contents[name] = value
    savemat(path, contents, do_compression=compress)
    return path


def write_v73(path, variables, *, column=False, compress=False):
    """Write the same as HDF5: axes reversed, and a cell array as references into a group of its own."""
    with h5py.File(path, "w", userblock_size=512) as file:
        refs = file.create_group("#refs#")
        for name, value in variables.items():
            if isinstance(value, list):
                cells = [put(refs, f"{name}{i}", part, compress).ref for i, part in enumerate(value)]
                array = np.array(cells, dtype=h5py.ref_dtype).reshape((1, -1) if column else (-1, 1))
                file.create_dataset(name, data=array, dtype=h5py.ref_dtype)
                file[name].attrs["MATLAB_class"] = np.bytes_("cell")
            else:
                put(file, name, value, compress)
    header = b"MATLAB 7.3 MAT-file".ljust(512)
    path.write_bytes(header + path.read_bytes()[512:])
    return path


def put(group, name, value, compress):
    if is_sparse(value):
        return put_sparse(group.create_group(name), csc_array(value))
    value = np.atleast_2d(value)
    node = group.create_dataset(name, data=value.T, compression="gzip" if compress else None)
    node.attrs["MATLAB_class"] = np.bytes_("single" if value.dtype == np.float32 else "double")
    return node


def put_sparse(group, matrix):
    group.attrs["MATLAB_sparse"] = np.uint64(matrix.shape[0])
    group["jc"] = matrix.indptr.astype(np.uint64)
    if matrix.nnz:  # MATLAB leaves out what would be empty
        group["data"], group["ir"] = matrix.data, matrix.indices.astype(np.uint64)
    return group


WRITERS = {"v5": write_v5, "v73": write_v73}
