"""The MIT objects as the benchmarks see them: packed files, training sequences, and the scores of a network.

Shapes: k pictures, h x w pixels. Truth is read only to score.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.ndimage import distance_transform_edt
from torch import Tensor
from torch.nn.functional import interpolate

from unlit.baselines.zhao import zhao
from unlit.color import floored_log, linear_to_srgb
from unlit.config import Config
from unlit.data.augment import MIXTURE_MEAN, exposed
from unlit.data.dataset import Item
from unlit.data.sequence import Sequence
from unlit.data.sizing import resized, sized, training_size
from unlit.evaluate.mit import mit_scores
from unlit.model.compact import CompactNet
from unlit.model.unet import UNet
from unlit.predict.guided import applied, linear_coefficients
from unlit.quadratic.decompose import decomposed
from unlit.quadratic.network import QuadraticNet
from unlit.quadratic.weights import Weights
from unlit.sequence.solve import solved_sequence
from unlit.train.quadratic_samples import Targets, whole_pictures

SIZES = (0.75, 1.0, 1.25)
"""At which a picture is looked at, besides as the network was trained."""
LIGHTS = [f"light{k:02}" for k in range(1, 11)]
PICTURES = (*LIGHTS, "diffuse", "reflectance", "shading", "mask")
ZHAO_SHARE = 0.75
"""Of the logs that are Zhao's, where his result and the network's are averaged: 0.6 to 0.8 tried (docs/trials.md)."""
ZHAO_TEXTURE, ZHAO_PATCH = 0.3, 5
"""His λ and width of textures there: less weight on larger textures than by his own; eighteen settings tried."""
Object = dict[str, NDArray[np.uint16]]
Network = UNet | CompactNet | QuadraticNet
Scores = dict[str, float]
Logs = NDArray[np.float32]


def load_objects(data: Path) -> dict[str, Object]:
    """Return the pictures of all objects, 16-bit linear, from the set's folder or from a packed file."""
    if data.is_file():
        with np.load(data) as packed:
            names = sorted({key.split("/")[0] for key in packed.files})
            return {name: {picture: packed[f"{name}/{picture}"] for picture in PICTURES} for name in names}
    from unlit.image_io import read_image

    objects = {}
    for folder in sorted(path for path in data.iterdir() if (path / "light01.png").is_file()):
        pictures = {name: read_image(folder / f"{name}.png", encoding="linear").pixels for name in PICTURES}
        objects[folder.name] = {n: np.round(65535 * p.clip(0, 1)).astype(np.uint16) for n, p in pictures.items()}
    return objects


def write_packed(objects: Mapping[str, Object], file: Path) -> None:
    """Write the pictures into one file, for machines without a reader of pictures."""
    pictures = {f"{name}/{p}": pixels for name, item in objects.items() for p, pixels in item.items()}
    np.savez_compressed(file, **pictures)  # type: ignore[arg-type]  # numpy's stub takes them for its options


def pictures_of(item: Object, names: list[str]) -> Tensor:
    """Return pictures (k, 3, h, w), linear."""
    stacked = np.stack([item[name] for name in names]).astype(np.float32) / 65535
    return torch.from_numpy(stacked).permute(0, 3, 1, 2).contiguous()


def mask_of(item: Object) -> Tensor:
    """Return the object's mask (1, 1, h, w)."""
    return torch.from_numpy(item["mask"][..., 0] > 32768)[None, None]


def training_sequences(objects: Mapping[str, Object]) -> list[Sequence]:
    """Return what training may see: the ten lights and the mask."""
    sequences = []
    for name, item in objects.items():
        frames = pictures_of(item, LIGHTS)
        sequences.append(Sequence(frames, mask_of(item).expand(len(frames), -1, -1, -1).clone(), name))
    return sequences


def training_items(objects: Mapping[str, Object]) -> list[Item]:
    """Return what training of the quadratic may see besides: each object in ordinary light."""
    pictures = {name: pictures_of(item, ["diffuse"])[0] for name, item in objects.items()}
    return [Item(s, None, True, pictures[s.name]) for s in training_sequences(objects)]


def write_solved(objects: Mapping[str, Object], config: Config, file: Path, device: torch.device) -> None:
    """Minimise the energy of every object's lights, as training would, and keep the reflectances."""
    found = {}
    for s in training_sequences(objects):
        size = training_size(s.frames.shape[2], s.frames.shape[3], config.data)
        frames = resized(s.frames.to(device), size)
        mask = resized(s.mask.float().to(device), size) > 1 - 1e-3
        solved = solved_sequence(frames, mask, config.energy, config.solved.steps)
        found[s.name] = (solved.log_reflectance[0].exp() * mask.any(0)).cpu().numpy().astype(np.float16)
    np.savez_compressed(file, **found)  # type: ignore[arg-type]  # numpy's stub takes them for its options


def write_targets(objects: Mapping[str, Object], config: Config, file: Path, device: torch.device) -> None:
    """Ask every object's lights for its reflectance, as training of the quadratic would, and keep the answers."""
    targets = Targets(config, file.parent / "none", device, print)
    items = [sized(item, whole_pictures(config.data)) for item in training_items(objects)]
    found = {item.sequence.name: targets.reflectance(item).numpy() for item in items}
    np.savez_compressed(file, **found)  # type: ignore[arg-type]  # numpy's stub takes them for its options


def solved_before(file: Path) -> dict[str, Tensor]:
    """Return the reflectances that `write_solved` or `write_targets` found, by the objects' names."""
    with np.load(file) as found:
        return {name: torch.from_numpy(found[name].astype(np.float32)) for name in found.files}


@torch.no_grad()
def log_shading_of(network: Network, image: Tensor, mask: Tensor, longest: int, *, views: bool) -> Tensor:
    """Return the log of gray shading (1, h, w) of a linear image (1, 3, h, w) with its mask, such that R = I / S.

    The network sees the picture with a longer side of `longest` pixels at most, as in training; with `views` the mean
    over mirrored, turned and rescaled looks is taken. Half of what it leaves unexplained goes to the shading. That is
    carried to the picture's own size along the picture's edges.
    """
    whole = image.shape[-2:]
    base = min(1.0, longest / max(whole))
    size = tuple(max(1, round(side * base)) for side in whole)
    small = image if base == 1 else interpolate(image, size, mode="area")
    looks = []
    for scale in SIZES if views else (1.0,):
        sized = small if scale == 1 else interpolate(image, [round(s * scale) for s in size], mode="area")
        for turns in range(4 if views else 1):
            for mirror in (False, True) if views else (False,):
                looks.append(_look(network, sized, turns, size, mirror=mirror))
    log_small = floored_log(small[0])
    log_shading = torch.stack(looks).mean(0) + 0.5 * log_small.mean(0, keepdim=True)
    if base == 1:
        return log_shading
    there = (interpolate(mask.float(), size, mode="area") > 1 - 1e-5)[0, 0]
    guide, target = (_filled(values, there) for values in (log_small, log_shading))
    coefficients = interpolate(linear_coefficients(guide, target)[None], tuple(whole), mode="bilinear")[0]
    return applied(coefficients, floored_log(image[0]))


def _look(network: Network, image: Tensor, turns: int, size: tuple[int, ...], *, mirror: bool) -> Tensor:
    """Return how far the shading leans from half of the log of the image (1, h, w), seen mirrored and turned."""
    seen = torch.rot90(image.flip(-1) if mirror else image, turns, (-2, -1))
    found = network(linear_to_srgb(seen.clamp(0, 1)))
    # Half of what is left of the image goes to S: s + ½ (i − r − s) = ½ i + ½ (s − r), in means over the channels.
    leaning = 0.5 * (found.log_shading - found.log_reflectance.mean(1, keepdim=True))
    turned = torch.rot90(leaning, -turns, (-2, -1))
    turned = turned.flip(-1) if mirror else turned
    return turned[0] if tuple(turned.shape[-2:]) == size else interpolate(turned, size, mode="bilinear")[0]


def _filled(values: Tensor, mask: Tensor) -> Tensor:
    """Return values (c, h, w) with those of the nearest valid pixel where `mask` (h, w) is False."""
    if not bool(mask.any()):
        return values
    nearest = distance_transform_edt(~mask.cpu().numpy(), return_distances=False, return_indices=True)
    rows, columns = (torch.from_numpy(axis).to(values.device) for axis in nearest)
    return values[:, rows, columns]


def logs_of(network: Network, item: Object, longest: int, device: torch.device) -> dict[str, Logs]:
    """Return the log of shading (h, w) that a network finds for one object, by one look and by several."""
    image, mask = seen_picture(item)
    return {
        name: log_shading_of(network, image.to(device), mask.to(device), longest, views=views)[0].cpu().numpy()
        for name, views in (("one look", False), ("views", True))
    }


def quadratic_logs_of(weights: Weights, item: Object) -> Logs:
    """Return the log of shading (h, w), zero outside the mask, that the learned quadratic finds for one object."""
    image, mask = seen_picture(item)
    valid = mask[0, 0].numpy()
    shading = decomposed(_pixels(image), valid, weights)[1]
    return np.log(shading, out=np.zeros_like(shading), where=valid)


def seen_picture(item: Object) -> tuple[Tensor, Tensor]:
    """Return what is decomposed, (1, 3, h, w) linear, black beside the object, and the object's mask."""
    mask = mask_of(item)
    return exposed(pictures_of(item, ["diffuse"]) * mask, mask, MIXTURE_MEAN), mask


def with_zhao(log_shading: Logs, item: Object, share: float = ZHAO_SHARE) -> Logs:
    """Return the log of shading (h, w) averaged with that of Zhao's method, which has `share` of it."""
    image, mask = seen_picture(item)
    valid = mask[0, 0].numpy()
    theirs = np.log(np.maximum(zhao(_pixels(image), valid, texture=ZHAO_TEXTURE, patch=ZHAO_PATCH)[1], 1e-6))
    same_scale = theirs - theirs[valid].mean() + log_shading[valid].mean()
    mean: Logs = ((1 - share) * log_shading + share * same_scale).astype(np.float32)
    return mean


def scores_of(log_shading: Logs, item: Object) -> Scores:
    """Return the scores of one object for the log of its shading (h, w); its reflectance is image / shading."""
    image, mask = seen_picture(item)
    valid = mask[0, 0].numpy()
    truth = [pictures_of(item, [name])[0].permute(1, 2, 0).numpy() for name in ("reflectance", "shading")]
    shading = np.exp(log_shading).astype(np.float32) * valid
    reflectance = _pixels(image) / np.maximum(shading, 1e-6)[..., None] * valid[..., None]
    return mit_scores(reflectance.astype(np.float32), shading, truth[0], truth[1][..., 0], valid)


def _pixels(image: Tensor) -> NDArray[np.float32]:
    pixels: NDArray[np.float32] = image[0].permute(1, 2, 0).numpy()
    return pixels
