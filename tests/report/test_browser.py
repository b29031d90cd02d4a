"""The report in a real browser: run by `make test-browser`; its pictures are in screenshots/."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.examples import blobs, tiny, with_gaps
from tests.report.chromium import Chromium
from tests.report.factories import EVIL, make_stability

from protocol_mvc.report import write_report

pytestmark = pytest.mark.browser

PICTURES = Path(__file__).parents[2] / "screenshots"
SIZES = {"desktop": 1280, "phone": 390, "narrow": 360}
# Every pixel of the map as one number, which changes with anything that is drawn.
DRAWN = """(() => {
  const canvas = document.querySelector("#plane canvas"), copy = document.createElement("canvas");
  [copy.width, copy.height] = [canvas.width, canvas.height];
  const context = copy.getContext("2d", { willReadFrequently: true });
  context.drawImage(canvas, 0, 0);
  const pixels = context.getImageData(0, 0, copy.width, copy.height).data;
  return pixels.reduce((sum, value, i) => (sum * 31 + value * (i % 97)) % 1000003, 7);
})()"""


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Path:
    views, labels_true = blobs((60, 40, 25, 15, 9, 6), (5, 4), noise=0.4)
    gaps = with_gaps(views)
    X = {"shape": gaps[0], EVIL: gaps[1]}
    epochs = {"config__schedule__n_epochs_reconstruct": 40, "config__schedule__n_epochs_rebalance": 30}
    model = tiny(6).set_params(**epochs).fit(X)
    stability = make_stability(np.linspace(1, 0.4, 6).tolist(), 155)
    ids = [f"sample {i} {EVIL}" for i in range(155)]
    path = tmp_path_factory.mktemp("report") / "report.html"
    return write_report(
        model,
        X,
        path,
        labels_true=labels_true,
        sample_ids=ids,
        stability=stability,
        command=f"fit {EVIL}",
        source="data.npz",
    )


@pytest.fixture(scope="module")
def long_names(tmp_path_factory) -> Path:
    """A report in which nothing that has a name has a short one."""
    views, labels_true = blobs((60, 20, 9))
    X = {f"{'view_without_a_blank_' * 9}{v}": x for v, x in enumerate(views)}
    path = tmp_path_factory.mktemp("report") / "long.html"
    ids, classes = [f"{'path/' * 60}{i}" for i in range(89)], [f"{'class_' * 40}{t}" for t in labels_true]
    given: dict[str, Any] = {"command": "x" * 999, "source": "folder/" * 99}
    return write_report(tiny().fit(X), X, path, sample_ids=ids, labels_true=classes, **given)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Chromium(tmp_path_factory.mktemp("profile")) as chromium:
        yield chromium


@pytest.fixture
def page(browser: Chromium, report: Path):
    """The report, just opened; there must be no complaint and no request but for the file itself."""
    browser.open(report)
    yield browser
    assert browser.complaints() == []
    assert browser.requests() == [report.resolve().as_uri()]


def pressed(page: Chromium, selector: str) -> Any:
    return page.run(f"document.querySelector('{selector}').getAttribute('aria-pressed')")


def place(page: Chromium, i: int) -> tuple[float, float]:
    """Where a point is in the window, reckoned as the page's own script does at zoom 1."""
    page.scroll_to("#plane")
    x, y = page.run(
        f"""(() => {{
          const p = JSON.parse(document.querySelector("#data").textContent).points;
          const w = Math.max(...p.x), h = Math.max(...p.y);
          const box = document.querySelector("#plane canvas").getBoundingClientRect();
          const s = Math.min((box.width - 40) / w, (box.height - 40) / h);
          const middle = [box.x + box.width / 2, box.y + box.height / 2];
          return [middle[0] + (p.x[{i}] - w / 2) * s, middle[1] + (p.y[{i}] - h / 2) * s];
        }})()"""
    )
    return x, y


def test_no_script_of_the_data_runs(page):
    assert page.run("document.querySelectorAll('script').length") == 2
    assert page.run("document.body.textContent.includes('alert')")


def test_the_legend_toggles_a_cluster(page):
    before = page.run(DRAWN)
    page.click("[data-cluster='1']")
    assert pressed(page, '[data-cluster="1"]') == "false"
    hidden = page.run(DRAWN)
    assert hidden != before
    page.click("[data-cluster='1']")
    assert page.run(DRAWN) == before
    page.click("[data-show='none']")
    assert page.run("document.querySelectorAll('[data-cluster][aria-pressed=true]').length") == 0
    assert page.run(DRAWN) not in (before, hidden)
    page.click("[data-show='all']")
    assert page.run(DRAWN) == before


@pytest.mark.parametrize("i", [0, 77, 154])
def test_pointing_at_a_sample_tells_its_id_cluster_and_confidence(page, i: int):
    page.move(*place(page, i))
    told = page.run("document.querySelector('#tip').innerText")
    data = page.run("JSON.parse(document.querySelector('#data').textContent).points")
    near = [j for j in range(155) if data["id"][j] in told]
    assert len(near) == 1
    assert np.hypot(data["x"][near[0]] - data["x"][i], data["y"][near[0]] - data["y"][i]) < 100
    assert f"Cluster {data['cluster'][near[0]]}" in told
    assert f"Confidence {data['confidence'][near[0]] / 1000:.2f}" in told
    assert not page.run("document.querySelector('#tip').hidden")
    page.move(2, 2)
    assert page.run("document.querySelector('#tip').hidden")


def test_colours_can_be_switched(page):
    seen = [page.run(DRAWN)]
    for name in ("confidence", "viewSet"):
        page.click(f"[data-color='{name}']")
        assert pressed(page, f"[data-color={name}]") == "true"
        assert pressed(page, "[data-color=cluster]") == "false"
        assert page.run(f"document.querySelector('[data-key={name}]').hidden") is False
        seen.append(page.run(DRAWN))
    page.click("[data-color='cluster']")
    assert len(set(seen)) == 3
    assert page.run(DRAWN) == seen[0]


def test_zoom_and_reset(page):
    before = page.run(DRAWN)
    page.click("[data-zoom='2']")
    near = page.run(DRAWN)
    assert near != before
    x, y = place(page, 0)
    page.ask("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, button="left")
    page.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x + 50, y=y + 20, button="left", buttons=1)
    page.ask("Input.dispatchMouseEvent", type="mouseReleased", x=x + 50, y=y + 20, button="left")
    page.move(2, 2)
    assert page.run(DRAWN) not in (before, near)
    page.click("[data-zoom='0']")
    page.move(2, 2)
    assert page.run(DRAWN) == before


def test_the_keyboard_reaches_and_moves_the_map(page):
    page.run("document.querySelector('#sample').focus()")
    page.press("Tab")  # the button beside the field
    page.press("Tab")
    assert page.run("document.activeElement.id") == "plane"
    assert page.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    before = page.run(DRAWN)
    page.press("+", "+")
    near = page.run(DRAWN)
    page.press("ArrowLeft")
    moved = page.run(DRAWN)
    page.press("0", "0")
    assert len({before, near, moved}) == 3
    assert page.run(DRAWN) == before
    page.press("Tab")
    page.press("Tab")
    page.press("Tab")
    assert page.run("document.activeElement.dataset.cluster") == "0"
    page.press(" ", " ")
    assert pressed(page, '[data-cluster="0"]') == "false"


def test_a_sample_can_be_found_by_name(page):
    page.click("[data-show='none']")
    page.run("document.querySelector('#sample').value = 'sample 33'")
    page.click("#find button")
    told = page.text("#status")
    assert told.startswith("Sample sample 33")
    assert "Confidence" in told
    assert "True class" in told
    page.run("document.querySelector('#sample').value = 'nobody'")
    page.click("#find button")
    assert "No sample on the map" in page.text("#status")


def test_the_histogram_of_one_cluster(page):
    cells = "[...document.querySelectorAll('#histogram td:nth-child(3)')]"
    counts = f"{cells}.map(cell => Number(cell.textContent))"
    assert sum(page.run(counts)) == 155
    page.run("document.querySelector('#which').focus()")
    page.press("ArrowDown")
    page.press("ArrowDown")
    assert sum(page.run(counts)) == int(page.text("[data-cluster='1'] span"))
    assert "cluster 1" in page.text("#histogram caption")


@pytest.mark.parametrize("width", SIZES.values())
def test_long_names_do_not_widen_the_page(browser, long_names, width: int):
    browser.open(long_names, width=width)
    browser.run("document.querySelectorAll('details').forEach(part => { part.open = true; })")
    assert browser.run("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", SIZES)
def test_the_page_fits_its_window(browser, report, name: str, dark: bool):
    PICTURES.mkdir(exist_ok=True)
    browser.open(report, width=SIZES[name], dark=dark)
    assert browser.run("document.documentElement.scrollWidth") <= SIZES[name]
    background = browser.run("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") != dark
    browser.picture(PICTURES / f"{name}_{'dark' if dark else 'light'}.png")
    assert browser.complaints() == []
    assert browser.requests() == [report.resolve().as_uri()]
