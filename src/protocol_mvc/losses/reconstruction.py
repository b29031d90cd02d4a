"""How well an autoencoder gives back its input."""

from torch import Tensor
from torch.nn import functional


def squared_error(x: Tensor, x_hat: Tensor) -> Tensor:
    r"""Mean squared error of one view, :math:`\|x - \hat x\|^2 / (n d)` (Eq. 26, per entry)."""
    return functional.mse_loss(x_hat, x)
