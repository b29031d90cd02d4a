"""Batches: the only place that knows where the arrays live."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from protocol_mvc.data.scaling import Scaling, scaled_rows
from protocol_mvc.data.views import Rows, Views

BLOCK = 1024  # rows of every inference batch; see Source.blocks


class Batch(NamedTuple):
    """Some samples on the device. There is no field for labels: training cannot see them."""

    views: list[Tensor]  # (n, D_v) each, scaled, zeros where absent
    rows: Tensor  # (n,) which samples of the data set, on the cpu
    present: Tensor | None  # (n, V) bool, or None where every view is there


class Source:
    """Scaled batches of a data set, shuffled for training or in blocks for inference."""

    def __init__(
        self, views: Views, scalings: Sequence[Scaling], *, batch_size: int, device: torch.device
    ) -> None:
        """Scale dense views once; sparse ones are scaled batch by batch, to stay sparse in memory."""
        self.views, self.scalings, self.device = views, tuple(scalings), device
        self.n_batches = max(1, -(-len(views) // batch_size))
        dense = [v for v, array in enumerate(views.arrays) if isinstance(array, np.ndarray)]
        self._scaled = {v: self._scale(v, slice(None)) for v in dense}
        self._present = None if views.complete else torch.from_numpy(views.mask)

    def __len__(self) -> int:
        """Number of samples."""
        return len(self.views)

    def shuffled(self, generator: torch.Generator) -> Iterator[Batch]:
        """One epoch in random order, in batches of nearly equal size (no tiny last one)."""
        order = torch.randperm(len(self), generator=generator)
        for rows in order.tensor_split(self.n_batches):
            yield self.take(rows)

    def drawn(self, rows: Tensor, generator: torch.Generator) -> Iterator[Batch]:
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
        for first in range(0, len(self), BLOCK):
            yield self.take(torch.arange(first, first + BLOCK).clamp_max(len(self) - 1))

    def take(self, rows: Tensor) -> Batch:
        """The named samples."""
        views = [self._rows(v, rows).to(self.device) for v in range(self.views.n_views)]
        present = None if self._present is None else self._present[rows].to(self.device)
        return Batch(views, rows, present)

    def _rows(self, v: int, rows: Tensor) -> Tensor:
        return self._scaled[v][rows] if v in self._scaled else self._scale(v, rows.numpy())

    def _scale(self, v: int, rows: Rows) -> Tensor:
        return torch.from_numpy(scaled_rows(self.views, v, rows, self.scalings[v]))
