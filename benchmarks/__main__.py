"""Entry point of `python -m benchmarks`."""

import sys

from benchmarks.cli import app
from protocol_mvc.exceptions import DataFileError

if __name__ == "__main__":
    try:
        app(prog_name="python -m benchmarks")
    except (FileNotFoundError, DataFileError) as error:  # of a data set
        sys.exit(f"error: {error}")
