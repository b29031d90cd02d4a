"""Hdigit at imbalance ratio 0.1, as in the paper: our scores beside K-means and the paper's own numbers.

The data file is not part of the library; without it the script tells where to put it. Run

    python examples/hdigit.py --out out
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from benchmarks import paper
from benchmarks.datasets import load_dataset
from sklearn.cluster import KMeans

from protocol_mvc import PROTOCOL
from protocol_mvc.evaluation.metrics import all_scores, matched_counts
from protocol_mvc.report import write_report

RATIO = 0.1  # smallest / largest class

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the report")
out = parser.parse_args().out

# 1. Two views of handwritten digits: MNIST (784 pixels) and USPS (256), different images of the same digit.
try:
    views, digit = load_dataset("hdigit", imbalance_ratio=RATIO, random_state=0)
except FileNotFoundError as error:
    print(error, file=sys.stderr)
    sys.exit(3)
print(f"{len(views)} samples, of the digits 0 to 9: {np.bincount(digit).tolist()}")

# 2. K-means on all pixels, from 0 to 1 in both views.
pixels = np.hstack([x / x.max() for x in views.arrays])
plain = KMeans(10, n_init=10, random_state=0).fit_predict(pixels)

# 3. This library, with nothing but its defaults.
model = PROTOCOL(n_clusters=10, random_state=0, verbose=1).fit(views)

# 4. The paper has no recall of the rarest classes; ours is the mean of the three smallest.
print(f"{'':22} ACC    NMI    PUR    tail")
for name, labels in (("K-means", plain), ("PROTOCOL, this run", model.labels_)):
    found = all_scores(digit, labels)
    print(f"{name:22}", "  ".join(f"{found[key]:.3f}" for key in ("acc", "nmi", "pur", "tail")))
for name, numbers in paper.main("hdigit", RATIO).items():
    print(f"{name + ', paper':22}", "  ".join(f"{value:.3f}" for value in numbers))
for name, hits, size in zip(range(10), *matched_counts(digit, model.labels_)[:2], strict=True):
    print(f"digit {name}: {hits} of {size} found")

# 5. One page to look at and to pass on.
out.mkdir(parents=True, exist_ok=True)
print(
    "report:",
    write_report(model, views, out / "report.html", labels_true=digit, source="hdigit at ratio 0.1"),
)
