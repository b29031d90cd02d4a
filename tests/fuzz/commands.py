"""The command with any words."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import strategies as st
from tests.cli.running import LABELS_TRUE, QUICK, VIEWS, run, save
from tests.fuzz.law import check_sentence, deadline
from tests.fuzz.rubbish import TEXTS
from tests.io.temporary import folder

from protocol_mvc.io.lock import is_lock_file
from protocol_mvc.methods.protocol.config import ProtocolConfig
from protocol_mvc.utils.config import flatten_config

CODES = {0, 2, 3, 4, 5}  # done, usage, data, doubt, model; 1 would be a fault of ours
FILES = [
    "views.npz",
    "\udcff\x1b[31m.csv",
    "a.csv",
    "b.csv",
    "labels.csv",
    "cut.npz",
    "wrong.mat",
    "notes.txt",
    "set.yaml",
    "bad.yaml",
]
FILES += [
    "run",
    "run/model",
    "torn",
    "nowhere",
    "nowhere/x",
    ".",
    "/",
    "/dev/null",
    "@digits:x",
    "@nothing",
    "-",
]
OUTPUTS = [
    "out",
    "out.csv",
    "out.parquet",
    "out.npy",
    "out.html",
    "out.npz",
    "out.h5",
    "run",
    "views.npz",
    "no/x.csv",
]
WORDS = [word for word in TEXTS if "\0" not in word and "\ud800" not in word]  # what a shell can pass on
NUMBERS = ["0", "1", "2", "3", "55", "56", "-1", "1e9", "99999999999999999999", "nan", "", "two", "2.5"]
SLOW = ("network", "schedule.n_", "schedule.min_steps", "structure", "pseudo_labels.partition")
FIELDS = [name.replace("__", ".") for name, _ in flatten_config(ProtocolConfig())]
SETTINGS = [
    *(name for name in FIELDS if not name.startswith(SLOW)),
    "scaling",
    "batch_size",
    "random_state",
    "device",
    "preset",
    "epsilonn",
    "",
]

VERBS = ["info", "fit", "predict", "transform", "report", "evaluate", "convert", "datasets", "datasets list"]
VERBS += ["datasets path", "datasets info", "demo", "fitt", ""]

numbers, files, outputs = st.sampled_from(NUMBERS), st.sampled_from(FILES), st.sampled_from(OUTPUTS)
settings = st.tuples(
    st.sampled_from(SETTINGS), numbers | st.sampled_from(["[1,2]", "{}", "true", "auto", "inf"])
)
options = st.one_of(
    st.tuples(st.just("-k"), st.just("3")),
    st.tuples(st.just("-k"), numbers),
    st.tuples(st.just("-o"), outputs | outputs | files),
    st.tuples(st.sampled_from(["--seed", "--n-clusters"]), numbers),
    st.tuples(st.just("--set"), settings.map("=".join) | st.sampled_from(WORDS)),
    st.tuples(st.just("--view"), st.sampled_from(["image", "text", "labels", *WORDS])),
    st.tuples(
        st.sampled_from(["--id-column", "--labels", "--device", "--preset", "--data-home"]),
        st.sampled_from(["id", "label", "cpu", *FILES, *WORDS]),
    ),
    st.tuples(st.just("--config"), files),
    st.tuples(st.just("--write-anndata"), outputs),
    st.tuples(st.just("--n-refits"), st.sampled_from(["0", "-1", "x"])),
    st.tuples(
        st.sampled_from(
            ["--json", "--quiet", "--force", "--fail-on-warning", "--resume", "--help", "--nothing"]
        )
    ),
    st.tuples(st.sampled_from(WORDS)),
)
cases = st.tuples(
    st.sampled_from([*VERBS, "fit", "fit", "predict", "report", "convert"]),
    st.lists(files | outputs, max_size=3),
    st.lists(options, max_size=4),
)
_store = TemporaryDirectory()


@cache
def prepared() -> Path:
    """A folder with data, a run, and things that are neither; made once."""
    place = Path(_store.name) / "place"
    place.mkdir()
    save(place / "views.npz", labels=LABELS_TRUE)
    for name, view in zip("ab", VIEWS, strict=True):
        lines = [",".join(["id", *(f"{name}{i}" for i in range(view.shape[1]))])]
        lines += [",".join([f"s{i}", *map(str, row)]) for i, row in enumerate(view)]
        (place / f"{name}.csv").write_text("\n".join(lines))
    (place / "labels.csv").write_text(
        "id,label\n" + "\n".join(f"s{i},{t}" for i, t in enumerate(LABELS_TRUE))
    )
    (place / "cut.npz").write_bytes((place / "views.npz").read_bytes()[:500])
    (place / "wrong.mat").write_bytes(b"MATLAB 5.0 MAT-file" + bytes(200))
    (place / "notes.txt").write_text("notes")
    shutil.copy(place / "a.csv", place / "\udcff\x1b[31m.csv")  # a name that no terminal can show
    (place / "set.yaml").write_text("losses: {temperature_class: 0.3}\n")
    (place / "bad.yaml").write_text("!!python/object/apply:os.system ['touch executed']\n")
    result = run("fit", place / "views.npz", "-k", 3, "-o", place / "run", *QUICK)
    assert result.exit_code == 0, result.output
    shutil.copytree(place / "run", place / "torn")
    (place / "torn" / "model" / "config.json").write_text("{}")
    return place


@contextmanager
def inside(place: Path) -> Iterator[None]:
    former = Path.cwd()
    os.chdir(place)
    try:
        yield
    finally:
        os.chdir(former)


def words_of(case: tuple[str, list[str], list[tuple[str, ...]]]) -> list[str]:
    """The words of a case, with those that keep it short."""
    verb, arguments, chosen = case
    words = [*verb.split(), *arguments, *(word for option in chosen for word in option)]
    if verb in ("fit", "info"):
        words += QUICK
    if verb == "demo":  # it takes a minute by design
        words += ["--ratio", "7"]
    return words


def check(case: tuple[str, list[str], list[tuple[str, ...]]]) -> None:
    """A telling exit code, one sentence or one document, and nothing half written."""
    words = words_of(case)
    with folder() as place:
        shutil.copytree(prepared(), place / "here")
        with inside(place / "here"), deadline(60):
            result = run(*words)
        if result.exit_code not in CODES:
            raise AssertionError(f"exit code {result.exit_code}: {words}") from result.exception
        _check_said(result, words)
        assert not (place / "here" / "executed").exists()
        assert [path for path in place.rglob("*") if is_lock_file(path.name)] == []
        if case[0] == "fit" and (place / "here" / "out").is_dir():  # finished, or to be gone on with
            assert {path.name for path in (place / "here" / "out").iterdir()} & {"run.json", "checkpoint"}


def _check_said(result: Any, words: list[str]) -> None:
    if "--json" in words and "--help" not in words:
        lines = result.stdout.splitlines()
        document = json.loads(result.stdout)
        assert len(lines) == 1
        assert document["ok"] == (result.exit_code == 0)
        if not document["ok"]:
            check_sentence(document["error"]["message"])
    elif result.exit_code in (3, 5):
        last = result.stderr.strip().splitlines()[-1]
        assert last.startswith("error: "), result.stderr
        check_sentence(last)
