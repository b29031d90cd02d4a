"""Batches of scaled samples on the device, for training and inference."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from protocol_mvc.data.checks import is_mapped, is_sparse, row_slices
from protocol_mvc.data.scaling import Scaler, scaled_rows, with_components
from protocol_mvc.data.views import Rows, Views
from protocol_mvc.utils import distributed

N_COMPONENTS = 50  # of sparse features that are needed for all samples at once
BLOCK = 1024  # rows of every inference batch; see `Source.blocks`


class Batch(NamedTuple):
    """Some samples on the device. There are no labels: training cannot see them."""

    views: list[Tensor]  # (n, n_outputs) of each scaler, scaled, zeros where missing
    rows: Tensor  # (n,) positions in the data set, on the cpu
    present: Tensor | None  # (n, V) bool, or None if no view is missing


class Source:
    """Scaled batches of a data set, shuffled for training or in order for inference.

    Args:
        views: the data; nothing is read yet.
        scalers: one per view.
        batch_size: largest number of samples in a shuffled batch.
        device: where batches go.
        shared: whether the processes of a group, which all have the same data, share the batches.
    """

    def __init__(
        self,
        views: Views,
        scalers: Sequence[Scaler],
        *,
        batch_size: int,
        device: torch.device,
        shared: bool = False,
    ) -> None:
        self.views, self.scalers, self.device = views, tuple(scalers), device
        self.batch_size, self.shared = batch_size, shared
        self.n_batches = max(1, -(-len(views) // batch_size))
        self._present = None if views.is_complete else torch.from_numpy(views.mask)

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.views)

    def subsample(self, max_samples: int | None, seed: Sequence[int]) -> "Source":
        """Return a random part of `max_samples` samples, or the source itself if it is not larger."""
        if max_samples is None or len(self) <= max_samples:
            return self
        rows = np.random.default_rng(seed).choice(len(self), max_samples, replace=False, shuffle=False)
        return Source(
            self.views[np.sort(rows)],
            self.scalers,
            batch_size=self.batch_size,
            device=self.device,
            shared=self.shared,
        )

    def shuffled(self, generator: torch.Generator) -> Iterator[Batch]:
        """Yield one epoch in random order, in `n_batches` batches of nearly equal size."""
        order = torch.randperm(len(self), generator=generator)
        for rows in order.tensor_split(self.n_batches):
            yield self._batch(self._local(rows), self._scaled)

    def cycle(self, rows: Tensor, generator: torch.Generator) -> Iterator[Batch]:
        """Yield batches of the given rows forever, in a new random order in every pass."""
        size = min(-(-len(self) // self.n_batches), len(rows))
        while True:
            for part in rows[torch.randperm(len(rows), generator=generator)].split(size):
                yield self.take(part)

    def blocks(self) -> Iterator[Batch]:
        """Yield all samples in order, in blocks of `BLOCK` rows; the last block repeats the last row.

        Matrix products of different heights round differently. Equal heights make the result for a sample
        independent of the other samples.
        """
        for start in self._block_starts().tolist():
            rows = torch.arange(start, start + BLOCK)
            if start + BLOCK <= len(self):
                yield self._batch(rows, self._cached, slice(start, start + BLOCK))  # a slice is not copied
            else:
                yield self.take(rows.clamp_max(len(self) - 1))

    @property
    def n_blocks(self) -> int:
        """Number of blocks of this process."""
        return len(self._block_starts())

    def _block_starts(self) -> Tensor:
        return self._local(torch.arange(0, len(self), BLOCK))

    def sample(
        self, max_samples: int, seed: int
    ) -> tuple[npt.NDArray[np.int64], list[npt.NDArray[np.float32]]]:
        """Return the rows of at most `max_samples` random samples, and their scaled views."""
        rows = np.random.default_rng(seed).permutation(len(self))[:max_samples]
        return rows, [view.cpu().numpy() for view in self.take(torch.from_numpy(rows)).views]

    def take(self, rows: Tensor) -> Batch:
        """Return the given rows as one batch."""
        return self._batch(rows, self._cached)

    def compact_views(self) -> list[npt.NDArray[np.float32]]:
        """Return all samples of each view (n, d_v), with zeros where missing.

        Sparse features that are wider than `N_COMPONENTS` do not fit into memory, so they are reduced to
        components.
        """
        views = []
        for v, (array, scaler) in enumerate(zip(self.views.arrays, self.scalers, strict=True)):
            if is_sparse(array) and scaler.axes is None and scaler.n_outputs > N_COMPONENTS:
                scaler = with_components(scaler, self.views, v, N_COMPONENTS)
                views.append(scaled_rows(self.views, v, slice(None), scaler))
            else:
                whole = self._cached[v] if v in self._cached else self._scale(v, slice(None))
                views.append(whole.numpy())
        return views

    def _local(self, rows: Tensor) -> Tensor:
        """Return the rows that this process works on."""
        return distributed.local_shard(rows) if self.shared else rows

    @property
    def _cached(self) -> dict[int, Tensor]:
        """Views that training has scaled already; inference alone does not scale the whole data set."""
        scaled: dict[int, Tensor] = vars(self).get("_scaled", {})
        return scaled

    @cached_property
    def _scaled(self) -> dict[int, Tensor]:
        """Scaled views by position, without memory maps, and without sparse features, which stay sparse."""
        scaled: dict[int, Tensor] = {}
        for v, (array, scaler) in enumerate(zip(self.views.arrays, self.scalers, strict=True)):
            if not (is_mapped(array) or (is_sparse(array) and scaler.axes is None)):
                scaled[v] = torch.empty((len(self), scaler.n_outputs))
                for rows in row_slices(array):  # in chunks, because scaling uses float64
                    scaled[v][rows] = self._scale(v, rows)
        return scaled

    def _batch(self, rows: Tensor, scaled: dict[int, Tensor], place: slice | None = None) -> Batch:
        """Return the rows as a batch; `place` is the same rows as a slice, if they are contiguous."""

        def part(v: int) -> Tensor:
            if v not in scaled:
                return self._scale(v, place or rows.numpy())
            return scaled[v].index_select(0, rows) if place is None else scaled[v][place]

        views = [part(v).to(self.device) for v in range(self.views.n_views)]
        present = None if self._present is None else self._present[rows].to(self.device)
        return Batch(views, rows, present)

    def _scale(self, v: int, rows: Rows) -> Tensor:
        return torch.from_numpy(scaled_rows(self.views, v, rows, self.scalers[v]))
