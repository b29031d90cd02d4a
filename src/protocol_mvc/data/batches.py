"""Batches: the only place that knows where the arrays live, and which process trains on which rows."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from protocol_mvc.data.checks import is_mapped, is_sparse, row_slices
from protocol_mvc.data.scaling import Scaler, scaled_rows
from protocol_mvc.data.views import Rows, Views
from protocol_mvc.utils import distributed

BLOCK = 1024  # rows of every inference batch; see Source.blocks


class Batch(NamedTuple):
    """Some samples on the device. There is no field for labels: training cannot see them."""

    views: list[Tensor]  # (n, D_v) each, scaled, zeros where absent
    rows: Tensor  # (n,) which samples of the data set, on the cpu
    present: Tensor | None  # (n, V) bool, or None where every view is there


class Source:
    """Scaled batches of a data set, shuffled for training or in blocks for inference.

    Args:
        views: the data; nothing is read yet.
        scalings: of each view.
        batch_size: most samples of a shuffled batch.
        device: where batches go.
        shared: whether the processes that there are, all having the same data, share the work.
        is_subsample: whether these are samples of larger data that no other stage may have seen.
    """

    def __init__(
        self,
        views: Views,
        scalings: Sequence[Scaler],
        *,
        batch_size: int,
        device: torch.device,
        shared: bool = False,
        is_subsample: bool = False,
    ) -> None:
        """Keep what is given."""
        self.views, self.scalings, self.device = views, tuple(scalings), device
        self.batch_size, self.shared, self.is_subsample = batch_size, shared, is_subsample
        self.n_batches = max(1, -(-len(views) // batch_size))
        self._present = None if views.is_complete else torch.from_numpy(views.mask)

    def __len__(self) -> int:
        """Number of samples."""
        return len(self.views)

    def subsample(self, most: int | None, seed: Sequence[int]) -> "Source":
        """A random part of large data, in memory; data of at most so many samples are taken as they are."""
        if most is None or len(self) <= most:
            return self
        rows = np.random.default_rng(seed).choice(len(self), most, replace=False, shuffle=False)
        return Source(
            self.views[np.sort(rows)],
            self.scalings,
            batch_size=self.batch_size,
            device=self.device,
            shared=self.shared,
            is_subsample=True,
        )

    def shuffled(self, generator: torch.Generator) -> Iterator[Batch]:
        """One epoch in random order, in batches of nearly equal size (no tiny last one)."""
        order = torch.randperm(len(self), generator=generator)
        for rows in order.tensor_split(self.n_batches):
            yield self._batch(self._mine(rows), self._scaled)

    def cycle(self, rows: Tensor, generator: torch.Generator) -> Iterator[Batch]:
        """Batches of the named samples without end, one random order of them after the other."""
        size = min(-(-len(self) // self.n_batches), len(rows))
        while True:
            for part in rows[torch.randperm(len(rows), generator=generator)].split(size):
                yield self.take(part)

    def blocks(self) -> Iterator[Batch]:
        """All samples in order, always in blocks of the same height.

        The last block is filled up with repeated rows. Matrix products round differently for different
        heights, so this is what makes the result for a sample independent of the company it comes in.
        """
        for first in self._mine(torch.arange(0, len(self), BLOCK)).tolist():
            rows = torch.arange(first, first + BLOCK)
            if first + BLOCK <= len(self):
                yield self._batch(rows, self._at_hand, slice(first, first + BLOCK))  # not copied
            else:
                yield self.take(rows.clamp_max(len(self) - 1))

    def sample(self, most: int, seed: int) -> tuple[npt.NDArray[np.int64], list[npt.NDArray[np.float32]]]:
        """Random samples, at most so many, and their data."""
        rows = np.random.default_rng(seed).permutation(len(self))[:most]
        return rows, [view.cpu().numpy() for view in self.take(torch.from_numpy(rows)).views]

    def _mine(self, all_of_them: Tensor) -> Tensor:
        return distributed.local_shard(all_of_them) if self.shared else all_of_them

    def take(self, rows: Tensor) -> Batch:
        """The named samples."""
        return self._batch(rows, self._at_hand)

    @property
    def _at_hand(self) -> dict[int, Tensor]:
        """The views that need not be scaled anew, since training has done it."""
        scaled: dict[int, Tensor] = vars(self).get("_scaled", {})
        return scaled

    def _batch(self, rows: Tensor, scaled: dict[int, Tensor], place: slice | None = None) -> Batch:
        """The rows, which may lie at one place."""
        where = rows if place is None else place
        arrays = (
            scaled[v][where] if v in scaled else self._scale(v, place or rows.numpy())
            for v in range(self.views.n_views)
        )
        views = [array.to(self.device) for array in arrays]
        present = None if self._present is None else self._present[rows].to(self.device)
        return Batch(views, rows, present)

    @cached_property
    def _scaled(self) -> dict[int, Tensor]:
        """The views that are scaled once; sparse ones stay sparse and mapped ones stay on the disk."""
        arrays = enumerate(self.views.arrays)
        return {v: self._scaled_whole(v) for v, x in arrays if not (is_sparse(x) or is_mapped(x))}

    def _scaled_whole(self, v: int) -> Tensor:
        out = torch.empty(len(self), self.views.n_features[v])
        for rows in row_slices(self.views.arrays[v]):  # few at a time, since scaling works in float64
            out[rows] = self._scale(v, rows)
        return out

    def _scale(self, v: int, rows: Rows) -> Tensor:
        return torch.from_numpy(scaled_rows(self.views, v, rows, self.scalings[v]))
