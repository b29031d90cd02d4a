"""Every field of the config with every value."""

from typing import Any

from hypothesis import strategies as st
from tests.fuzz.law import outcome
from tests.fuzz.rubbish import anything, numbers, texts

from protocol_mvc import PROTOCOL, ProtocolConfig
from protocol_mvc.utils.config import flatten_config, make_config

NESTED = [name for name, _ in flatten_config(ProtocolConfig())]
FIELDS = [*NESTED, "unknown", "", "model_config", "__class__"]
cases = st.tuples(
    st.dictionaries(st.sampled_from(FIELDS), numbers | texts | anything, min_size=1, max_size=3),
    st.sampled_from(["default", "paper"]),
)


def check(case: tuple[dict[str, Any], str]) -> None:
    """A config is valid throughout, or refused by the name of a field; a refusal leaves the estimator."""
    changes, preset = case
    config, _ = outcome(lambda: make_config(ProtocolConfig, changes))
    if config is not None:
        assert ProtocolConfig.model_validate(config.model_dump()) == config
    model = PROTOCOL(config=preset)
    _, refused = outcome(
        lambda: model.set_params(**{f"config__{name}": value for name, value in changes.items()})
    )
    if refused is not None:
        assert model.config == preset
    else:
        assert isinstance(model.config, ProtocolConfig)
    outcome(model.get_params)
    outcome(lambda: repr(model))
