"""The page is complete, safe and small, for any model."""

import json
import os
import re
from copy import copy
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.examples import TINY, blobs, tiny, with_gaps
from tests.report.factories import EVIL, facts_of_sizes, make_stability

from protocol_mvc import as_views
from protocol_mvc.report import charts, page, write_report
from protocol_mvc.report.text import shorten
from protocol_mvc.utils.config import update_config

VIEWS, LABELS_TRUE = blobs()
MODEL = tiny().fit(VIEWS)
STABILITY = make_stability([0.9, 0.8, 0.3], 90)
UNTRAINED = update_config(
    TINY,
    {
        "schedule__n_epochs_align": 0,
        "schedule__n_epochs_rebalance": 0,
    },
)
VOID = {"meta", "link", "path", "rect", "line", "use", "stop", "polyline", "input", "br"}


class Page(HTMLParser):
    """The elements, texts and data of a page; unbalanced tags are refused."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: dict[str, list[str]] = {}
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.open:
            self.text.setdefault(self.open[-1], []).append(data)

    def all(self, name: str) -> list[str]:
        return [value or "" for _, attrs in self.found for key, value in attrs.items() if key == name]

    def data(self) -> Any:
        return json.loads(self.text["script"][0])


def read(path: Path) -> Page:
    return Page(path.read_text("utf-8"))


@pytest.fixture(scope="module")
def full(tmp_path_factory) -> Path:
    """A report with everything in it."""
    path = tmp_path_factory.mktemp("report") / "full.html"
    given: dict[str, Any] = {"command": f"do {EVIL}", "stability": STABILITY, "source": EVIL}
    X = {EVIL: VIEWS[0], "plain": with_gaps(VIEWS)[1]}
    ids, labels_true = [f"{i}{EVIL}" for i in range(90)], [f"{EVIL}{y}" for y in LABELS_TRUE]
    given["colors"] = {EVIL: [f"{EVIL}{i % 30}" for i in range(90)], "age": np.arange(90) / 2}
    return write_report(tiny().fit(X), X, path, labels_true=labels_true, sample_ids=ids, **given)


def test_the_page_needs_no_network(full):
    found = read(full)
    assert all(link.startswith(("#", "data:,")) for name in ("href", "src") for link in found.all(name))
    assert not re.search(r"https?:|@import|url\((?!#)", full.read_text("utf-8"))
    assert "default-src 'none'" in found.all("content")[0]


def test_names_in_the_data_are_escaped(full):
    found = read(full)
    assert sum(tag == "script" for tag, _ in found.found) == 2
    assert "b" not in found.text
    assert "\u2028" not in "".join(found.text["script"])
    assert found.data()["points"]["id"][7] == f"7{EVIL}"
    assert found.data()["colors"]["color0"]["categories"][0][0] == shorten(f"{EVIL}0", 40)
    assert EVIL[:20] in "".join(found.text["th"])  # long names are cut in the middle


def test_the_content_security_policy_has_the_hashes_of_script_and_style(full):
    found = read(full)
    policy = found.all("content")[0]
    assert page._csp_hash(found.text["script"][1]) in policy
    assert page._csp_hash("".join(found.text["style"])) in policy


def test_the_page_is_well_formed(full):
    found = read(full)
    ids = found.all("id")
    assert len(set(ids)) == len(ids)
    assert {link[1:] for link in found.all("href") if link.startswith("#")} <= set(ids)
    assert set(found.all("for")) <= set(ids)
    levels = [int(tag[1]) for tag, _ in found.found if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(below - above <= 1 for above, below in pairwise(levels))
    assert ("html", {"lang": "en"}) in found.found
    assert all("type" in attrs for tag, attrs in found.found if tag == "button" and len(attrs) > 0)


def test_every_sample_is_on_the_map(full):
    points = read(full).data()["points"]
    assert {len(values) for values in points.values()} == {90}
    assert np.bincount(points["cluster"]).sum() == 90
    assert 0 <= min(points["confidence"]) <= max(points["confidence"]) <= 1000


def test_given_columns_color_the_map(full):
    found = read(full)
    truth, donor, age = found.data()["colors"].values()
    assert truth["name"] == "True class"
    assert (age["name"], age["low"], age["high"]) == ("age", 0, 44.5)
    assert found.data()["points"]["color2"][0] == 0
    assert found.data()["points"]["color2"][-1] == 1000
    assert len(donor["categories"]) == charts.MAX_CATEGORIES + 1
    assert max(found.data()["points"]["color1"]) == charts.MAX_CATEGORIES
    assert {"color0", "color1", "color2"} <= set(found.all("data-color")) & set(found.all("data-key"))


def test_a_color_of_another_length_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"90 samples.*donor.*has 3"):
        write_report(MODEL, VIEWS, tmp_path / "a.html", colors={"donor": ["a", "b", "c"]})
    assert list(tmp_path.iterdir()) == []


def test_the_map_can_be_saved_under_a_strict_policy(full):
    found = read(full)
    assert found.all("data-save") == ["svg", "png"]
    policy = found.all("content")[0]
    assert "blob:" not in policy
    assert "unsafe" not in policy


def test_bars_fit_their_column_and_the_longest_is_full(full):
    widths = [float(width[:-1]) for width in read(full).all("width") if width.endswith("%")]
    assert len(widths) > 20
    assert 0 <= min(widths) <= max(widths) == 100


def test_shades_of_the_contingency_table_are_those_of_the_style(full):
    style = full.read_text("utf-8")
    shades = {name.split()[0] for name in read(full).all("class") if re.match(r"h\d", name)}
    assert "h0" in shades
    assert {shade for shade in shades if not re.search(rf"\.{shade}\b", style)} == set()


def test_what_is_not_given_is_not_shown(full, tmp_path):
    text = write_report(MODEL, VIEWS, tmp_path / "plain.html").read_text("utf-8")
    for part in ('id="ground-truth"', "<dt>Stability</dt><dd>0", "<pre>"):
        assert part in full.read_text("utf-8")
        assert part not in text
    assert "random_state was None" not in text


def test_the_same_call_writes_the_same_bytes_over_the_old_ones(tmp_path):
    first = write_report(MODEL, VIEWS, tmp_path / "a.html").read_bytes()
    (tmp_path / "b.html").write_text("old")
    assert write_report(MODEL, VIEWS, str(tmp_path / "b.html")).read_bytes() == first


def test_a_model_without_its_embedding_computes_it_again(tmp_path):
    model = copy(MODEL)
    del model.embedding_
    assert (
        write_report(model, VIEWS, tmp_path / "a.html").read_bytes()
        == write_report(MODEL, VIEWS, tmp_path / "b.html").read_bytes()
    )


def test_a_loaded_model_has_the_same_report(tmp_path):
    MODEL.save(tmp_path / "model")
    loaded = type(MODEL).load(tmp_path / "model", device="cpu")
    found, known = (
        read(write_report(model, VIEWS, tmp_path / "a.html", labels_true=LABELS_TRUE))
        for model in (loaded, MODEL)
    )
    assert found.data() == known.data()
    assert found.text["dd"] == known.text["dd"]


@pytest.mark.parametrize(
    ("X", "params"),
    [
        ({"only": VIEWS[0]}, {}),
        (with_gaps(VIEWS), {"random_state": None}),
        ([x[:4] for x in VIEWS], {"n_clusters": 4}),
        ([x[:2] for x in VIEWS], {"n_clusters": 2}),
        ([np.ones((9, 2)), np.ones((9, 1))], {"n_clusters": 2}),
        (VIEWS, {"n_clusters": 60}),
        (VIEWS, {"config": UNTRAINED}),
    ],
)
def test_any_fit_has_a_report(tmp_path, X, params):
    model = tiny(**params).fit(X)
    found = read(write_report(model, X, tmp_path / "any.html"))
    assert len(found.data()["points"]["x"]) == len(as_views(X))


def render(sizes: list[int], monkeypatch, **given: Any) -> str:
    n, rng = sum(sizes), np.random.default_rng(0)
    monkeypatch.setattr(charts, "tsne_embedding", lambda x, seed, max_iter: x[:, :2])
    model = copy(MODEL)
    model.embedding_ = rng.normal(size=(n, 8))
    views, ids = as_views([np.ones((n, 5)), np.ones((n, 4))]), [f"sample-number-{i:08d}" for i in range(n)]
    facts = facts_of_sizes(sizes, **{"views": views, "sample_ids": ids, **given})
    return page.render(model, facts, None)


def big(n: int, k: int, monkeypatch) -> str:
    rng = np.random.default_rng(0)
    sizes = np.sort(rng.multinomial(n, rng.dirichlet(np.ones(k))))[::-1]
    colors = {"donor": rng.integers(0, 40, n).astype(str), "age": rng.normal(size=n)}
    return render(sizes.tolist(), monkeypatch, labels_true=np.repeat(np.arange(k), sizes), colors=colors)


def test_the_tables_by_hand(monkeypatch):
    refits = make_stability([0.9, 0.8, 0.0], 60)
    text = render([40, 20, 0], monkeypatch, confidence=np.linspace(1, 0.5, 60), stability=refits)
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", text)]
    rows = {re.sub(r"<.*>", "", first).strip(): others for first, *others in reversed(cells)}
    assert re.findall(r'class="size">(.*?)<', text) == ["40", "20"]
    assert rows["view_0"][:4] == ["5", "100%", "0.60", "–"]
    samples = [name for name in reversed(rows) if name.startswith("sample-")]
    assert samples == [f"sample-number-{59 - i:08d}" for i in range(page.N_LEAST_CONFIDENT)]


@pytest.mark.parametrize(("n", "k"), [(10_000, 10), (30_000, 200)])
def test_the_page_of_many_samples_is_small(monkeypatch, n: int, k: int):
    text = big(n, k, monkeypatch)
    assert len(text.encode()) < 1_500_000
    assert len(Page(text).data()["points"]["x"]) in range(9_500, 10_001)
    assert (f"{n:,} samples, with at least" in text) == (n > 10_000)


def test_lone_surrogates_are_written(tmp_path):
    ids = [f"\ud800{i}" for i in range(90)]
    assert write_report(MODEL, VIEWS, tmp_path / "a.html", sample_ids=ids).stat().st_size > 0


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")

    def fail(*args: Any) -> None:
        raise OSError("no space")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no space"):
        write_report(MODEL, VIEWS, path)
    assert os.listdir(tmp_path) == ["report.html"]
    assert path.read_text() == "old"


def test_folders_are_neither_made_nor_replaced(tmp_path):
    with pytest.raises(FileExistsError, match="folder"):
        write_report(MODEL, VIEWS, tmp_path)
    with pytest.raises(FileNotFoundError, match="folder"):
        write_report(MODEL, VIEWS, tmp_path / "none" / "report.html")
