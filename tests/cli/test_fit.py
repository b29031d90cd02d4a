"""A fit writes a whole run or nothing, whatever the format, and says how far to trust it."""

import csv
import io
import json
import signal
import subprocess
import sys
import time
import zipfile

import anndata
import h5py
import mudata
import numpy as np
import pandas as pd
import pytest
from scipy.io import savemat
from tests.cli.running import IDS, QUICKLY, TRUTH, VIEWS, document, refusal, run, save

from protocol_mvc import MFLVC, PROTOCOL
from protocol_mvc.exceptions import UnreliableClusterWarning
from protocol_mvc.partition.consensus import warn_unreliable
from protocol_mvc.training import checkpoint
from protocol_mvc.training.checkpoint import Checkpoint

NAMES = ("image", "text")
FRAMES = [
    pd.DataFrame(x, index=pd.Index(IDS, name="id")).add_prefix(name)
    for name, x in zip(NAMES, VIEWS, strict=True)
]


def fit(folder, *words):
    return run("fit", *words, "-k", 3, "-o", folder / "run", *QUICKLY)


def as_npz(folder):
    return [save(folder / "v.npz")]


def as_folder(folder):
    (folder / "v").mkdir()
    for name, array in zip((*NAMES, "ids"), (*VIEWS, IDS), strict=True):
        np.save(folder / "v" / f"{name}.npy", array)
    return [folder / "v"]


def as_mat(folder):
    savemat(folder / "v.mat", {"X1": VIEWS[0], "X2": VIEWS[1]})
    return [folder / "v.mat"]


def as_hdf5(folder):
    with h5py.File(folder / "v.h5", "w") as file:
        for name, array in zip(NAMES, VIEWS, strict=True):
            file[name] = array
        file["ids"] = IDS.tolist()
    return [folder / "v.h5"]


def as_tables(folder, suffix, write):
    paths = [folder / f"{name}.{suffix}" for name in NAMES]
    for frame, path in zip(FRAMES, paths, strict=True):
        write(frame, path)
    return paths


def as_csv(folder):
    return as_tables(folder, "csv", lambda frame, path: frame.to_csv(path))


def as_parquet(folder):
    return as_tables(folder, "parquet", lambda frame, path: frame.reset_index().to_parquet(path))


def as_h5ad(folder):
    obs = pd.DataFrame(index=pd.Index(IDS))
    anndata.AnnData(obs=obs, obsm=dict(zip(NAMES, VIEWS, strict=True))).write_h5ad(folder / "v.h5ad")
    return [folder / "v.h5ad"]


def as_h5mu(folder):
    parts = {name: anndata.AnnData(frame) for name, frame in zip(NAMES, FRAMES, strict=True)}
    with mudata.set_options(pull_on_update=False):
        mudata.MuData(parts).write(folder / "v.h5mu")
    return [folder / "v.h5mu"]


FORMATS = [as_folder, as_mat, as_hdf5, as_csv, as_parquet, as_h5ad, as_h5mu]


@pytest.mark.parametrize("write", FORMATS)
def test_identical_data_get_identical_labels_in_every_format(made, tmp_path, write):
    result = fit(tmp_path, *write(tmp_path))
    assert result.exit_code == 0, result.output
    assert [row["label"] for row in read(tmp_path)] == [row["label"] for row in read(made)]
    if write is not as_mat:
        assert [row["id"] for row in read(tmp_path)] == IDS.tolist()


def read(folder):
    with (folder / "run" / "labels.csv").open() as file:
        return list(csv.DictReader(file))


def test_a_run_tells_all_that_decided_it(made):
    found = json.loads((made / "run" / "run.json").read_text())
    model = PROTOCOL.load(made / "run" / "model")
    assert found["command"].startswith(f"protocol-mvc fit {made / 'views.npz'} -k 3 -o ")
    assert found["data"]["paths"] == [str(made / "views.npz")]
    assert found["views"] == {"image": 5, "text": 4}
    assert (found["settings"]["n_clusters"], found["settings"]["seed"], found["settings"]["rounds"]) == (
        3,
        0,
        1,
    )
    assert [c["size"] for c in found["clusters"]] == model.cluster_sizes_.tolist()
    assert found["scores"]["acc"] == pytest.approx(model_accuracy(model), abs=1e-4)
    assert found["environment"] == model.environment_
    assert [row["label"] for row in read(made)] == [str(label) for label in model.labels_]


def model_accuracy(model):
    from protocol_mvc.evaluation.metrics import clustering_accuracy

    return clustering_accuracy(TRUTH, model.labels_)


def test_results_go_to_stdout_and_messages_to_stderr(tmp_path):
    result = fit(tmp_path, save(tmp_path / "v.npz"))
    assert "confidence" in result.stdout
    assert "3 clusters" in result.stdout
    assert "Fitting to" in result.stderr
    assert "Run:" in result.stderr
    assert "Run:" not in result.stdout
    quiet = run("fit", tmp_path / "v.npz", "-k", 3, "-o", tmp_path / "other", *QUICKLY, "-q")
    assert (quiet.stdout, quiet.stderr) == (result.stdout, "")


def test_the_document_is_the_record(tmp_path):
    found = document(fit(tmp_path, save(tmp_path / "v.npz"), "--json"))
    stored = json.loads((tmp_path / "run" / "run.json").read_text())
    assert found == {"ok": True, "run": str(tmp_path / "run"), **stored}
    assert stored["scores"] is None


def test_the_seed_decides(tmp_path):
    data = save(tmp_path / "v.npz")
    labels = []
    for name, words in (("a", ""), ("b", "--seed 0"), ("c", "--set seed=0")):
        assert (
            run("fit", data, "-k", 3, "-o", tmp_path / name / "run", *QUICKLY, *words.split()).exit_code == 0
        )
        labels.append([row["proba_0"] for row in read(tmp_path / name)])
    assert labels[0] == labels[1] == labels[2]


def test_a_config_file_is_overridden_by_flags(tmp_path):
    (tmp_path / "c.yaml").write_text("n_clusters: 5\nseed: 4\nmix: 0.25\n")
    found = document(fit(tmp_path, save(tmp_path / "v.npz"), "--config", tmp_path / "c.yaml", "--json"))
    settings = found["settings"]
    assert (settings["n_clusters"], settings["seed"], settings["mix"]) == (3, 4, 0.25)


def test_doubts_are_messages_and_under_strict_an_exit_code(tmp_path, monkeypatch):
    whole = PROTOCOL.fit

    def doubtful(self, X, y=None, **params):
        whole(self, X, **params)
        warn_unreliable(["Clusters [2] are doubtful."])
        return self

    monkeypatch.setattr(PROTOCOL, "fit", doubtful)
    data = save(tmp_path / "v.npz")
    assert "warning: Clusters [2] are doubtful." in fit(tmp_path, data).stderr
    result = fit(tmp_path, data, "--strict", "--force", "--json")
    assert result.exit_code == 4
    found = document(result)
    assert found["error"]["code"] == 4
    assert found["warnings"][-1:] == ["Clusters [2] are doubtful."]
    assert (tmp_path / "run" / "run.json").exists()
    assert issubclass(UnreliableClusterWarning, UserWarning)


def test_a_run_is_replaced_only_if_asked(made, tmp_path):
    data = save(tmp_path / "v.npz")
    assert fit(tmp_path, data).exit_code == 0
    again = fit(tmp_path, data)
    assert again.exit_code == 2
    assert "add --force" in again.stderr
    assert fit(tmp_path, data, "--force", "--seed", 3).exit_code == 0
    assert json.loads((tmp_path / "run" / "run.json").read_text())["settings"]["seed"] == 3


def test_labels_are_written_back_into_a_copy(tmp_path):
    (source,) = as_h5ad(tmp_path)
    before = source.read_bytes()
    result = fit(tmp_path, source, "--write-back", tmp_path / "out.h5ad")
    assert result.exit_code == 0, result.output
    assert source.read_bytes() == before
    found = anndata.read_h5ad(tmp_path / "out.h5ad")
    assert found.obs["protocol_mvc"].astype(str).tolist() == [row["label"] for row in read(tmp_path)]
    assert found.obsm["X_protocol_mvc"].shape[0] == len(IDS)
    assert fit(tmp_path, source, "--write-back", tmp_path / "out.h5ad", "--force").exit_code == 0


@pytest.mark.parametrize(
    ("target", "says"), [("v.npz", "must end in one of .h5ad"), ("v.h5ad", "choose another name")]
)
def test_only_copies_of_annotated_files_are_written(tmp_path, target: str, says: str):
    result = fit(tmp_path, *as_h5ad(tmp_path), "--write-back", tmp_path / target)
    assert result.exit_code == 2
    assert says in result.stderr
    other = fit(tmp_path, save(tmp_path / "v.npz"), "--write-back", tmp_path / "out.h5ad")
    assert "a single .h5mu or .h5ad" in other.stderr
    assert not (tmp_path / "run").exists()


def wrong_file(folder):
    (folder / "v.npz").write_text("This is a letter.")
    return [folder / "v.npz"]


def wrong_key(folder):
    return [save(folder / "v.npz"), "--view", "sound"]


def unaligned_ids(folder):
    FRAMES[0].to_csv(folder / "image.csv")
    FRAMES[1].rename_axis("cell").to_csv(folder / "text.csv")
    return [folder / "image.csv", folder / "text.csv", "--id", "id"]


def missing_column(folder):
    return [*as_csv(folder), "--truth", "kind"]


def truncated_archive(folder):
    path = save(folder / "v.npz")
    path.write_bytes(path.read_bytes()[:-300])
    return [path]


def pickled_archive(folder):
    return [save(folder / "v.npz", other=np.array([{}], dtype=object))]


def zip_bomb(folder):
    header = io.BytesIO()
    form = {"descr": "<f8", "fortran_order": False, "shape": (2**21, 8)}
    np.lib.format.write_array_header_1_0(header, form)
    with zipfile.ZipFile(folder / "v.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("image.npy", header.getvalue() + bytes(2**27))
    return [folder / "v.npz"]


def text_for_numbers(folder):
    path, _ = as_csv(folder)
    path.write_text(path.read_text().replace("s3,", "s3,many", 1))
    return [path]


def nothing_there(folder):
    return [folder / "no.npz"]


def too_many_clusters(folder):
    return [save(folder / "v.npz", rows=slice(2))]


def no_such_device(folder):
    return [save(folder / "v.npz"), "--device", "abacus"]


FAULTS = [wrong_file, wrong_key, unaligned_ids, missing_column, truncated_archive, pickled_archive, zip_bomb]
FAULTS += [text_for_numbers, nothing_there, too_many_clusters, no_such_device]


@pytest.mark.parametrize("make", FAULTS)
def test_bad_data_end_in_one_sentence_and_nothing_is_written(tmp_path, make):
    words = make(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    refusal(fit(tmp_path, *words, "--quiet"), 3)
    result = fit(tmp_path, *words, "--json")
    assert result.exit_code == 3
    assert document(result)["error"]["code"] == 3
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-k", 3], "Missing option"),
        (["-o", "run"], "say how many clusters"),
        (["-k", 1, "-o", "run"], "-k"),
        (["-k", 3, "-o", "run", "--set", "mixx=1"], "did you mean 'mix'"),
        (["-k", 3, "-o", "run", "--colour"], "No such option"),
    ],
)
def test_wrong_words_are_usage_errors(tmp_path, monkeypatch, words, says: str):
    monkeypatch.chdir(tmp_path)
    data = save(tmp_path / "v.npz")
    result = run("fit", data, *words)
    assert result.exit_code == 2
    assert says in result.stderr
    assert document(run("fit", data, *words, "--json"))["error"]["code"] == 2
    assert not (tmp_path / "run").exists()


class StopError(KeyboardInterrupt):
    """Ctrl-C at a moment of our choice."""


@pytest.fixture
def stopped(tmp_path, monkeypatch):
    """The arguments of a fit that was stopped after two epochs, and what it said."""
    whole, states = Checkpoint.on_epoch_start, []

    def interrupt(self, state):
        whole(self, state)
        states.append(state)
        if len(states) == 3:
            raise StopError

    data = save(tmp_path / "v.npz")
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "SAVE_INTERVAL", 0.0)
        patch.setattr(Checkpoint, "on_epoch_start", interrupt)
        return data, fit(tmp_path, data, "--seed", 0)


def test_ctrl_c_keeps_the_work_and_tells_how_to_go_on(tmp_path, stopped):
    data, result = stopped
    assert result.exit_code == 130
    assert "--resume" in result.stderr.splitlines()[-1]
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["checkpoint"]
    assert fit(tmp_path, data, "--seed", 0).exit_code == 2
    assert "holds a fit that was stopped" in fit(tmp_path, data, "--seed", 0).stderr
    assert fit(tmp_path, data, "--seed", 0, "--resume").exit_code == 0
    assert not (tmp_path / "run" / "checkpoint").exists()
    labels = (tmp_path / "run" / "labels.csv").read_bytes()
    assert fit(tmp_path, data, "--seed", 0, "--force").exit_code == 0
    assert (tmp_path / "run" / "labels.csv").read_bytes() == labels


def test_a_stopped_fit_of_something_else_is_not_gone_on_with(tmp_path, stopped):
    data, _ = stopped
    result = fit(tmp_path, data, "--resume", "--seed", "5")
    assert result.exit_code == 3
    assert "had another random_state" in result.stderr
    assert fit(tmp_path, data, "--force", "--seed", "5").exit_code == 0


def test_other_verbs_tell_that_a_fit_was_stopped(tmp_path, stopped):
    result = run("predict", tmp_path / "run", stopped[0], "-o", tmp_path / "l.csv")
    assert result.exit_code == 5
    assert "the fit was stopped" in result.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_a_fit_in_order(tmp_path, number: signal.Signals, code: int):
    data = save(tmp_path / "v.npz")
    words = ["fit", data, "-k", "3", "-o", tmp_path / "run", *QUICKLY, "--set", "reconstruct_length=100000"]
    command = [sys.executable, "-m", "protocol_mvc", *map(str, words)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("Fitting to")
        time.sleep(1)
        process.send_signal(number)
        said = process.stderr.read()
    assert process.returncode == code
    assert said.startswith("Stopped; to go on: protocol-mvc fit ")
    assert said.endswith("--resume\n")
    assert "Traceback" not in said


def test_any_method_can_be_fitted_and_used(tmp_path):
    fields = {"hidden": [16], "latent": 8, "feature": 8, "kmeans_starts": 2}
    fields |= {"reconstruct_length": 2, "contrast_length": 2, "match_length": 2}
    words = [word for name, value in fields.items() for word in ("--set", f"{name}={json.dumps(value)}")]
    data = save(tmp_path / "v.npz")
    made = run("fit", data, "-k", 3, "--method", "MFLVC", "-o", tmp_path / "run", *words, "--json")
    assert document(made)["settings"]["method"] == "mflvc"
    model = MFLVC.load(tmp_path / "run" / "model")
    labels = document(run("predict", tmp_path / "run", data, "--json"))["labels"]
    assert labels == model.labels_.tolist()
    assert run("report", tmp_path / "run").exit_code == 0
    assert "MFLVC" in (tmp_path / "run" / "report.html").read_text()
