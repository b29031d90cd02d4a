"""A fit writes a complete run or nothing, and an interrupted fit continues to the same result."""

import csv
import io
import json
import shlex
import signal
import subprocess
import sys
import zipfile
from unittest.mock import Mock

import anndata
import h5py
import mudata
import numpy as np
import pandas as pd
import pytest
from scipy.io import savemat
from tests.cli.running import (
    IDS,
    LABELS_TRUE,
    QUICK,
    VIEWS,
    document,
    error_line,
    run,
    save,
    set_options,
)
from tests.methods.small import small_config

from protocol_mvc import MFLVC, PROTOCOL
from protocol_mvc.evaluation.metrics import clustering_accuracy
from protocol_mvc.io.lock import lock_folder
from protocol_mvc.partition.consensus import warn_unreliable
from protocol_mvc.training import checkpoint
from protocol_mvc.training.checkpoint import Checkpoint

NAMES = ("image", "text")
FRAMES = [
    pd.DataFrame(x, index=pd.Index(IDS, name="id")).add_prefix(name)
    for name, x in zip(NAMES, VIEWS, strict=True)
]


def fit(folder, *words):
    return run("fit", *words, "-k", 3, "-o", folder / "run", *QUICK)


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
def test_identical_data_get_identical_labels_in_every_format(fitted, tmp_path, write):
    result = fit(tmp_path, *write(tmp_path))
    assert result.exit_code == 0, result.output
    assert [row["label"] for row in read(tmp_path)] == [row["label"] for row in read(fitted)]
    if write is not as_mat:
        assert [row["id"] for row in read(tmp_path)] == IDS.tolist()


def read(folder):
    with (folder / "run" / "labels.csv").open() as file:
        return list(csv.DictReader(file))


def test_the_record_holds_data_settings_and_results(fitted):
    found = json.loads((fitted / "run" / "run.json").read_text())
    model = PROTOCOL.load(fitted / "run" / "model")
    assert found["command"].startswith(f"protocol-mvc fit {fitted / 'views.npz'} -k 3 -o ")
    assert found["data"]["paths"] == [str(fitted / "views.npz")]
    assert found["data"]["sha256"] == model.data_hash_
    assert found["n_features"] == {"image": 5, "text": 4}
    assert (found["settings"]["n_clusters"], found["settings"]["random_state"]) == (3, 0)
    assert [c["size"] for c in found["clusters"]] == model.cluster_sizes_.tolist()
    assert found["scores"]["acc"] == pytest.approx(clustering_accuracy(LABELS_TRUE, model.labels_), abs=1e-4)
    assert found["environment"] == model.environment_
    assert [row["label"] for row in read(fitted)] == [str(label) for label in model.labels_]


def test_results_go_to_stdout_and_messages_to_stderr(tmp_path):
    data = save(tmp_path / "v.npz")
    result = fit(tmp_path, data)
    assert "confidence" in result.stdout
    assert str(tmp_path / "run") in result.stderr
    assert str(tmp_path / "run") not in result.stdout
    quiet = run("fit", data, "-k", 3, "-o", tmp_path / "other", *QUICK, "-q")
    assert (quiet.exit_code, quiet.stdout, quiet.stderr) == (0, "", "")


def test_the_document_is_the_record(tmp_path):
    found = document(fit(tmp_path, save(tmp_path / "v.npz"), "--json"))
    stored = json.loads((tmp_path / "run" / "run.json").read_text())
    assert found == {"ok": True, "run": str(tmp_path / "run"), **stored}
    assert stored["scores"] is None


def test_seeds_and_recorded_settings_reproduce_a_fit(fitted, tmp_path):
    settings = json.loads((fitted / "run" / "run.json").read_text())["settings"]
    (tmp_path / "c.json").write_text(json.dumps(settings))
    data = fitted / "views.npz"
    for name, words in {"a": [*QUICK, "--seed", 0], "b": ["--config", tmp_path / "c.json"]}.items():
        assert run("fit", data, "-k", 3, "-o", tmp_path / name / "run", *words).exit_code == 0
        assert read(tmp_path / name) == read(fitted)


def test_flags_override_a_config_file(tmp_path):
    (tmp_path / "c.yaml").write_text("n_clusters: 5\nrandom_state: 4\nnetwork: {logit_scale: 0.3}\n")
    words = ["--config", tmp_path / "c.yaml", "--set", "losses.temperature_class=0.2", "--json"]
    settings = document(fit(tmp_path, save(tmp_path / "v.npz"), *words))["settings"]
    assert (settings["n_clusters"], settings["random_state"]) == (3, 4)
    assert (settings["network"]["logit_scale"], settings["losses"]["temperature_class"]) == (0.3, 0.2)


def test_warnings_are_messages_and_may_be_an_exit_code(tmp_path, monkeypatch):
    original = PROTOCOL.fit

    def doubtful(self, X, y=None, **params):
        original(self, X, **params)
        warn_unreliable(["Clusters [2] are doubtful."])
        return self

    monkeypatch.setattr(PROTOCOL, "fit", doubtful)
    data = save(tmp_path / "v.npz")
    assert "warning: Clusters [2] are doubtful." in fit(tmp_path, data).stderr
    result = fit(tmp_path, data, "--fail-on-warning", "--force", "--json")
    assert result.exit_code == 4
    found = document(result)
    assert found["error"]["code"] == 4
    assert found["warnings"][-1:] == ["Clusters [2] are doubtful."]
    assert (tmp_path / "run" / "run.json").exists()


def test_a_run_is_overwritten_only_with_force(tmp_path):
    data = save(tmp_path / "v.npz")
    assert fit(tmp_path, data).exit_code == 0
    again = fit(tmp_path, data)
    assert again.exit_code == 2
    assert "--force" in again.stderr
    assert fit(tmp_path, data, "--force", "--seed", 3).exit_code == 0
    assert json.loads((tmp_path / "run" / "run.json").read_text())["settings"]["random_state"] == 3


def test_a_folder_in_use_is_refused(tmp_path):
    with lock_folder(tmp_path / "run"):
        assert str(tmp_path / "run") in error_line(fit(tmp_path, save(tmp_path / "v.npz")), 3)


def test_labels_are_written_into_a_copy_of_an_annotated_file(tmp_path):
    (source,) = as_h5ad(tmp_path)
    before = source.read_bytes()
    result = fit(tmp_path, source, "--write-anndata", tmp_path / "out.h5ad")
    assert result.exit_code == 0, result.output
    assert source.read_bytes() == before
    found = anndata.read_h5ad(tmp_path / "out.h5ad")
    assert found.obs["protocol_mvc"].astype(str).tolist() == [row["label"] for row in read(tmp_path)]
    assert found.obsm["X_protocol_mvc"].shape[0] == len(IDS)
    assert fit(tmp_path, source, "--write-anndata", tmp_path / "out.h5ad", "--force").exit_code == 0


@pytest.mark.parametrize("target", ["v.npz", "v.h5ad"])
def test_only_copies_of_annotated_files_are_written(tmp_path, target: str):
    result = fit(tmp_path, *as_h5ad(tmp_path), "--write-anndata", tmp_path / target)
    assert result.exit_code == 2
    assert target in result.stderr
    other = fit(tmp_path, save(tmp_path / "w.npz"), "--write-anndata", tmp_path / "out.h5ad")
    assert other.exit_code == 2
    assert "--write-anndata" in other.stderr
    assert not (tmp_path / "run").exists()


def wrong_file(folder):
    (folder / "v.npz").write_text("This is a letter.")
    return [folder / "v.npz"]


def wrong_key(folder):
    return [save(folder / "v.npz"), "--view", "sound"]


def unaligned_ids(folder):
    FRAMES[0].to_csv(folder / "image.csv")
    FRAMES[1].rename_axis("cell").to_csv(folder / "text.csv")
    return [folder / "image.csv", folder / "text.csv", "--id-column", "id"]


def missing_column(folder):
    return [*as_csv(folder), "--labels", "kind"]


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
def test_bad_data_give_one_error_line_and_nothing_is_written(tmp_path, make):
    words = make(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    error_line(fit(tmp_path, *words, "--quiet"), 3)
    result = fit(tmp_path, *words, "--json")
    assert result.exit_code == 3
    assert document(result)["error"]["code"] == 3
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("words", "culprit"),
    [
        (["-k", 3], "--output"),
        (["-k", 1, "-o", "run"], "n_clusters"),
        (["-k", 3, "-o", "run", "--set", "epsilonn=1"], "pseudo_labels.epsilon"),
        (["-k", 3, "-o", "run", "--colour"], "--colour"),
    ],
)
def test_wrong_options_are_usage_errors(tmp_path, monkeypatch, words, culprit: str):
    monkeypatch.chdir(tmp_path)
    data = save(tmp_path / "v.npz")
    result = run("fit", data, *words)
    assert result.exit_code == 2
    assert culprit in result.stderr
    assert document(run("fit", data, *words, "--json"))["error"]["code"] == 2
    assert not (tmp_path / "run").exists()


@pytest.fixture
def stopped(tmp_path, monkeypatch):
    """The data and the result of a fit that was interrupted after two epochs."""
    original, states = Checkpoint.on_epoch_start, []

    def on_epoch_start(self, state):
        original(self, state)
        states.append(state)
        if len(states) == 3:
            raise KeyboardInterrupt

    data = save(tmp_path / "v.npz")
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "SAVE_INTERVAL", 0.0)
        patch.setattr(Checkpoint, "on_epoch_start", on_epoch_start)
        return data, fit(tmp_path, data, "--seed", 0)


def advised(result):
    """Run the command that an interrupted fit has printed."""
    return run(*shlex.split(result.stderr.rpartition(" protocol_mvc ")[2]))


def test_ctrl_c_keeps_a_checkpoint_and_prints_the_command_that_continues(tmp_path, stopped):
    data, result = stopped
    assert result.exit_code == 130
    assert "--resume" in result.stderr.splitlines()[-1]
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["checkpoint"]
    again = fit(tmp_path, data, "--seed", 0)
    assert again.exit_code == 2
    assert "--resume" in again.stderr
    assert advised(result).exit_code == 0
    assert not (tmp_path / "run" / "checkpoint").exists()
    labels = (tmp_path / "run" / "labels.csv").read_bytes()
    assert fit(tmp_path, data, "--seed", 0, "--force").exit_code == 0
    assert (tmp_path / "run" / "labels.csv").read_bytes() == labels


def test_what_is_replaced_stays_until_the_new_is_there(tmp_path, stopped, monkeypatch):
    data, _ = stopped
    (before,) = (tmp_path / "run" / "checkpoint").iterdir()
    state = before.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "on_epoch_start", Mock(side_effect=KeyboardInterrupt))
        restarted = fit(tmp_path, data, "--seed", 5, "--force")
    assert before.read_bytes() == state
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["checkpoint"]
    assert advised(restarted).exit_code == 0
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "SAVE_INTERVAL", 0.0)
        patch.setattr(Checkpoint, "on_train_end", Mock(side_effect=KeyboardInterrupt))
        replaced = fit(tmp_path, data, "--seed", 0, "--force")
    assert json.loads((tmp_path / "run" / "run.json").read_text())["settings"]["random_state"] == 5
    assert "--resume" in replaced.stderr
    assert advised(replaced).exit_code == 0
    assert json.loads((tmp_path / "run" / "run.json").read_text())["settings"]["random_state"] == 0
    assert not (tmp_path / "run" / "checkpoint").exists()


def test_an_interrupted_fit_of_another_seed_is_not_continued(tmp_path, stopped):
    data, _ = stopped
    result = fit(tmp_path, data, "--resume", "--seed", "5")
    assert result.exit_code == 3
    assert "random_state" in result.stderr
    assert fit(tmp_path, data, "--force", "--seed", "5").exit_code == 0


def test_an_interrupted_fit_is_not_a_model(tmp_path, stopped):
    result = run("predict", tmp_path / "run", stopped[0], "-o", tmp_path / "l.csv")
    assert "--resume" in error_line(result, 5)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_fit_with_its_exit_code(tmp_path, number: signal.Signals, code: int):
    data, epochs = save(tmp_path / "v.npz"), "schedule.n_epochs_align"
    words = ["fit", data, "-k", "3", "-o", tmp_path / "run", *QUICK, "--set", f"{epochs}=100000"]
    command = [sys.executable, "-m", "protocol_mvc", *map(str, words)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert any(line.startswith("Fitting") for line in process.stderr)
        process.send_signal(number)
        message = process.stderr.read()
    assert process.returncode == code
    assert message.splitlines()[-1].startswith("error: Stopped. To start again: python -m protocol_mvc fit ")
    assert "Traceback" not in message


def test_every_verb_works_with_another_method(tmp_path):
    words, data = set_options(dict(small_config("mflvc"))), save(tmp_path / "v.npz")
    made = run("fit", data, "-k", 3, "--method", "MFLVC", "-o", tmp_path / "run", *words, "--json")
    assert document(made)["settings"]["method"] == "mflvc"
    model = MFLVC.load(tmp_path / "run" / "model")
    labels = document(run("predict", tmp_path / "run", data, "--json"))["labels"]
    assert labels == model.labels_.tolist()
    assert run("report", tmp_path / "run").exit_code == 0
    assert "MFLVC" in (tmp_path / "run" / "report.html").read_text()
