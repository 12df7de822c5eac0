"""Methods by what the command line calls them: a baseline's name, `default`, a file of weights, a folder of results.

Shapes: m frames, h x w pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from unlit.baselines.registry import BASELINES, SEQUENCE_BASELINES
from unlit.evaluate.benchmark import Method, Part, Picture, Split
from unlit.evaluate.results_folder import ResultEncoding, ResultsFolder, stated_encoding

if TYPE_CHECKING:
    from unlit.predict.predictor import Predictor
    from unlit.quadratic.network import QuadraticNet

SOLVED = "sequence"
"""The project's own way of decomposing a whole sequence without a network."""
LONGEST_NAME = 100
"""Of a method, in letters: files are called by it."""
DEFAULT = "default"
"""The model that comes with the package."""


@dataclass(frozen=True)
class BaselineMethod:
    """A baseline for one picture, by its name."""

    name: str

    def __call__(self, picture: Picture) -> Split:
        """Decompose a picture."""
        return Split(*BASELINES[self.name](picture.image, picture.mask))


@dataclass(frozen=True)
class SequenceBaselineMethod:
    """A baseline for a sequence, by its name."""

    name: str

    def __call__(self, picture: Picture) -> Split:
        """Decompose a picture by the frames of its view."""
        if picture.frames is None:
            raise ValueError(f"{picture.id}: is a single picture, and {self.name} needs a sequence; leave it out")
        return Split(*SEQUENCE_BASELINES[self.name](picture.frames, picture.mask, picture.image))


@dataclass(frozen=True)
class SolvedMethod:
    """A picture by the reflectance that minimises the energy of its sequence."""

    def __call__(self, picture: Picture) -> Split:
        """Solve the picture's frames, and divide it by their reflectance."""
        import torch

        from unlit.data.sequence import Sequence as Frames
        from unlit.sequence.decompose import decompose_sequence

        if picture.frames is None:
            raise ValueError(f"{picture.id}: is a single picture, and {SOLVED} needs a sequence; leave it out")
        frames = torch.from_numpy(np.ascontiguousarray(picture.frames.transpose(0, 3, 1, 2)))
        valid = np.ones(picture.image.shape[:2], np.bool_) if picture.mask is None else picture.mask
        mask = torch.from_numpy(valid)[None, None].expand(len(frames), -1, -1, -1).clone()
        reflectance = decompose_sequence(Frames(frames, mask, picture.id.replace("/", "-"))).reflectance
        return Split(reflectance, picture.image / reflectance)


@dataclass(frozen=True)
class NetworkMethod:
    """A network: the package's own where `weights` is None."""

    weights: Path | None
    device: str

    @cached_property
    def _predictor(self) -> Predictor:
        from unlit.predict.predictor import Predictor

        return Predictor(self.weights, device=self.device)

    def load(self) -> None:
        """Read the weights; ValueError where they are none."""
        _ = self._predictor

    def __call__(self, picture: Picture) -> Split:
        """Decompose a picture as `unlit decompose` does, all of it: a mask says what counts, not what is seen.

        But the quadratic is given the mask, and the picture at its own size: it is made for things cut out by one.
        """
        from unlit.quadratic.network import QuadraticNet

        module = self._predictor.network.module
        if isinstance(module, QuadraticNet):
            return self._of_quadratic(picture, module)
        found = self._predictor.decompose(picture.image, encoding="linear")
        return Split(found.reflectance, found.shading)

    @staticmethod
    def _of_quadratic(picture: Picture, module: QuadraticNet) -> Split:
        from unlit.quadratic.decompose import decomposed

        mask = np.ones(picture.image.shape[:2], np.bool_) if picture.mask is None else picture.mask
        return Split(*decomposed(picture.image, mask, deepcopy(module.weights).cpu()))


def method_of(
    stated: str,
    *,
    encoding: ResultEncoding | None = None,
    device: str = "auto",
    parts: tuple[Part, ...] = ("reflectance", "shading"),
) -> Method:
    """Return the method that `stated` means; ValueError where it is none.

    `encoding` is that of results in folders, `parts` what is wanted of them, `device` where a network works.
    """
    path = Path(stated) if _is_there(stated) else None
    if stated in BASELINES:
        return BaselineMethod(stated)
    if stated in SEQUENCE_BASELINES:
        return SequenceBaselineMethod(stated)
    if stated == SOLVED:
        return SolvedMethod()
    if stated == DEFAULT:
        return NetworkMethod(None, device)
    if path is not None and (path / "weights.safetensors").is_file():
        return NetworkMethod(path / "weights.safetensors", device)
    if path is not None and path.is_dir():
        said = stated_encoding(path)
        if encoding is not None and said not in (None, encoding):
            raise ValueError(f"{path / 'results.json'}: says {said}, and --encoding {encoding}; leave one of them out")
        return ResultsFolder(path, encoding, parts)
    if path is not None:
        return NetworkMethod(path, device)
    known = ", ".join([DEFAULT, *BASELINES, *SEQUENCE_BASELINES, SOLVED])
    raise ValueError(f"{stated}: is no method; give a file of weights, a folder of results, or one of {known}")


def _is_there(text: str) -> bool:
    """Return whether `text` is a path to something; one that is too long for a path is none."""
    try:
        return Path(text).exists()
    except OSError:
        return False


def named_methods(stated: Sequence[str]) -> dict[str, str]:
    """Return what the command line says of methods by the names they have in the report.

    `NAME=METHOD` gives the name; else it is the method's own, or that of its file or folder. ValueError where two are
    the same.
    """
    names: dict[str, str] = {}
    for text in stated:
        # The first "=" ends the name: a path may have others.
        name, equals, method = ("", "", text) if _is_there(text) else text.partition("=")
        name, method = (name, method) if equals else ("", text)
        name = name or (Path(method).resolve().name if _is_there(method) else method)
        if equals and len(name) > LONGEST_NAME:
            raise ValueError(f"a method is called {name[:20]}..., {len(name)} letters; give at most {LONGEST_NAME}")
        if name in names:
            raise ValueError(f"two methods are called {name}; give one another name: --method NAME={method}")
        names[name] = method
    if not names:
        raise ValueError("no method is given; say --method with a name, a file of weights or a folder of results")
    return names
