"""Image and text embeddings: find rare topics, list uncertain items, label new items by their text alone.

The embeddings are simulated to resemble those of CLIP and of a sentence encoder: unit rows in a narrow cone,
broad topics, and a tenth of the texts missing. Replace `simulate` by your own arrays. Run

    python examples/image_text.py --out out
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans
from sklearn.impute import SimpleImputer

from protocol_mvc import PROTOCOL
from protocol_mvc.evaluation.metrics import clustering_accuracy, group_recall, matched_counts
from protocol_mvc.report import write_report

TOPICS = ["news", "sport", "music", "food", "travel", "cars", "pets", "chess", "bees", "clocks"]
SIZES = [240, 170, 120, 86, 61, 43, 31, 22, 16, 12]  # items of each topic: a long tail
N_FACTORS = 32  # latent factors that both views show


def simulate(sizes, seed):
    """Return image embeddings (n, 512), text embeddings (n, 384) and topics (n,).

    The topics are the same for every seed; the seed draws the items.
    """
    world, rng = np.random.default_rng(0), np.random.default_rng(seed)
    topic = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    center = world.normal(size=(len(sizes), N_FACTORS))
    axes = np.linalg.qr(world.normal(size=(len(sizes), N_FACTORS, N_FACTORS)))[0]
    scale = 1.5 / np.arange(1, N_FACTORS + 1)  # a topic varies much in a few directions
    offset = rng.normal(size=(len(topic), N_FACTORS)) * scale
    factors = center[topic] + np.einsum("nj,njm->nm", offset, axes[topic])
    views = []
    for width in (512, 384):
        mean, weights = world.normal(size=width) * 0.25, world.normal(size=(N_FACTORS, width)) / width**0.5
        x = mean + factors @ weights + 0.2 * rng.normal(size=(len(topic), width))
        views.append(x / np.linalg.norm(x, axis=1, keepdims=True))
    return *views, topic


def show(name, topic, labels):
    """Print the accuracy, and the recall of the rarest third of the topics."""
    accuracy, tail = clustering_accuracy(topic, labels), group_recall(topic, labels).tail
    print(f"{name:>10}: accuracy {accuracy:.3f}, recall of the rarest topics {tail:.3f}")


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the model and the report")
(out := parser.parse_args().out).mkdir(parents=True, exist_ok=True)

# 1. The data. A missing view is a row of NaN.
image, text, topic = simulate(SIZES, seed=1)
text[np.random.default_rng(1).random(len(text)) < 0.1] = np.nan
print(f"{len(topic)} items of {len(TOPICS)} topics, {np.isnan(text[:, 0]).sum()} of them without a text")

# 2. Baseline: k-means on the concatenated embeddings, with missing texts replaced by the mean.
concatenated = SimpleImputer().fit_transform(np.hstack([image, text]))
show("K-means", topic, KMeans(len(TOPICS), n_init=10, random_state=0).fit_predict(concatenated))

# 3. PROTOCOL gets the number of topics, but no topic of any item.
views = {"image": image, "text": text}
model = PROTOCOL(n_clusters=len(TOPICS), random_state=0).fit(views)
show("PROTOCOL", topic, model.labels_)
for name, hits, size in zip(TOPICS, *matched_counts(topic, model.labels_)[:2], strict=True):
    print(f"{name:>10}: {hits} of {size} found")

# 4. The items of lowest confidence are worth a manual check.
confidence = model.predict_proba(views).max(axis=1)
for i in np.argsort(confidence)[:5]:
    print(f"uncertain: item {i}, confidence {confidence[i]:.2f}, cluster {model.labels_[i]}")

# 5. A saved model labels new items, here items that have only a text.
model.save(out / "model")
_, new_text, new_topic = simulate(SIZES, seed=2)
show("text only", new_topic, PROTOCOL.load(out / "model").predict({"text": new_text}))

# 6. The HTML report, one file that works offline.
print("report:", write_report(model, views, out / "report.html", labels_true=[TOPICS[t] for t in topic]))
