from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.predict.weights import write_weights
from unlit.predict.predictor import Predictor


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_weights(tmp_path_factory.mktemp("weights") / "little.safetensors")


@pytest.fixture(scope="session")
def predictor(weights: Path) -> Predictor:
    return Predictor(weights, device="cpu", size=96)


@pytest.fixture
def image() -> NDArray[np.float32]:
    """A linear picture (60, 90, 3): patches, a shadow, texture, black and white."""
    rng = np.random.default_rng(0)
    patches = np.kron(rng.uniform(0.1, 0.9, (6, 9, 3)), np.ones((10, 10, 1)))
    light = np.where(np.arange(90) < 50, 1.0, 0.3)[None, :, None] * np.linspace(0.5, 1, 60)[:, None, None]
    picture = (patches * light * rng.uniform(0.9, 1.1, (60, 90, 1))).astype(np.float32)
    picture[:4, :4], picture[-4:, -4:], picture[20:24, 30:34, 0] = 0, 1, 0
    return picture
