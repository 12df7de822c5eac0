"""Which sequences come from one camera, and what each is for: never one camera on both sides of a split.

Sequences of one source have one camera. So have sequences of two sources whose views match, such as two days of a
webcam in two files: their fields of orientations, which light hardly changes, are compared.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from unlit.prepare.registration import register, unpacked
from unlit.prepare.view import SURE

if TYPE_CHECKING:
    from numpy.typing import NDArray

SPLITS = ("train", "validation", "test")


def cameras(
    names: Sequence[str], sources: Mapping[str, str], fields: Mapping[str, NDArray[np.int8]], known: Mapping[str, str]
) -> dict[str, str]:
    """Return the camera of each sequence in `names`: the name of its source, or of one that shows the same view.

    `sources` are the sequences' sources, `fields` their packed fields, `known` the cameras found in earlier runs, which
    stay: what was trained on must not become what is tested on.
    """
    found = {name: known[name] for name in names if name in known}
    by_source = {sources[name]: camera for name, camera in found.items()}
    for name in names:
        if name in found:
            continue
        camera = by_source.get(sources[name]) or _same_view(name, found, fields) or sources[name]
        found[name] = by_source[sources[name]] = camera
    return found


def _same_view(name: str, found: Mapping[str, str], fields: Mapping[str, NDArray[np.int8]]) -> str | None:
    """Return the camera of a sequence that shows the same view, or None."""
    if name not in fields:
        return None
    own = unpacked(fields[name])
    for other, camera in found.items():
        is_comparable = other in fields and fields[other].shape == fields[name].shape
        if is_comparable and register(unpacked(fields[other]), own).height >= SURE:
            return camera
    return None


def splits(
    cameras_of: Mapping[str, str], known: Mapping[str, str], *, validation: float, test: float
) -> dict[str, str]:
    """Return what each sequence is for. `known` are cameras that have their split already, and keep it.

    New cameras come in the order of a hash of their names, and each goes where most are missing: so shares are met as
    well as whole cameras allow, the order of the sources does not matter, and adding sources moves no old one.
    """
    wanted = {"train": 1 - validation - test, "validation": validation, "test": test}
    of_camera = {camera: split for camera, split in known.items() if camera in cameras_of.values()}
    new = sorted(set(cameras_of.values()) - set(of_camera), key=lambda c: hashlib.sha256(c.encode()).digest())
    total = len(of_camera) + len(new)
    for camera in new:
        counts = Counter(of_camera.values())
        missing = {split: wanted[split] * total - counts[split] for split in SPLITS}
        of_camera[camera] = max(SPLITS, key=lambda split: missing[split])  # of equals the first: train
    return {name: of_camera[camera] for name, camera in cameras_of.items()}
