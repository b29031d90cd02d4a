"""SiMVC (CVPR 2021): views are fused by trainable weights and clustered by DDC, without alignment."""

from protocol_mvc.methods.ddc import DEEP, DdcConfig, DdcMethod


class SimvcConfig(DdcConfig):
    """Hyper-parameters of SiMVC; the defaults are the published values."""


PRESETS = {"default": SimvcConfig(), "deepmvc": SimvcConfig(**DEEP)}


class Simvc(DdcMethod):
    r"""Simple multi-view clustering: the loss is ddc1 + ddc2 + ddc3 of the fused \sum_v w_v z^v."""
