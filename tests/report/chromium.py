"""A headless Chromium, spoken to over a pipe as its developer tools do: no driver, no port, no dependency."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

NAMES = ("chromium", "chromium-browser", "google-chrome")
# As root, which containers are run by, Chromium needs no-sandbox; the page is ours.
OPTIONS = [
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"),
    *("--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update"),
]
PATIENCE = 60.0  # seconds for any answer


class Chromium:
    """One browser with one page; leave the block to end it."""

    def __init__(self, profile: Path) -> None:
        """Start it; its profile goes into the given folder."""
        program = next(filter(None, map(shutil.which, NAMES)), None)
        assert program, f"none of {', '.join(NAMES)} is installed: run `make test-browser`, which installs it"
        (theirs_in, self._to), (self._from, theirs_out) = os.pipe(), os.pipe()
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (theirs_in, theirs_out)]  # clear of 3 and 4

        def connect() -> None:
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self._process = subprocess.Popen(
            [program, *OPTIONS, f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,
            preexec_fn=connect,
        )
        for end in (theirs_in, theirs_out, *ends):
            os.close(end)
        self.events: list[dict[str, Any]] = []
        self._session, self._last, self._rest = "", 0, b""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def __enter__(self) -> Self:
        """The browser itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the browser."""
        self._process.terminate()
        self._process.wait(PATIENCE)
        os.close(self._to)
        os.close(self._from)

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its answer; events on the way are kept."""
        self._last += 1
        session = {"sessionId": self._session} if self._session else {}
        message = {"id": self._last, "method": method, "params": params, **session}
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != self._last:
            self.events.append(answer)
        assert "error" not in answer, f"{method}: {answer['error']}"
        result: dict[str, Any] = answer["result"]
        return result

    def _read(self) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], max(until - time.monotonic(), 0))
            assert ready, f"Chromium said nothing for {PATIENCE:.0f} seconds"
            part = os.read(self._from, 2**20)
            assert part, "Chromium has ended"
            self._rest += part
        whole, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(whole)
        return message

    def open(self, path: Path, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Show a file in a window of that size, in light or dark."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.events.clear()
        self.ask("Page.navigate", url=path.resolve().as_uri())
        self.wait("document.readyState === 'complete'")
        self.settle()

    def run(self, expression: str) -> Any:
        """The value of an expression of JavaScript in the page."""
        answer = self.ask("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, f"{expression}: {answer['exceptionDetails']}"
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        """Until an expression is true."""
        until = time.monotonic() + PATIENCE
        while not self.run(condition):
            assert time.monotonic() < until, f"never true: {condition}"
            time.sleep(0.02)

    def settle(self) -> None:
        """Until what was asked for is drawn."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def move(self, x: float, y: float) -> None:
        """The mouse to a place in the window."""
        self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.settle()

    def scroll_to(self, selector: str) -> None:
        """Bring an element into the middle of the window, at once."""
        how = "{block: 'center', behavior: 'instant'}"
        self.run(f"document.querySelector({json.dumps(selector)}).scrollIntoView({how})")

    def text(self, selector: str) -> str:
        """What an element says."""
        return str(self.run(f"document.querySelector({json.dumps(selector)}).textContent"))

    def click(self, selector: str) -> None:
        """The mouse button on an element."""
        self.scroll_to(selector)
        box = self.run(f"document.querySelector({json.dumps(selector)}).getBoundingClientRect().toJSON()")
        at = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **at)
        self.settle()

    def press(self, key: str, text: str = "") -> None:
        """A key of the keyboard."""
        codes = {
            "Tab": 9,
            "Enter": 13,
            "Escape": 27,
            "ArrowLeft": 37,
            "ArrowUp": 38,
            "ArrowDown": 40,
            " ": 32,
        }
        given = {"key": key, "windowsVirtualKeyCode": codes.get(key, ord(key[0]))}
        self.ask("Input.dispatchKeyEvent", type="keyDown", text=text, **given)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **given)
        self.settle()

    def picture(self, path: Path) -> None:
        """The whole page, from top to bottom."""
        self.settle()
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.ask("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def complaints(self) -> list[dict[str, Any]]:
        """Errors that the page made so far."""
        kinds = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [event for event in self.events if event["method"] in kinds]

    def requests(self) -> list[str]:
        """Addresses that the page asked for so far."""
        sent = (event for event in self.events if event["method"] == "Network.requestWillBeSent")
        return [event["params"]["request"]["url"] for event in sent]
