"""Both forms of the renderer, for tests that hold for each."""

from __future__ import annotations

import pytest
import torch

from unlit.worlds.render import Form
from unlit.worlds.render_kernel import is_available

CPU = torch.device("cpu")
FORMS: list[Form] = ["reference", "kernel"]


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> Form:
    chosen: Form = request.param
    if chosen == "kernel" and not is_available(CPU):
        pytest.skip("the fast form on a CPU needs a C++ compiler, and none was found")
    return chosen
