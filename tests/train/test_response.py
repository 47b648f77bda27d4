"""What a locating code does to magnitudes, measured again: what is shipped is of the shipped weights."""

import numpy as np
import pytest

from ideaw.engine.network import Network
from ideaw.models import find_model, model_folder
from ideaw.nets.config import NetConfig
from ideaw.nets.model import Ideaw
from ideaw.train import response
from ideaw.train.export import load_weights
from ideaw.train.response import has_response, measure_response


@pytest.mark.slow
def test_the_shipped_response_is_that_of_the_shipped_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response, "MEASURED_DRAWS", 1)  # a rough measure is enough, and takes a quarter of the time
    model = load_weights(model_folder("46+10"))  # type: ignore[arg-type]
    assert isinstance(model, Ideaw)
    shipped = Network(find_model("46+10")).response
    assert shipped is not None
    assert np.corrcoef(measure_response(model).ravel(), shipped.ravel())[0, 1] > 0.95


def test_only_keyed_codes_on_magnitudes_have_a_response() -> None:
    assert has_response(NetConfig())
    for config in (NetConfig(domain="spectrum"), NetConfig(carriers="learned"), NetConfig(code_bits=0)):
        assert not has_response(config)
