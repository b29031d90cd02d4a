"""Image + text: find rare topics among embeddings, see what is unsure, label new items by their text alone.

The embeddings are simulated, as CLIP and a sentence encoder give them: rows of unit length that all point
into one corner, broad topics, a tenth of the texts missing. Put your own arrays in place of `simulate`. Run

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
MEANINGS = 32  # directions that both views can tell apart


def simulate(sizes, seed):
    """Items of every topic as image (512 numbers) and text (384); the topics are the same for every seed."""
    world, rng = np.random.default_rng(0), np.random.default_rng(seed)
    topic = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    centre = world.normal(size=(len(sizes), MEANINGS))
    axes = np.linalg.qr(world.normal(size=(len(sizes), MEANINGS, MEANINGS)))[0]
    breadth = 1.5 / np.arange(1, MEANINGS + 1)  # a topic has a few broad themes and many narrow ones
    theme = rng.normal(size=(len(topic), MEANINGS)) * breadth
    meaning = centre[topic] + np.einsum("nj,njm->nm", theme, axes[topic])
    views = []
    for width in (512, 384):
        corner, lift = world.normal(size=width) * 0.25, world.normal(size=(MEANINGS, width)) / width**0.5
        x = corner + meaning @ lift + 0.2 * rng.normal(size=(len(topic), width))
        views.append(x / np.linalg.norm(x, axis=1, keepdims=True))
    return *views, topic


def show(name, topic, labels):
    """How many items are right, and how many of the rarest third of the topics."""
    tail = group_recall(topic, labels).tail
    print(
        f"{name:>10}: accuracy {clustering_accuracy(topic, labels):.3f}, recall of the rarest topics {tail:.3f}"
    )
    return tail


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the model and the report")
(out := parser.parse_args().out).mkdir(parents=True, exist_ok=True)

# 1. The data. A missing view is a row of NaN.
image, text, topic = simulate(SIZES, seed=1)
text[np.random.default_rng(1).random(len(text)) < 0.1] = np.nan
print(f"{len(topic)} items of {len(TOPICS)} topics, {np.isnan(text[:, 0]).sum()} of them without a text")

# 2. What most people do: K-means on both embeddings side by side, gaps filled with the mean.
joined = SimpleImputer().fit_transform(np.hstack([image, text]))
show("K-means", topic, KMeans(len(TOPICS), n_init=10, random_state=0).fit_predict(joined))

# 3. What this library does. It is told the number of topics, and never sees which item is of which.
views = {"image": image, "text": text}
model = PROTOCOL(n_clusters=len(TOPICS), random_state=0)
model.set_params(config__reconstruct_length=10, config__twins_length=20)  # quick, for a first look
model.fit(views)
show("PROTOCOL", topic, model.labels_)
for name, hits, size in zip(TOPICS, *matched_counts(topic, model.labels_)[:2], strict=True):
    print(f"{name:>10}: {hits} of {size} found")

# 4. Whom to ask about: the items that the model is least sure of.
confidence = model.predict_proba(views).max(axis=1)
for i in np.argsort(confidence)[:5]:
    print(f"unsure: item {i}, confidence {confidence[i]:.2f}, cluster {model.labels_[i]}")

# 5. Keep the model. Anyone can load it, and label new items that have nothing but a text.
model.save(out / "model")
_, new_text, new_topic = simulate(SIZES, seed=2)
show("text only", new_topic, PROTOCOL.load(out / "model").predict({"text": new_text}))

# 6. One page to look at and to pass on.
print("report:", write_report(model, views, out / "report.html", labels_true=[TOPICS[t] for t in topic]))
