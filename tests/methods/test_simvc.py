"""SiMVC: nothing but the divergences of the fused views."""

from tests.examples import blobs, seeded, source
from tests.methods.small import made

from protocol_mvc.methods.simvc import PRESETS

VIEWS, _ = blobs()


def test_nothing_but_the_divergences_is_minimised():
    method, data = made("simvc", [5, 4]), source(VIEWS)
    batch = next(data.shuffled(seeded()))
    assert list(method.step(batch, 0.0, seeded())) == ["ddc1", "ddc2", "ddc3"]


def test_the_preset_of_the_later_study():
    c = PRESETS["deepmvc"]
    assert (c.hidden, c.batch_norm, c.clip, c.monitor) == ((1024,) * 4, True, 10, "total")
    assert (c.cluster_length, c.rate, c.evaluate_every) == (100, 1e-3, 4)
