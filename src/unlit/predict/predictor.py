"""The one between the user's world (files, pictures of any size) and the network's (small encoded tensors).

Three hops: the photograph made small, the network's answer, the answer carried to the photograph's own size.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import interpolate

from unlit.color import floored_log
from unlit.model.decomposition import Decomposition
from unlit.predict.colored_light import color_share
from unlit.predict.exact import COLOR_SHARE, SHADING_SHARE, brightness_excess, shading_coefficients
from unlit.predict.full_size import gray_shading
from unlit.predict.network import Network, Precision
from unlit.predict.paint import lightness_correction
from unlit.predict.photo import PhotoDecomposition
from unlit.predict.scales import merged
from unlit.predict.small import LARGEST, SIZE, SMALLEST, Small, small_picture
from unlit.predict.source import Photo, opened

if TYPE_CHECKING:
    import os

    from unlit.image_io import Encoding
    from unlit.predict.source import Source


class Predictor:
    """A model, loaded once, that decomposes photographs; threads may share it.

    `weights` is a file that training wrote, or the model that comes with the package. `device` is "auto", "cpu", "cuda"
    or another that torch knows. `precision` is that of the network's products; "auto" takes bfloat16 where the hardware
    has it. `compiled` lets torch compile the network at its first photograph of each size. `size` is the longer side of
    a 3:2 photograph inside the network; with `detail`, a larger size, it looks twice and takes from there what is
    fine. `share` is the part of what the network leaves unexplained that goes to the shading (`unlit.predict.exact`).
    """

    def __init__(
        self,
        weights: str | os.PathLike[str] | None = None,
        *,
        device: str = "auto",
        precision: Precision = "auto",
        compiled: bool = False,
        size: int = SIZE,
        detail: int | None = None,
        share: float = SHADING_SHARE,
    ) -> None:
        for name, side in (("size", size), ("detail", size if detail is None else detail)):
            if not SMALLEST <= side <= LARGEST:
                raise ValueError(f"{name} must be from {SMALLEST} to {LARGEST}, not {side}")
        if detail is not None and detail <= size:
            raise ValueError(f"detail must be larger than size, {size}, not {detail}")
        if not 0 <= share <= 1:
            raise ValueError(f"share must be from 0 to 1, not {share}")
        self.size, self.detail, self.share = size, detail, share
        self.network = Network(weights, device=device, precision=precision, compiled=compiled)

    def decompose(
        self, source: Source, *, encoding: Encoding | None = None, exact: bool = True, threads: int | None = None
    ) -> PhotoDecomposition:
        """Return the decomposition of a photograph at its own size.

        `source` is a path, a PIL image, or an array (h, w, 3), (h, w, 4) or (h, w): bytes and 16-bit words, whole
        numbers being white, or floats with 1 = white (linear float32 is not copied: leave it as it is while the result
        is in use). `encoding` says how an array's numbers are encoded ("srgb" or "linear"), and may be left out for
        bytes; for files it is as for `read_image`. With `exact` reflectance times shading is the photograph; without,
        both are the network's own. `threads` share the work at full size, as many as there are processors unless given.
        """
        photo = opened(source, encoding)
        small = self.small(photo)
        return self.finished(photo, small, self.said([small])[0], exact=exact, threads=threads)

    def small(self, photo: Photo) -> Small:
        """Return the photograph as the network sees it."""
        return small_picture(photo.pixels, photo.alpha, self.size, self.detail)

    def said(self, smalls: Sequence[Small]) -> list[Decomposition]:
        """Return what the network says of small pictures, on the CPU; those of one size go through it together."""
        looks = [look for small in smalls for look in small.encoded]
        answers: dict[int, Decomposition] = {}
        for shape in dict.fromkeys(look.shape for look in looks):
            chosen = [k for k, look in enumerate(looks) if look.shape == shape]
            batch = torch.stack([looks[k] for k in chosen])
            if self.network.device.type == "cuda":
                batch = batch.pin_memory()  # so that the copy need not wait for the work before it
            said = self.network.decomposed(batch)
            parts = [part.cpu() for part in (said.log_reflectance, said.log_shading, said.light_color)]
            if not all(bool(part.isfinite().all()) for part in parts):
                remedy = "give other weights, or train anew with a lower train.learning_rate"
                raise ValueError(f"{self.network.name}: the network says what is no number; {remedy}")
            answers |= {k: Decomposition(*(part[j : j + 1] for part in parts)) for j, k in enumerate(chosen)}
        said_of_looks = iter([answers[k] for k in range(len(looks))])
        found = []
        for small in smalls:
            fine = next(said_of_looks)
            found.append(fine if small.broad is None else merged(next(said_of_looks), fine))
        return found

    def finished(
        self, photo: Photo, small: Small, said: Decomposition, *, exact: bool = True, threads: int | None = None
    ) -> PhotoDecomposition:
        """Return the photograph's decomposition from the network's answer for its small copy."""
        said = _in_gray_light(said) if photo.is_gray else _with_plain_color(said, COLOR_SHARE if exact else 1.0)
        color, raw, share = said.light_color[0].exp().numpy(), None, None
        if exact:
            log_image = floored_log(small.light)
            share = None if photo.is_gray else color_share(log_image, said).numpy()
            coefficients = self._coefficients(log_image, said).numpy()
            shading = gray_shading(photo.pixels, coefficients, color, exposure=small.exposure, threads=threads)
        else:
            size = photo.pixels.shape[:2]
            shading = _grown(said.log_shading.exp() * small.exposure, size)[..., 0]
            raw = _grown(said.reflectance, size)
        names = (self.network.name, self.network.sha256)
        around = small.light.permute(1, 2, 0).contiguous().numpy() if exact else None
        return PhotoDecomposition(photo.pixels, shading, color, photo.alpha, *names, raw, share, around, small.exposure)

    def _coefficients(self, log_image: Tensor, said: Decomposition) -> Tensor:
        """Return the coefficients (4, h', w') of the log of gray shading, over the log of the small picture."""
        said = _with_few_paints(log_image, said)
        coefficients = shading_coefficients(log_image, said, self.share)
        coefficients[3] += brightness_excess(log_image, coefficients, said.light_color[0])
        return coefficients


@cache
def _default_predictor() -> Predictor:
    return Predictor()


def decompose(source: Source, *, encoding: Encoding | None = None, exact: bool = True) -> PhotoDecomposition:
    """Return the decomposition of one photograph by the model that comes with the package.

    The model is loaded at the first call. See `Predictor.decompose`, and `Predictor` for other models and devices.
    """
    return _default_predictor().decompose(source, encoding=encoding, exact=exact)


def _with_plain_color(said: Decomposition, share: float) -> Decomposition:
    """Return the same with a light color of mean zero, its brightness given to the gray shading.

    Of what is then left of the color, the light keeps `share` and the reflectance gets the rest.
    """
    brightness = said.light_color.mean(1, keepdim=True)
    color = said.light_color - brightness
    kept = share * color
    return Decomposition(
        said.log_reflectance + (color - kept)[..., None, None], said.log_shading + brightness[..., None, None], kept
    )


def _with_few_paints(log_image: Tensor, said: Decomposition) -> Decomposition:
    """Return the same product, pixels of nearly the same reflectance drawn together, others apart (`predict/paint.py`).

    What is nearly the same is seen best in the picture (3, h, w) without the light, which has all of its detail.
    """
    correction = lightness_correction(log_image - said.log_light[0])
    return Decomposition(said.log_reflectance + correction, said.log_shading - correction, said.light_color)


def _in_gray_light(said: Decomposition) -> Decomposition:
    """Return the decomposition of a gray photograph: what says nothing of colors has none in either part."""
    log_reflectance = said.log_reflectance + said.light_color[..., None, None]
    gray = log_reflectance.mean(1, keepdim=True).expand_as(log_reflectance)
    return Decomposition(gray, said.log_shading, torch.zeros_like(said.light_color))


def _grown(values: Tensor, size: tuple[int, ...]) -> NDArray[np.float32]:
    """Return positive values (1, c, h', w') at the photograph's size, (h, w, c), interpolated in logs."""
    logs = interpolate(values.log(), size, mode="bilinear", align_corners=False)
    return logs.exp()[0].permute(1, 2, 0).contiguous().numpy()
