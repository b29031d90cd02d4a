"""CITE-seq: find rare cell types in RNA and surface proteins, and write the labels into the .h5mu file.

The counts are simulated: negative binomial, cells of different depth, proteins with background, one cell in
thirty without proteins. Read your own file instead of calling `simulate`. Run

    python examples/cite_seq.py --out out
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA

from protocol_mvc import PROTOCOL
from protocol_mvc.evaluation.metrics import clustering_accuracy, group_recall, matched_counts
from protocol_mvc.io import write_anndata
from protocol_mvc.report import write_report

try:
    import mudata
    from anndata import AnnData
except ImportError:
    sys.exit("This example needs mudata: pip install 'protocol-mvc[omics]'")

# Number of cells of each type, and the lineage whose genes the type shares.
TYPES = {"CD4 T": (340, 0), "CD14 mono": (220, 1), "B": (140, 2), "CD8 T": (120, 0), "NK": (90, 0)}
TYPES |= {"CD16 mono": (40, 1), "DC": (20, 1), "pDC": (15, 3), "plasma": (15, 2)}


def simulate(rng, n_genes=2000, n_proteins=25):
    """Return counts of genes (n, n_genes) and of proteins (n, n_proteins), and the cell types (n,)."""
    sizes, lineage = map(list, zip(*TYPES.values(), strict=True))
    kind = rng.permutation(np.repeat(np.arange(len(TYPES)), sizes))
    shared = rng.normal(size=(4, n_genes)) * 1.2 * (rng.random((4, n_genes)) < 0.05)
    own = np.abs(rng.normal(size=(len(TYPES), n_genes))) * 1.5 * (rng.random((len(TYPES), n_genes)) < 0.02)
    expected = rng.lognormal(-1, 1.5, size=n_genes) * np.exp(shared[lineage] + own)
    depth = rng.lognormal(np.log(2500), 0.4, size=(len(kind), 1))
    rna = (expected / expected.sum(axis=1, keepdims=True))[kind] * depth
    background, signal = rng.lognormal(np.log([[8], [80]]), 0.6, size=(2, n_proteins))
    carries = rng.random((len(TYPES), n_proteins)) < 0.2
    protein = (background + signal * carries[kind]) * rng.lognormal(0, 0.3, size=(len(kind), 1))
    count = lambda mean, spread: rng.poisson(rng.gamma(1 / spread, mean * spread)).astype(np.float32)
    return count(rna, 0.3), count(protein, 0.15), np.array(list(TYPES))[kind]


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the files and the report")
(out := parser.parse_args().out).mkdir(parents=True, exist_ok=True)
mudata.set_options(pull_on_update=False)

# 1. A MuData object with raw counts.
rna, protein, kind = simulate(rng := np.random.default_rng(0))
genes, proteins = AnnData(csr_matrix(rna)), AnnData(protein)
for part, prefix in ((genes, "gene"), (proteins, "protein")):
    part.obs_names = [f"cell{i:04d}" for i in range(part.n_obs)]
    part.var_names = [f"{prefix}{i}" for i in range(part.n_vars)]
cells = mudata.MuData({"rna": genes, "prot": proteins[rng.random(len(kind)) > 1 / 30].copy()})
cells.obs["cell_type"] = kind
cells.write(out / "cells.h5mu")

# 2. Baseline: k-means on both views, prepared as in single-cell pipelines, and each divided by its standard
# deviation. It also sees the proteins that are missing in the file.
log = np.log1p(1e4 * rna / rna.sum(axis=1, keepdims=True))  # scanpy: normalize_total, log1p
clr = np.log1p(protein) - np.log1p(protein).mean(axis=1, keepdims=True)  # muon: prot.pp.clr
concatenated = np.hstack([x / x.std() for x in (PCA(30, random_state=0).fit_transform(log), clr)])
baseline = KMeans(len(TYPES), n_init=10, random_state=0).fit_predict(concatenated)

# 3. PROTOCOL takes the MuData object and prepares the counts itself. Cells without proteins are labelled by
# their RNA.
model = PROTOCOL(n_clusters=len(TYPES), random_state=0).fit(cells)
for view, scaler in zip(model.view_names_in_, model.scalers_, strict=True):
    print(f"{view}: scaled by {scaler.kind}, {scaler.n_outputs} principal components")
for name, labels in (("K-means", baseline), ("PROTOCOL", model.labels_)):
    accuracy, tail = clustering_accuracy(kind, labels), group_recall(kind, labels).tail
    print(f"{name:>10}: accuracy {accuracy:.3f}, recall of the rarest types {tail:.3f}")
for name, hits, size in zip(np.unique(kind), *matched_counts(kind, model.labels_)[:2], strict=True):
    print(f"{name:>10}: {hits} of {size} cells found")

# 4. The labels go into a copy of the file, for scanpy and muon; everything else in it is unchanged.
results = (model.sample_ids_, model.labels_, model.predict_proba(cells), model.embedding_)
write_anndata(out / "cells.h5mu", out / "clustered.h5mu", *results, {"seed": model.seed_}, overwrite=True)
print(mudata.read(out / "clustered.h5mu").obs[["cell_type", "protocol_mvc", "protocol_mvc_confidence"]])

# 5. The HTML report, one file that works offline.
path = write_report(model, cells, out / "report.html", labels_true=kind, source=out / "cells.h5mu")
print("report:", path)
