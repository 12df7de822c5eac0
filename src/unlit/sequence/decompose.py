"""From a sequence to its files: one reflectance, a shading for each frame.

Shapes: m frames, h x w pixels; pictures are (h, w, 3), linear light.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import interpolate

from unlit import __version__
from unlit.data.sequence import Sequence, SequenceError, load_sequence
from unlit.image_io import Encoding, write_image
from unlit.losses.settings import EnergySettings
from unlit.sequence.solve import STEPS, Progress, reflectance_of, solved_sequence

if TYPE_CHECKING:
    import os

SIZE = 384
"""The longer side at which the energy is minimised, as in the paper's training; larger frames are carried back up."""

MOST_OVER_MEDIAN = 8.0
"""White over the median, at most, in PNG: half of a shading is then above 0.39, encoded. Lit objects have 3 to 6."""

Format = Literal["png", "tiff", "exr"]


@dataclass(frozen=True)
class SequenceDecomposition:
    """A sequence split into what stays and what changes: `reflectance * shadings[i]` is frame i, to rounding."""

    name: str
    frame_names: tuple[str, ...]
    reflectance: NDArray[np.float32]
    """(h, w, 3), scaled so that all but the brightest hundredth is below 1."""
    shadings: NDArray[np.float32]
    """(m, h, w, 3), with the lights' colors. Passing things and noise are in here too: they are not the surface's."""

    def recompose(self) -> NDArray[np.float32]:
        """Return the frames (m, h, w, 3)."""
        return self.reflectance * self.shadings

    def save(self, folder: str | os.PathLike[str], *, format: Format = "png") -> None:  # noqa: A002  # the promised word
        """Write `<name>.reflectance`, a `<frame>.shading` for each frame, and `<name>.unlit.json`: how to read them.

        EXR and TIFF hold the linear values themselves, in floats: their product is the frame to rounding. PNG is for
        looking at: 16 bits, sRGB-encoded, divided by the `scale` that the JSON file gives, one for all shadings; light
        that is brighter or negative is cut off. `cut_off` is the share of a file's pixels that are too bright: a
        thousandth over all files, and more where that would leave half of the lit pixels nearly black.
        """
        if format not in get_args(Format):
            raise SequenceError(f"{folder}: pictures cannot be {format!r}; choose one of {', '.join(get_args(Format))}")
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        encoding: Encoding = "srgb" if format == "png" else "linear"
        bits = 16 if format == "png" else 32
        shading_scale = _shading_scale(self.shadings) if format == "png" else 1.0
        reflectance_scale = _viewing_scale(self.reflectance) if format == "png" else 1.0
        pictures = {f"{self.name}.reflectance": (self.reflectance, reflectance_scale)}
        pictures |= {f"{n}.shading": (s, shading_scale) for n, s in zip(self.frame_names, self.shadings, strict=True)}
        for stem, (pixels, scale) in pictures.items():
            write_image(folder / f"{stem}.{format}", pixels / np.float32(scale), encoding=encoding, bits=bits)
        files = {
            f"{stem}.{format}": {"scale": scale, "cut_off": _cut_off(pixels, scale) if format == "png" else 0.0}
            for stem, (pixels, scale) in pictures.items()
        }
        description = {"unlit": __version__, "encoding": encoding, "method": "sequence", "files": files}
        (folder / f"{self.name}.unlit.json").write_text(json.dumps(description, indent=1) + "\n")


def _viewing_scale(values: NDArray[np.float32]) -> float:
    """Return what all but the brightest thousandth of values (..., 3) stay below, or 1 where all is black."""
    brightest = values.max(axis=-1).reshape(-1)
    place = min(brightest.size - 1, int(0.999 * brightest.size))
    scale = float(np.partition(brightest, place)[place])
    return scale if scale > 0 else 1.0


def _shading_scale(shadings: NDArray[np.float32]) -> float:
    """Return the viewing scale of shadings (m, h, w, 3), but at most `MOST_OVER_MEDIAN` times their median where lit.

    What passes before a dark surface (a tent, a crowd, a lamp at night) can be a hundred times as bright as its light,
    and an unmasked sequence has enough of it to leave all the rest nearly black.
    """
    brightest = shadings.max(axis=-1)
    lit = brightest[brightest > 0]  # around an object all may be black
    scale = _viewing_scale(shadings)
    return min(scale, MOST_OVER_MEDIAN * float(np.median(lit))) if lit.size else scale


def _cut_off(pixels: NDArray[np.float32], scale: float) -> float:
    """Return the share of pixels (h, w, 3) with a channel brighter than `scale`."""
    return float((pixels.max(axis=-1) > np.float32(scale)).mean())


def decompose_sequence(
    source: Sequence | str | os.PathLike[str],
    *,
    settings: EnergySettings | None = None,
    steps: int = STEPS,
    size: int = SIZE,
    encoding: Encoding | None = None,
    pattern: str = "*",
    progress: Progress | None = None,
) -> SequenceDecomposition:
    """Return one reflectance for all frames of `source`, and a shading for each.

    `source` is a `Sequence` or a folder of frames (see `load_sequence` for `encoding` and `pattern`). The energy is
    minimised at a longer side of `size` pixels and the result carried to the frames' own size.
    """
    if steps < 1 or size < 8:
        raise SequenceError(f"steps must be at least 1 and size at least 8, not {steps} and {size}")
    sequence = source if isinstance(source, Sequence) else load_sequence(source, encoding=encoding, pattern=pattern)
    frames, mask = small, small_mask = sequence.frames, sequence.mask
    if max(frames.shape[-2:]) > size:
        target = [max(1, round(side * size / max(frames.shape[-2:]))) for side in frames.shape[-2:]]
        small = interpolate(frames, target, mode="area")
        # A small pixel counts only if all that it covers does.
        small_mask = interpolate(mask.to(frames.dtype), target, mode="area") > 1 - 1e-4
        if not bool(small_mask.any()):
            raise SequenceError(
                f"sequence {sequence.name!r}: its valid pixels are too scattered; raise size above {size}"
            )
    solved = solved_sequence(small, small_mask, settings, steps, progress)
    reflectance = reflectance_of(frames, mask, solved, small_mask)
    shadings = frames / reflectance
    if not bool(torch.isfinite(shadings).all() and (reflectance > 0).all()):
        raise SequenceError(f"sequence {sequence.name!r}: could not be solved; try fewer steps than {steps}")
    return SequenceDecomposition(
        sequence.name,
        sequence.frame_names,
        reflectance.permute(1, 2, 0).contiguous().numpy(),
        shadings.permute(0, 2, 3, 1).contiguous().numpy(),
    )
