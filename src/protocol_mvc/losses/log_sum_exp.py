"""Log-sum-exp of inner products, the costly part of the contrastive losses."""

from typing import Any

from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def log_sum_exp_products(a: Tensor, b: Tensor, column: Tensor, shift: Tensor) -> Tensor:
    r"""Return :math:`\log \sum_j \exp(a_i \cdot b_j + \delta_{j c(i)} \sigma_i)` for every row i.

    The softmax P of the logits is computed once and kept for the gradients :math:`\operatorname{diag}(g) P B`
    and :math:`P^\top \operatorname{diag}(g) A`, with g the incoming gradient, so that all other operations on
    (n, m) matrices are spared.

    Args:
        a: rows (n, d), or several such matrices (V, n, d).
        b: rows (m, d), or (V, m, d).
        column: c(i), the row of b whose logit is shifted for each row of a (n,), or (V, n).
        shift: sigma (n,), or (V, n), without gradient.

    Returns:
        The values (n,), or (V, n).
    """
    found: Tensor = _LogSumExpProducts.apply(a, b, column, shift)  # type: ignore[no-untyped-call]
    return found


class _LogSumExpProducts(Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, column: Tensor, shift: Tensor) -> Tensor:
        logits = a @ b.mT
        logits.scatter_add_(-1, column[..., None], shift[..., None])
        top = logits.amax(-1)
        p = logits.softmax(-1)
        ctx.save_for_backward(a, b, p)
        return top - p.amax(-1).log()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        a, b, p = ctx.saved_tensors
        g = grad[..., None]
        return (p @ b) * g, p.mT @ (a * g), None, None
