"""Cross-entropy of inner products, the costly part of the contrastive losses."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def product_cross_entropy(
    a: Tensor, b: Tensor, target: Tensor, *, temperature: float, shift: Tensor | None = None
) -> Tensor:
    r"""Return :math:`-\log P_{i t(i)}` for every row i, with P the softmax of the logits.

    .. math:: P_{ij} = \frac{\exp(a_i \cdot b_j / \tau + \delta_{j t(i)} \sigma_i)}
              {\sum_k \exp(a_i \cdot b_k / \tau + \delta_{k t(i)} \sigma_i)}

    P is computed in place and kept for the gradients :math:`\operatorname{diag}(g) D B / \tau`,
    :math:`D^\top \operatorname{diag}(g) A / \tau` and :math:`g_i D_{i t(i)}`, where :math:`D_{ij} = P_{ij} -
    \delta_{j t(i)}` and g is the incoming gradient, so that all other operations on (n, m) matrices are
    spared. A probability below the smallest normal number counts as that number.

    Args:
        a: rows (n, d), or several such matrices (V, n, d).
        b: rows (m, d), or (V, m, d).
        target: t(i), the row of b that belongs to each row of a (n,), or (V, n).
        temperature: tau.
        shift: sigma, added to the logits of the targets (n,), or (V, n).

    Returns:
        The values (n,), or (V, n).
    """
    found: Tensor = _ProductCrossEntropy.apply(a, b, target[..., None], temperature, shift)  # type: ignore[no-untyped-call]
    return found


class _ProductCrossEntropy(Function):
    @staticmethod
    def forward(
        ctx: Any, a: Tensor, b: Tensor, index: Tensor, temperature: float, shift: Tensor | None
    ) -> Tensor:
        b = b / temperature
        p = a @ b.mT
        if shift is not None:
            p.scatter_add_(-1, index, shift[..., None])
        torch.softmax(p, -1, out=p)
        own = p.gather(-1, index)
        ctx.save_for_backward(a, b, p.scatter_(-1, index, own - 1), own)
        ctx.temperature, ctx.shifted = temperature, shift is not None
        return -own.clamp_min(torch.finfo(own.dtype).tiny).log()[..., 0]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None, Tensor | None]:
        a, b, difference, own = ctx.saved_tensors
        g = grad[..., None]
        shift_grad = ((own - 1) * g)[..., 0] if ctx.shifted else None
        return (difference @ b) * g, difference.mT @ (a * (g / ctx.temperature)), None, None, shift_grad
