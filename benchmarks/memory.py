"""Memory of the running process (Linux)."""

import re
import threading
from pathlib import Path
from typing import Self


class PeakMemory:
    """Context manager that samples the memory of this process every few milliseconds.

    Args:
        kind: Field of /proc/self/status: "VmRSS" is all resident memory, "RssAnon" leaves out mapped files.

    Attributes:
        before: Bytes at the start.
        peak: Largest number of bytes.
    """

    def __init__(self, kind: str = "VmRSS") -> None:
        self._pattern = re.compile(rf"{kind}:\s+(\d+) kB")

    def __enter__(self) -> Self:
        self._stop = threading.Event()
        self.before = self.peak = self._now()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.005):
            self.peak = max(self.peak, self._now())

    def _now(self) -> int:
        return 1024 * int(self._pattern.findall(Path("/proc/self/status").read_text())[0])
