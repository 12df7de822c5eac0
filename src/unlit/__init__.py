"""unlit sees surfaces without their light: it splits photographs into reflectance and shading.

The names in `__all__` are the public ones. Each is imported when first used, so that `import unlit` costs nothing and
`unlit --help` answers at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from unlit.data.sequence import Sequence, load_sequence, save_sequence
    from unlit.image_io import read_image, write_image
    from unlit.losses.all_pairs import all_pairs_sq_distance
    from unlit.losses.energy import energy
    from unlit.losses.settings import EnergySettings
    from unlit.model.decomposition import Decomposition
    from unlit.model.unet import UNet
    from unlit.pairwise.lattice import PermutohedralLattice
    from unlit.pairwise.pairwise import build_pairwise
    from unlit.pairwise.settings import PairwiseSettings
    from unlit.predict.predictor import Predictor, decompose
    from unlit.sequence.decompose import decompose_sequence

__all__ = [
    "Decomposition",
    "EnergySettings",
    "PairwiseSettings",
    "PermutohedralLattice",
    "Predictor",
    "Sequence",
    "UNet",
    "all_pairs_sq_distance",
    "build_pairwise",
    "decompose",
    "decompose_sequence",
    "energy",
    "load_sequence",
    "read_image",
    "save_sequence",
    "write_image",
]

_HOME = {
    "Decomposition": "unlit.model.decomposition",
    "EnergySettings": "unlit.losses.settings",
    "PairwiseSettings": "unlit.pairwise.settings",
    "PermutohedralLattice": "unlit.pairwise.lattice",
    "Predictor": "unlit.predict.predictor",
    "Sequence": "unlit.data.sequence",
    "UNet": "unlit.model.unet",
    "all_pairs_sq_distance": "unlit.losses.all_pairs",
    "build_pairwise": "unlit.pairwise.pairwise",
    "decompose": "unlit.predict.predictor",
    "decompose_sequence": "unlit.sequence.decompose",
    "energy": "unlit.losses.energy",
    "load_sequence": "unlit.data.sequence",
    "read_image": "unlit.image_io",
    "save_sequence": "unlit.data.sequence",
    "write_image": "unlit.image_io",
}


if not TYPE_CHECKING:  # type checkers see the imports above, and so a name that does not exist

    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module 'unlit' has no attribute {name!r}")
        return getattr(import_module(_HOME[name]), name)

    def __dir__() -> list[str]:
        return ["__version__", *__all__]
