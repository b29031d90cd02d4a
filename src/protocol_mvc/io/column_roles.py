"""What the names of arrays and columns say: sample ids, true labels, row numbers."""

import re
from collections.abc import Iterable, Sequence

ID_COLUMNS = ("id", "ids", "sample", "cell", "barcode", "index")  # in any case
LABEL_NAMES = ("labels", "label", "y", "Y", "truth", "gt", "class", "cluster")
UNNAMED_COLUMN = re.compile(r"Unnamed: \d+(\.\d+)*")  # an index that pandas wrote, or an empty column
ID_NAME = re.compile(
    r"(?:.*[_ .-])?(id|ids|nr|no|num|number|nummer|key|idx|index)|.*(nummer|number|[a-z]ID|[a-z]Id)"
)
TRUTH_NAME = re.compile(
    r"(true|ground|gold|known|manual|pred|predicted|final|my|the|sub|super)?"
    r"(labels?|class|classes|targets?|truth|groundtruth|gt|gnd|clusters?|celltypes?|category|leiden|louvain)"
    r"(labels?|ids?|names?|codes?|true|truth|pred|predicted|num|number|idx|index)?\d*"
)


def looks_like_truth(name: str, others: Iterable[str] = ()) -> bool:
    """Return whether a name is a usual one of labels: "Label", "label.1", "cell_type", "true_class", "y", ...

    `y` counts unless there is an `x` among the other names, because both may be coordinates.
    """
    plain = re.sub(r"[^0-9a-z]", "", name.lower())
    if re.fullmatch(r"y(true|pred|label)?", plain):
        return plain != "y" or "x" not in {other.lower() for other in others}
    return TRUTH_NAME.fullmatch(plain) is not None


def looks_like_ids(name: str) -> bool:
    """Return whether a name is a usual one of ids or row numbers."""
    return ID_NAME.fullmatch(name) is not None or ID_NAME.fullmatch(name.lower()) is not None


def find_name(names: Iterable[str], columns: Sequence[str]) -> str | None:
    """Return the first column with one of these names, if possible in the same case."""
    for name in names:
        matches = [column for column in columns if column.lower() == name.lower()]
        if matches:
            return name if name in matches else matches[0]
    return None
