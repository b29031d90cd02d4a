"""SiMVC: its loss is DDC of the fused views."""

from tests.examples import blobs, seeded, source
from tests.methods.small import made

from protocol_mvc.methods.simvc import SIMVC_PRESETS as PRESETS

VIEWS, _ = blobs()


def test_the_loss_is_ddc_alone():
    method, data = made("simvc", [5, 4]), source(VIEWS)
    batch = next(data.shuffled(seeded()))
    assert list(method.step(batch, 0.0, seeded())) == ["ddc1", "ddc2", "ddc3"]


def test_the_deepmvc_preset():
    c = PRESETS["deepmvc"]
    assert (c.hidden_dims, c.batch_norm, c.max_grad_norm, c.monitor) == ((1024,) * 4, True, 10, "total")
    assert (c.n_epochs, c.lr, c.eval_interval) == (100, 1e-3, 4)
