"""Hdigit at imbalance ratio 0.1: scores beside those of k-means and of the paper.

The data file, `hdigit.npz` or `Hdigit.mat`, is not part of the library; docs/datasets.md describes it. Run

    python examples/hdigit.py path/to/hdigit.npz --out out
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans

from protocol_mvc import PROTOCOL
from protocol_mvc.data import imbalanced_subset
from protocol_mvc.evaluation.metrics import all_scores, matched_counts
from protocol_mvc.io import read_views
from protocol_mvc.report import write_report

RATIO = 0.1  # size of the smallest class / size of the largest
PAPER = {"SEM, paper": (0.825, 0.835, 0.947), "PROTOCOL, paper": (0.892, 0.914, 0.960)}  # ACC, NMI, PUR

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("data", type=Path, help="the data file")
parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the report")
options = parser.parse_args()

# 1. Two views of handwritten digits: MNIST (784 pixels) and USPS (256), different images of the same digit.
try:
    dataset = read_views(options.data)
except (FileNotFoundError, ValueError) as error:
    sys.exit(str(error))
rows = imbalanced_subset(dataset.y, RATIO, random_state=0)
views, digit = dataset.views[rows], dataset.y[rows]
print(f"{len(views)} samples, of the digits 0 to 9: {np.unique(digit, return_counts=True)[1].tolist()}")

# 2. Baseline: k-means on the concatenated pixels, scaled to [0, 1].
pixels = np.hstack([x / x.max() for x in views.arrays])
baseline = KMeans(10, n_init=10, random_state=0).fit_predict(pixels)

# 3. PROTOCOL with its default config.
model = PROTOCOL(n_clusters=10, random_state=0, verbose=1).fit(views)

# 4. The paper reports no recall of rare classes; `tail` is the mean recall of the three smallest.
print(f"{'':22} ACC    NMI    PUR    tail")
for name, labels in (("K-means", baseline), ("PROTOCOL, this run", model.labels_)):
    scores = all_scores(digit, labels)
    print(f"{name:22}", "  ".join(f"{scores[key]:.3f}" for key in ("acc", "nmi", "pur", "tail")))
for name, values in PAPER.items():
    print(f"{name:22}", "  ".join(f"{value:.3f}" for value in values))
for number, hits, size in zip(range(10), *matched_counts(digit, model.labels_)[:2], strict=True):
    print(f"digit {number}: {hits} of {size} found")

# 5. The HTML report, one file that works offline.
options.out.mkdir(parents=True, exist_ok=True)
path = write_report(model, views, options.out / "report.html", labels_true=digit, source=options.data)
print("report:", path)
