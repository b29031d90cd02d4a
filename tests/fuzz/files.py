"""Files of every kind, damaged or filled with anything."""

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import anndata
import h5py
import numpy as np
import pandas as pd
from hypothesis import strategies as st
from scipy.io import savemat
from tests.fuzz.data import arrays
from tests.fuzz.law import harmless, outcome
from tests.fuzz.rubbish import texts
from tests.io import samples
from tests.io.mat_writers import WRITERS as MATLAB
from tests.io.temporary import folder

from protocol_mvc.io import MultiViewDataset, convert, read_views
from protocol_mvc.io.write import _file_name

MEMBERS: dict[str, Any] = {"X": [samples.A, samples.B], "Y": samples.KIND.astype(float)}
WRITERS = {
    **samples.WRITERS,
    "mat v5": lambda place: MATLAB["v5"](place / "set.mat", MEMBERS),
    "mat v7": lambda place: MATLAB["v5"](place / "set.mat", MEMBERS, compress=True),
    "mat v7.3": lambda place: MATLAB["v73"](place / "set.mat", MEMBERS),
}


UNSAFE = ("h5", "h5ad", "h5mu", "parquet", "mixed")  # altered bytes can crash the libraries that read these


class Damage(NamedTuple):
    """What happens to the bytes of a file; places are shares of its length."""

    flips: list[tuple[float, int]]
    cut: float | None = None
    inserted: tuple[float, bytes] | None = None
    repeated: tuple[float, float] | None = None

    def __call__(self, content: bytes) -> bytes:
        """The bytes after it."""
        data = bytearray(content)
        for place, mask in self.flips:
            if data:
                data[min(int(place * len(data)), len(data) - 1)] ^= mask
        if self.repeated is not None:
            first, second = sorted(int(share * len(data)) for share in self.repeated)
            data[first:first] = data[first:second]
        if self.inserted is not None:
            place = int(self.inserted[0] * len(data))
            data[place:place] = self.inserted[1]
        return bytes(data if self.cut is None else data[: int(self.cut * len(data))])


shares = st.floats(0, 1, width=32)
rarely = st.integers(0, 7).map(lambda number: number == 0)
damages = st.builds(
    Damage,
    st.lists(st.tuples(shares, st.integers(1, 255)), max_size=3),
    rarely.flatmap(lambda yes: shares if yes else st.none()),
    rarely.flatmap(lambda yes: st.tuples(shares, st.binary(max_size=8)) if yes else st.none()),
    rarely.flatmap(lambda yes: st.tuples(shares, shares) if yes else st.none()),
)
damage_cases = st.tuples(st.sampled_from(sorted(WRITERS)), st.integers(0, 9), damages)

_store = TemporaryDirectory()
_made: dict[str, Any] = {}


def sound(kind: str) -> Any:
    """A file, a folder or several files of that kind, made once."""
    if kind not in _made:
        place = Path(_store.name) / kind
        place.mkdir()
        _made[kind] = WRITERS[kind](place)
    return _made[kind]


def damaged(place: Path, kind: str, which: int, damage: Damage) -> Any:
    """A copy in which one file is damaged."""
    made = sound(kind)
    inside = sorted(made.iterdir()) if isinstance(made, Path) and made.is_dir() else made
    files = inside if isinstance(inside, list) else [inside]
    for i, file in enumerate(files):
        content = file.read_bytes()
        (place / file.name).write_bytes(damage(content) if i == which % len(files) else content)
    copies = [place / file.name for file in files]
    return place if inside is not made else copies[0] if isinstance(made, Path) else copies


def check_damage(case: tuple[str, int, Damage]) -> None:
    """A damaged file is read or refused, and nothing in it is run."""
    kind, which, damage = case
    if kind in UNSAFE:
        damage = Damage([], damage.cut)
    with folder() as place:
        path = damaged(place, kind, which, damage)
        with harmless():
            loaded, _ = outcome(lambda: samples.load(path), seconds=90)
        check_loaded(loaded)


def check_loaded(loaded: MultiViewDataset | None) -> None:
    """What was read is views, and a truth of as many samples."""
    if loaded is None:
        return
    for v in range(loaded.views.n_views):
        assert np.isfinite(loaded.views.to_dense(v, dtype=np.float64)).all()
    assert loaded.y is None or len(loaded.y) == len(loaded.views)


names = (
    st.sampled_from(["a", "b", "ids", "labels", "mask", "X", "X1", "X2", "Y", "id", "../up", "a/b"]) | texts
)


@st.composite
def contents(draw: Any) -> dict[str, Any]:
    """Arrays by name, most of them of as many rows, and some of them vectors."""
    n, found = draw(st.integers(0, 4)), {}
    for name in draw(st.lists(names, max_size=4, unique=True)):
        array = draw(arrays(draw(st.sampled_from([n, n, n, n, n + 1])), draw(st.integers(0, 3))))
        found[name] = array[:, 0] if array.shape[1] and draw(st.integers(0, 2)) == 0 else array
    return found


cells = st.sampled_from(
    ["1", "2.5", "-1e400", "nan", "", "x", '"', "a,b", "0x10", "007", "\t", "1e5", "é", "\0"]
)
rows = st.lists(st.lists(cells | texts, min_size=1, max_size=4), max_size=5)
tables = rows.map(lambda lines: "\n".join(",".join(line) for line in lines))
content_cases = st.one_of(
    st.tuples(st.sampled_from(["npz", "npy", "mat", "h5", "h5ad", "parquet"]), contents()),
    st.tuples(
        st.sampled_from(["csv", "tsv"]), st.lists(tables | st.text(max_size=30), min_size=1, max_size=2)
    ),
)


def _write_npz(place: Path, content: Any) -> Path:
    np.savez(place / "set.npz", **{name.replace("\0", ""): array for name, array in content.items()})
    return place / "set.npz"


def _write_npy(place: Path, content: Any) -> Path:
    for i, (name, array) in enumerate(content.items()):
        np.save(place / f"{name if name.isidentifier() else i}.npy", array)
    return place


def _write_mat(place: Path, content: Any) -> Path:
    savemat(place / "set.mat", content)
    return place / "set.mat"


def _write_h5(place: Path, content: Any) -> Path:
    with h5py.File(place / "set.h5", "w") as file:
        for name, array in content.items():
            file[name] = array
    return place / "set.h5"


def _write_h5ad(place: Path, content: Any) -> Path:
    n = max((len(array) for array in content.values()), default=0)
    whole = {name: array for name, array in content.items() if len(array) == n and array.ndim == 2}
    table = anndata.AnnData(obs=pd.DataFrame(index=list(map(str, range(n)))), obsm=whole)
    table.write_h5ad(place / "set.h5ad")
    return place / "set.h5ad"


def _write_parquet(place: Path, content: Any) -> Path:
    for i, (name, array) in enumerate(content.items()):
        frame = pd.DataFrame(array).rename(columns=str)
        frame.to_parquet(place / f"{name if name.isidentifier() else i}.parquet")
    return place


def _write_text(place: Path, content: Any, kind: str = "csv") -> Path:
    for i, text in enumerate(content):
        (place / f"{i}.{kind}").write_bytes(text.encode(errors="surrogatepass"))
    return place


ODD_WRITERS = {
    "npz": _write_npz,
    "npy": _write_npy,
    "mat": _write_mat,
    "h5": _write_h5,
    "h5ad": _write_h5ad,
    "parquet": _write_parquet,
    "csv": _write_text,
    "tsv": lambda place, content: _write_text(place, content, "tsv"),
}


def check_contents(case: tuple[str, Any]) -> None:
    """Any contents are views or refused, and what was read is written and read again as it was."""
    kind, content = case
    with folder() as place:
        try:
            path = ODD_WRITERS[kind](place, content)
        except Exception:  # noqa: BLE001 - the library does not store this, so nobody can give it to us
            return
        with harmless():
            loaded, _ = outcome(lambda: read_views(path), seconds=90)
        check_loaded(loaded)
        if loaded is not None:
            _check_converted(path, loaded, place / "out")


def _check_converted(path: Path, loaded: MultiViewDataset, target: Path) -> None:
    for out in (target.with_suffix(".npz"), target):
        written, refused = outcome(partial(convert, path, out))
        assert (written is None) == (not out.exists())
        if refused is None:
            again = read_views(out).views
            for v, name in enumerate(loaded.views.names):
                w = again.names.index(name if out.suffix else _file_name(name))
                dense = [views.to_dense(i, dtype=np.float64) for views, i in ((again, w), (loaded.views, v))]
                np.testing.assert_array_equal(dense[0], dense[1])
    assert not any(file.name.startswith(".") for file in target.parent.iterdir())
