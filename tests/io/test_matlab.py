"""The layouts of the literature's `.mat` files give the same views and labels."""

import struct
import sys
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.io import savemat
from scipy.sparse import csr_array
from tests.io.mat_writers import WRITERS, write_v5, write_v73

from protocol_mvc.data.checks import is_sparse
from protocol_mvc.data.views import as_views
from protocol_mvc.io import limits, matlab

Y = np.array([2, 0, 1, 0, 2, 1])
N = len(Y)
A = np.arange(4.0 * N).reshape(N, 4)
B = np.arange(3 * N).astype(np.uint8).reshape(N, 3)

LAYOUTS = {
    "X": ["X"],
    "data": ["data"],
    "fea": ["fea"],
    "views": ["views"],
    "X1 X2": ["X1", "X2"],
    "x_1 x_2": ["x_1", "x_2"],
    "view1 view2": ["view1", "view2"],
    "X0 X1": ["X0", "X1"],
}


@pytest.fixture(params=WRITERS)
def write(request, tmp_path):
    return lambda variables, **options: WRITERS[request.param](tmp_path / "set.mat", variables, **options)


class Read(NamedTuple):
    views: list[Any]
    names: list[str]
    y: Any


def read_mat(path: Path) -> Read:
    arrays = matlab.read_mat(path)
    labels = arrays.pop("labels", None)
    return Read(list(arrays.values()), list(arrays), labels)


def same(array, expected):
    dense = array.toarray() if is_sparse(array) else array
    np.testing.assert_array_equal(dense, expected)
    assert array.dtype == expected.dtype
    assert dense.dtype.isnative


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("column", [False, True])
@pytest.mark.parametrize("compress", [False, True])
def test_every_layout_gives_the_views_and_labels(write, layout, column, compress):
    names = LAYOUTS[layout]
    views = {names[0]: [A, B]} if len(names) == 1 else dict(zip(names, (A, B), strict=True))
    path = write({**views, "Y": Y[:, None]}, column=column, compress=compress)
    arrays, found, labels = read_mat(path)
    same(arrays[0], A)
    same(arrays[1], B)
    assert found == (names if len(names) > 1 else [f"{names[0]}{{1}}", f"{names[0]}{{2}}"])
    np.testing.assert_array_equal(labels, Y)
    assert labels is not None
    assert labels.dtype == np.int64
    assert as_views(dict(zip(found, arrays, strict=True))).n_features == (4, 3)


@given(data=st.data())
def test_any_matrices_survive_either_orientation(tmp_path_factory, data):
    n = data.draw(st.integers(2, 7))
    widths = data.draw(st.lists(st.integers(1, 9).filter(lambda d: d != n), min_size=1, max_size=4))
    dtypes = st.sampled_from(["f8", "f4", "u1", "i2", "?", "i8"])
    values = np.random.default_rng(data.draw(st.integers(0, 99)))
    views = [(values.random((n, d)) * 9).astype(data.draw(dtypes)) for d in widths]
    stored = [view.T if data.draw(st.booleans()) else view for view in views]
    writer = WRITERS[data.draw(st.sampled_from(sorted(WRITERS)))]
    path = writer(tmp_path_factory.mktemp("mat") / "set.mat", {"X": stored, "gt": np.arange(n)})
    for array, view in zip(read_mat(path).views, views, strict=True):
        np.testing.assert_array_equal(array, view)


@pytest.mark.parametrize("name", ["Y", "y", "gt", "gnd", "truth", "truelabel", "label", "Labels"])
@pytest.mark.parametrize(
    "encode", [np.add, np.subtract, lambda y, c: y * 10.0 - c, lambda y, c: y.astype("u1")]
)
@pytest.mark.parametrize("row", [False, True])
def test_labels_of_any_name_and_numbering_start_at_zero(write, name, encode, row):
    labels = encode(Y, 1)
    read = read_mat(write({"X": [A, B], name: labels[None] if row else labels[:, None]}))
    np.testing.assert_array_equal(read.y, Y)


def test_a_cell_of_labels_per_view_counts_once(write):
    read = read_mat(write({"data": [A.T, B.T], "truelabel": [Y[None] + 1, Y[:, None] + 1]}))
    np.testing.assert_array_equal(read.y, Y)
    same(read.views[0], A)


def test_a_sure_name_of_labels_goes_before_y(write):
    np.testing.assert_array_equal(read_mat(write({"X": [A, B], "Y": B, "gt": Y})).y, Y)


def test_a_plain_matrix_is_one_view(write):
    read = read_mat(write({"X": A, "Y": Y}))
    assert read.names == ["X"]
    same(read.views[0], A)


@pytest.mark.parametrize("flip", [False, True])
def test_sparse_matrices_stay_sparse(write, flip):
    matrix = csr_array(np.diag(np.arange(7.0))[:N])
    views = [matrix.T, A.T] if flip else [matrix, A]
    read = read_mat(write({"X": views, "Y": Y}))
    assert isinstance(read.views[0], csr_array)
    same(read.views[0], matrix.toarray())


def test_a_sparse_matrix_may_be_zero(write):
    same(read_mat(write({"X": [csr_array((N, 4)), A], "Y": Y})).views[0], np.zeros((N, 4)))


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4), (5, 1, 2)])
@pytest.mark.parametrize("last", [False, True])
def test_images_are_flattened(write, shape, last):
    images = np.arange(N * np.prod(shape)).astype(np.uint8).reshape(N, *shape)
    stored = np.moveaxis(images, 0, -1) if last else images
    read = read_mat(write({"X1": stored, "X2": A, "Y": Y}))
    same(read.views[0], images.reshape(N, -1))


SQUARE = np.arange(float(N * N)).reshape(N, N)


def test_a_square_view_lies_as_the_others_do(write):
    same(read_mat(write({"X": [SQUARE, A], "Y": Y})).views[0], SQUARE)
    same(read_mat(write({"X": [SQUARE, A.T], "Y": Y})).views[0], SQUARE.T)
    symmetric = SQUARE + SQUARE.T
    same(read_mat(write({"X": [symmetric], "Y": Y})).views[0], symmetric)
    for parts in ([SQUARE], [SQUARE, A, B.T]):
        with pytest.raises(ValueError, match=r"set\.mat: the variable X\S* has shape \(6, 6\)"):
            read_mat(write({"X": parts, "Y": Y}))


def test_without_labels_the_shapes_decide(write):
    read = read_mat(write({"X": [A.T, B.T]}))
    assert read.y is None
    same(read.views[1], B)
    with pytest.raises(ValueError, match=r"X \(6, 4\)"):
        read_mat(write({"X": A}))


HOLES = np.where(Y == 1, np.nan, Y)
REFUSED = {
    "no views": ({"Z": A, "Y": Y}, r"no views \(.*Z.*\)"),
    "no views in a cell": ({"X": [], "Y": Y}, r"X is empty"),
    "two kinds of views": ({"X": [A], "data": [B], "Y": Y}, "views under several names"),
    "two cases of one name": ({"X": A, "x": B, "Y": Y}, "views under several names"),
    "a gap": ({"X1": A, "X3": B, "Y": Y}, "X1, X3"),
    "rows differ": ({"X": [A, B[:5]], "Y": Y}, r"X\{2\} has shape \(5, 3\)"),
    "rows differ, no labels": ({"X": [A, B[:5]]}, r"X\{2\} \(5, 3\)"),
    "fewer labels": ({"X1": A, "X2": B, "Y": Y[:5]}, r"X1 has shape \(6, 4\)"),
    "labels in columns": ({"X": [A], "Y": np.eye(6)}, r"labels Y have shape \(6, 6\)"),
    "sparse labels": ({"X": [A], "Y": csr_array(np.ones((6, 1)))}, "labels Y"),
    "no label for some": ({"X": [A], "Y": HOLES}, "labels Y have NaN"),
    "labels differ": ({"X": [A, B], "Y": [Y, Y[::-1]]}, "labels Y differ between views"),
    "an empty view": ({"X": [A, A[:0]], "Y": Y}, r"X\{2\} is empty"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_other_contents_are_refused_in_one_sentence(write, case):
    variables, message = REFUSED[case]
    with pytest.raises(ValueError, match=rf"^File \S*set\.mat: .*{message}") as refusal:
        read_mat(write(variables))
    assert "\n" not in str(refusal.value)


@given(part=st.floats(0, 0.99), version=st.sampled_from(sorted(WRITERS)), compress=st.booleans())
def test_a_truncated_file_is_refused(tmp_path_factory, part, version, compress):
    path = tmp_path_factory.mktemp("mat") / "set.mat"
    # Labels first: a file of v5 that ends between two variables is whole, but then has no views.
    whole = WRITERS[version](path, {"Y": Y, "X": [A, csr_array(B)]}, compress=compress).read_bytes()
    path.write_bytes(whole[: int(part * len(whole))])
    with pytest.raises(ValueError, match=r"^File \S*set\.mat"):
        read_mat(path)


def test_an_altered_file_is_refused(tmp_path):
    path = WRITERS["v5"](tmp_path / "set.mat", {"X": [A, B], "Y": Y}, compress=True)
    whole = path.read_bytes()
    path.write_bytes(whole[:160] + bytes(8) + whole[168:])  # amid the compressed values
    with pytest.raises(ValueError, match=r"^File \S*set\.mat cannot be read"):
        read_mat(path)


def test_a_file_must_be_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.mat"):
        read_mat(tmp_path / "nothing.mat")


MATRIX = np.arange(24.0).reshape(6, 4)
LABELS = np.repeat([1.0, 2.0], 3)
NESTED = np.array([[MATRIX[0], LABELS]], dtype=object)


def test_doubles_are_doubles_however_they_are_stored(tmp_path):
    savemat(tmp_path / "set.mat", {"X": A, "Y": Y}, format="4")
    assert read_mat(tmp_path / "set.mat").views[0].dtype == np.float64
    path = WRITERS["v5"](tmp_path / "set.mat", {"X": A, "Y": Y})
    # As MATLAB saves whole numbers: an array of class double (6) whose values are bytes (type 2).
    stored, small = A.ravel(order="F").astype("<f8").tobytes(), A.ravel(order="F").astype("u1").tobytes()
    long, short = struct.pack("<II", 9, len(stored)) + stored, struct.pack("<II", 2, len(small)) + small
    whole = path.read_bytes()
    at = whole.index(long)
    begin = whole.rindex(struct.pack("<I", 14), 0, at)
    size = struct.unpack_from("<I", whole, begin + 4)[0] - len(long) + len(short)
    head = whole[:begin] + struct.pack("<II", 14, size) + whole[begin + 8 : at]
    path.write_bytes(head + short + whole[at + len(long) :])
    same(read_mat(path).views[0], A)


@pytest.mark.parametrize(
    "views", [{"X": [A, A]}, {"X1": A}, {"X": [csr_array(A)]}], ids=["cell", "full", "sparse"]
)
def test_contents_beyond_the_limit_are_refused(write, views, monkeypatch, request):
    path = write({**views, "Y": Y})
    if "v5" in request.node.name and "X" in views:
        pytest.skip("scipy does not know the size before reading")
    monkeypatch.setenv(limits.MAX_MEMORY, str(10))
    with pytest.raises(ValueError, match=r"set\.mat: its contents take"):
        read_mat(path)


def test_sizes_are_checked_before_memory_is_taken(tmp_path):
    def sparse(group):
        group.attrs["MATLAB_sparse"] = 2**40

    for put in (
        lambda file: file.create_dataset("X1", shape=(2**20, 2**20), dtype="f8", chunks=(64, 64)),
        lambda file: file.create_dataset("X", shape=(2**40, 1), dtype=h5py.ref_dtype, chunks=(64, 1)),
        lambda file: sparse(file.create_group("fea")),
    ):
        with h5py.File(tmp_path / "set.mat", "w") as file:
            put(file)
        with pytest.raises(ValueError, match=r"set\.mat: .*([GM]iB)"):
            read_mat(tmp_path / "set.mat")


def wrong_index(file):
    group = file.create_group("X1")
    group.attrs["MATLAB_sparse"] = 6
    group["jc"], group["ir"], group["data"] = [0, 1], [2**62], [1.0]


def a_struct(file):
    file.create_group("X1")["field"] = MATRIX


def other_file(file):
    file["X1"] = h5py.ExternalLink("secret.h5", "X1")


def raw_file(file):
    file.create_dataset("X1", shape=(6, 4), dtype="f8", external=[("secret.bin", 0, 192)])


def virtual(file):
    layout = h5py.VirtualLayout((6, 4), dtype="f8")
    layout[:] = h5py.VirtualSource("secret.h5", "X1", (6, 4))
    file.create_virtual_dataset("X1", layout)


def sparse_elsewhere(file):
    group = file.create_group("X1")
    group.attrs["MATLAB_sparse"] = 6
    group["jc"] = h5py.ExternalLink("secret.h5", "X1")


def text(file):
    file["X1"] = np.full((6, 4), 65, dtype=np.uint16)
    file["X1"].attrs["MATLAB_class"] = np.bytes_("char")


def strings(file):
    file["X1"] = ["some", "words"]


def nested(file):
    file["X1"] = np.array(
        [[file.create_dataset("c", data=[file.ref], dtype=h5py.ref_dtype).ref]], h5py.ref_dtype
    )


def nowhere(file):
    file.create_dataset("X1", shape=(1, 1), dtype=h5py.ref_dtype)


def nothing(file):
    file.create_dataset("X1", data=h5py.Empty("f8"))


@pytest.mark.parametrize(
    "put",
    [
        wrong_index,
        a_struct,
        other_file,
        raw_file,
        virtual,
        sparse_elsewhere,
        text,
        strings,
        nested,
        nowhere,
        nothing,
    ],
)
def test_what_is_no_matrix_in_a_file_of_v73_is_refused(tmp_path, monkeypatch, put):
    monkeypatch.chdir(tmp_path)
    with h5py.File("secret.h5", "w") as secret:
        secret["X1"] = MATRIX.T
    MATRIX.tofile("secret.bin")
    with h5py.File("set.mat", "w") as file:
        put(file)
        file["Y"] = LABELS
    with pytest.raises(ValueError, match=r"^File set\.mat"):
        read_mat(Path("set.mat"))


@pytest.mark.parametrize(
    "value",
    [
        np.array(["text"] * 6),
        {"field": MATRIX},
        MATRIX + 1j,
        csr_array(MATRIX + 1j),
        [NESTED, MATRIX],
        ["words", MATRIX],
        np.array([[{"a": 1}, MATRIX]], dtype=object),
    ],
    ids=["text", "struct", "complex", "sparse complex", "nested", "words", "objects"],
)
def test_what_is_no_matrix_in_a_file_of_v5_is_refused(tmp_path, value):
    path = write_v5(tmp_path / "set.mat", {"X": value, "Y": LABELS})
    with pytest.raises(ValueError, match=r"set\.mat: .* X"):
        read_mat(path)


def test_an_array_of_one_axis_is_a_column(tmp_path):
    with h5py.File(tmp_path / "set.mat", "w") as file:
        file["X1"], file["Y"] = LABELS, LABELS
    np.testing.assert_array_equal(read_mat(tmp_path / "set.mat").views[0], LABELS[:, None])


def test_an_empty_matrix_of_v73_is_refused(tmp_path):
    with h5py.File(tmp_path / "set.mat", "w") as file:
        file["X1"], file["Y"] = np.array([[6, 0]], dtype=np.uint64), LABELS
        file["X1"].attrs["MATLAB_empty"] = 1
    with pytest.raises(ValueError, match="X1 is empty"):
        read_mat(tmp_path / "set.mat")


def test_without_h5py_the_extra_is_named(tmp_path, monkeypatch):
    path = write_v73(tmp_path / "set.mat", {"X": [MATRIX], "Y": LABELS})
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ModuleNotFoundError, match=r"set\.mat.*pip install 'protocol-mvc\[mat73\]'"):
        read_mat(path)
    write_v5(path, {"X": [MATRIX], "Y": LABELS})
    assert read_mat(path).views
