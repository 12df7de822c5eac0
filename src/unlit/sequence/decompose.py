"""From a sequence to its files: one reflectance, a shading for each frame.

Shapes: m frames, h x w pixels; pictures are (h, w, 3), linear light.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from torch.nn.functional import interpolate

from unlit import __version__
from unlit.data.sequence import Sequence, SequenceError, load_sequence
from unlit.image_io import Encoding, write_image
from unlit.losses.energy import EnergySettings
from unlit.sequence.solve import STEPS, Progress, carried_to_full_size, solved_sequence

if TYPE_CHECKING:
    import os

SIZE = 384
"""The longer side at which the energy is minimised, as in the paper's training; larger frames are carried back up."""

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

        PNG and TIFF hold 16 bits, sRGB-encoded, of the values divided by the `scale` noted in the JSON file, so that
        none is cut off; EXR holds the linear values themselves.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        encoding: Encoding = "linear" if format == "exr" else "srgb"
        pictures = {f"{self.name}.reflectance": self.reflectance}
        pictures |= {f"{n}.shading": s for n, s in zip(self.frame_names, self.shadings, strict=True)}
        files = {}
        for stem, pixels in pictures.items():
            scale = 1.0 if format == "exr" else max(1.0, float(pixels.max()))
            write_image(
                folder / f"{stem}.{format}", pixels / scale, encoding=encoding, bits=None if format == "exr" else 16
            )
            files[f"{stem}.{format}"] = {"scale": scale}
        description = {"unlit": __version__, "encoding": encoding, "method": "sequence", "files": files}
        (folder / f"{self.name}.unlit.json").write_text(json.dumps(description, indent=1) + "\n")


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
    frames, mask = sequence.frames, sequence.mask
    smaller = min(1.0, size / max(frames.shape[-2:]))
    if smaller < 1:
        target = [max(1, round(side * smaller)) for side in frames.shape[-2:]]
        small = interpolate(frames, target, mode="area")
        # A small pixel counts only if all that it covers does.
        small_mask = interpolate(mask.to(frames.dtype), target, mode="area") > 1 - 1e-4
        if not bool(small_mask.any()):
            raise SequenceError(
                f"sequence {sequence.name!r}: its valid pixels are too scattered; raise size above {size}"
            )
        solved = solved_sequence(small, small_mask, settings, steps, progress)
        reflectance = carried_to_full_size(frames, mask, solved)
    else:
        reflectance = solved_sequence(frames, mask, settings, steps, progress).log_reflectance[0].exp()
    if not math.isfinite(float(reflectance.sum())):
        raise SequenceError(
            f"sequence {sequence.name!r}: the energy could not be minimised; try fewer steps than {steps}"
        )
    shadings = frames / reflectance
    return SequenceDecomposition(
        sequence.name,
        sequence.frame_names,
        reflectance.permute(1, 2, 0).contiguous().numpy(),
        shadings.permute(0, 2, 3, 1).contiguous().numpy(),
    )
