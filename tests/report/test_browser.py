"""The report in Chromium; run by `make test-browser`, which writes screenshots/."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.examples import blobs, tiny, with_gaps
from tests.report.factories import EVIL, make_stability

from protocol_mvc.report import write_report

pytestmark = pytest.mark.browser

SCREENSHOTS = Path(__file__).parents[2] / "screenshots"
WIDTHS = {"desktop": 1400, "phone": 400, "narrow": 360}
# Containers run as root, where Chromium needs --no-sandbox.
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
# A hash of the pixels of the map, after everything that was requested is drawn.
PIXELS = """async () => {
  await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
  const canvas = document.querySelector("#plane canvas"), copy = document.createElement("canvas");
  [copy.width, copy.height] = [canvas.width, canvas.height];
  const context = copy.getContext("2d", { willReadFrequently: true });
  context.drawImage(canvas, 0, 0);
  const pixels = context.getImageData(0, 0, copy.width, copy.height).data;
  return pixels.reduce((sum, value, i) => (sum * 31 + value * (i % 97)) % 1000003, 7);
}"""
# The position of point i in the window, at zoom 1.
POSITION = """i => {
  const p = JSON.parse(document.querySelector("#data").textContent).points;
  const w = Math.max(...p.x), h = Math.max(...p.y);
  const box = document.querySelector("#plane canvas").getBoundingClientRect();
  const s = Math.min((box.width - 40) / w, (box.height - 40) / h);
  return [box.x + box.width / 2 + (p.x[i] - w / 2) * s, box.y + box.height / 2 + (p.y[i] - h / 2) * s];
}"""


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Path:
    views, labels_true = blobs((60, 40, 25, 15, 9, 6), (5, 4), noise=0.4)
    incomplete = with_gaps(views)
    X = {"shape": incomplete[0], EVIL: incomplete[1]}
    epochs = {"config__schedule__n_epochs_align": 10, "config__schedule__n_epochs_rebalance": 30}
    return write_report(
        tiny(6).set_params(**epochs).fit(X),
        X,
        tmp_path_factory.mktemp("report") / "report.html",
        labels_true=labels_true,
        sample_ids=[f"sample {i} {EVIL}" for i in range(155)],
        stability=make_stability(np.linspace(1, 0.4, 6).tolist(), 155),
        command=f"fit {EVIL}",
        source="data.npz",
        colors={f"donor {EVIL}": [f"{EVIL}{i % 20}" for i in range(155)], "age": np.arange(155.0)},
    )


@pytest.fixture(scope="module")
def long_names(tmp_path_factory) -> Path:
    """A report in which every name is long."""
    views, labels_true = blobs((60, 20, 9))
    X = {f"{'view_without_a_blank_' * 9}{v}": x for v, x in enumerate(views)}
    return write_report(
        tiny().fit(X),
        X,
        tmp_path_factory.mktemp("report") / "long.html",
        labels_true=[f"{'class_' * 40}{y}" for y in labels_true],
        sample_ids=[f"{'path/' * 60}{i}" for i in range(89)],
        command="x" * 999,
        source="folder/" * 99,
    )


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright  # of the extra `browser`

    with sync_playwright() as playwright:
        path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
        with playwright.chromium.launch(executable_path=path, args=OPTIONS) as chromium:
            yield chromium


@pytest.fixture
def show(browser):
    """Open a report; it must write no message to the console and request nothing but its own file."""
    messages: list[str] = []
    requests: list[str] = []
    opened: list[Any] = []

    def open_report(path: Path, width: int = 1280, color_scheme: str = "light") -> Any:
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=color_scheme)
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.resolve().as_uri())
        opened.append((page, path))
        return page

    yield open_report
    assert messages == []
    own = [path.resolve().as_uri() for _, path in opened]
    assert [url for url in requests if not url.startswith("blob:")] == own  # a download may be reported
    for page, _ in opened:
        page.close()


@pytest.fixture
def page(show, report: Path):
    return show(report)


def is_pressed(page: Any, selector: str) -> bool:
    return bool(page.get_attribute(selector, "aria-pressed") == "true")


def position(page: Any, i: int) -> tuple[float, float]:
    page.locator("#plane").scroll_into_view_if_needed()
    x, y = page.evaluate(POSITION, i)
    return x, y


def test_scripts_in_the_data_do_not_run(page):
    assert page.locator("script").count() == 2
    assert "alert" in page.text_content("body")


def test_the_legend_toggles_clusters(page):
    before = page.evaluate(PIXELS)
    page.click("[data-cluster='1']")
    assert not is_pressed(page, "[data-cluster='1']")
    hidden = page.evaluate(PIXELS)
    assert hidden != before
    page.click("[data-cluster='1']")
    page.mouse.move(2, 2)
    assert page.evaluate(PIXELS) == before
    page.click("[data-show='none']")
    assert page.locator("[data-cluster][aria-pressed=true]").count() == 0
    assert page.evaluate(PIXELS) not in (before, hidden)
    page.click("[data-show='all']")
    assert page.evaluate(PIXELS) == before


@pytest.mark.parametrize("i", [0, 77, 154])
def test_the_tooltip_has_id_cluster_and_confidence(page, i: int):
    page.mouse.move(*position(page, i))
    page.wait_for_selector("#tip:not([hidden])")
    text = page.inner_text("#tip")
    points = page.evaluate("JSON.parse(document.querySelector('#data').textContent).points")
    (found,) = [j for j in range(155) if points["id"][j] in text]
    assert np.hypot(points["x"][found] - points["x"][i], points["y"][found] - points["y"][i]) < 100
    assert f"Cluster {points['cluster'][found]}" in text
    assert f"Confidence {points['confidence'][found] / 1000:.2f}" in text
    page.mouse.move(2, 2)
    page.wait_for_selector("#tip", state="hidden")


def test_colors_can_be_switched(page):
    seen = [page.evaluate(PIXELS)]
    for name in ("confidence", "viewSet", "color0", "color1", "color2"):
        page.click(f"[data-color='{name}']")
        assert is_pressed(page, f"[data-color='{name}']")
        assert not is_pressed(page, "[data-color='cluster']")
        assert page.is_visible(f"[data-key='{name}']")
        seen.append(page.evaluate(PIXELS))
    page.click("[data-color='cluster']")
    assert len(set(seen)) == 5  # the clusters are the true classes
    assert page.evaluate(PIXELS) == seen[0]


@pytest.mark.parametrize(("suffix", "start"), [("svg", b"<svg"), ("png", b"\x89PNG")])
def test_the_map_is_saved(page, suffix: str, start: bytes):
    before = page.evaluate(PIXELS)
    with page.expect_download() as download:
        page.click(f"[data-save={suffix}]")
    content = Path(download.value.path()).read_bytes()
    assert content.startswith(start)
    if suffix == "svg":
        assert content.count(b"<path") == 155
    assert page.evaluate(PIXELS) == before


def test_zoom_pan_and_reset(page):
    before = page.evaluate(PIXELS)
    page.click("[data-zoom='2']")
    near = page.evaluate(PIXELS)
    assert near != before
    x, y = position(page, 0)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 50, y + 20)
    page.mouse.up()
    page.mouse.move(2, 2)
    assert page.evaluate(PIXELS) not in (before, near)
    page.click("[data-zoom='0']")
    page.mouse.move(2, 2)
    assert page.evaluate(PIXELS) == before


def test_the_keyboard_reaches_and_moves_the_map(page):
    page.focus("#sample")
    page.keyboard.press("Tab")  # the button beside the field
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "plane"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    seen = [page.evaluate(PIXELS)]
    for key in ("+", "ArrowLeft", "0"):
        page.keyboard.press(key)
        seen.append(page.evaluate(PIXELS))
    assert len(set(seen[:3])) == 3
    assert seen[3] == seen[0]
    for _ in range(3):
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.dataset.cluster") == "0"
    page.keyboard.press("Space")
    assert not is_pressed(page, "[data-cluster='0']")


def test_a_sample_can_be_found_by_name(page):
    page.click("[data-show='none']")
    page.fill("#sample", "sample 33")
    page.click("#find button")
    text = page.text_content("#status")
    assert [part for part in ("sample 33", "Confidence", "True class") if part not in text] == []
    page.fill("#sample", "nobody")
    page.click("#find button")
    assert "nobody" in page.text_content("#status")


def test_a_cluster_under_the_pointer_or_the_focus_stands_out(page):
    before = page.evaluate(PIXELS)
    page.hover("[data-cluster='2']")
    assert page.evaluate(PIXELS) != before
    page.mouse.move(2, 2)
    assert page.evaluate(PIXELS) == before
    page.focus("[data-cluster='2']")
    assert page.evaluate(PIXELS) != before


def test_a_cluster_is_opened_by_the_keyboard(page):
    part = page.locator("details.cluster").first
    part.locator("summary").focus()
    page.keyboard.press("Enter")
    assert part.get_attribute("open") is not None
    assert part.locator("text=Typical samples").is_visible()


def test_all_of_it_is_printed(page):
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    assert not page.is_visible(".controls")
    page.pdf(path=SCREENSHOTS / "print.pdf")


def test_nothing_moves_by_itself(page):
    moving = (
        "getComputedStyle(e).animationName != 'none' || parseFloat(getComputedStyle(e).transitionDuration)"
    )
    assert page.evaluate(f"[...document.querySelectorAll('*')].filter(e => {moving}).length") == 0


@pytest.mark.parametrize("name", ["report", "long_names"])
def test_tables_and_trees_fit_a_phone(show, request, name: str):
    page = show(request.getfixturevalue(name), 400)
    page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true; })")
    wide = "e => e.getBoundingClientRect().right > innerWidth || e.parentElement.scrollWidth > innerWidth"
    parts = f"[...document.querySelectorAll('table, .tree, figure, pre')].filter({wide})"
    assert page.evaluate(f"{parts}.map(e => e.outerHTML.slice(0, 200))") == []


@pytest.mark.parametrize("width", WIDTHS.values())
def test_long_names_do_not_widen_the_page(show, long_names, width: int):
    page = show(long_names, width)
    page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("color_scheme", ["light", "dark"])
@pytest.mark.parametrize("name", WIDTHS)
def test_the_page_fits_its_window(show, report, name: str, color_scheme: str):
    SCREENSHOTS.mkdir(exist_ok=True)
    page = show(report, WIDTHS[name], color_scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= WIDTHS[name]
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (color_scheme == "light")
    page.screenshot(path=SCREENSHOTS / f"{name}_{color_scheme}.png", full_page=True)
