"""One autoencoder per view."""

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn


def mlp(dims: Sequence[int]) -> nn.Sequential:
    """Linear layers of the given widths with ReLU between them and a linear output."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(dims):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Autoencoder(nn.Module):
    """Encoder D - hidden - latent and its mirror image."""

    def __init__(self, dim: int, hidden: Sequence[int], latent: int) -> None:
        """Make both halves for a view of `dim` features."""
        super().__init__()
        widths = [dim, *hidden, latent]
        self.encoder = mlp(widths)
        self.decoder = mlp(widths[::-1])

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The latent z and the reconstruction of x."""
        z = self.encoder(x)
        return z, self.decoder(z)
