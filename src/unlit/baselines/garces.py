"""Garces: pixels of one color are one reflectance, region by region, and light goes on across their borders.

Garces et al. 2012 (Intrinsic images by clustering). Shapes: h x w pixels, n of them valid, k regions; `image` (h, w, 3)
is linear light, nominally in [0, 1]. Pixels are clustered by the colors a and b of CIE L*a*b*; the connected parts of a
cluster are regions, each of one brightness of reflectance. Linear equations, met by least squares, say how bright: the
shading goes on across each border, and regions of one cluster are equally bright. The second are the weaker, as a
color may come in several brightnesses. What changes inside a region is shading.

Unlike the paper's, colors are first brought to one lightness, or clusters would end along slopes of light; and a region
too small to tell is joined to whichever lies nearest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.ndimage import distance_transform_edt, label
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from unlit.baselines.clusters import k_means
from unlit.baselines.regions import least_squares_levels
from unlit.baselines.splitting import View, split

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unlit.baselines.splitting import Mask, Split, Values

    Floats = NDArray[np.float64]
    Labels = NDArray[np.intp]
    Equations = tuple[Labels, Labels, Floats, Floats]
    """Region, other region, step between their levels, weight; each (e,)."""

SMALLEST = 1e-4
"""A region of a smaller share of the pixels is joined to its surroundings: it is noise."""

ACROSS = 3
"""Steps across a border are taken between pixels this far apart: those at the border itself are mixtures."""

JUST_SEEN = 2.3
"""A difference of color that is just seen, in units of L*a*b*."""

ROUNDS = 5
CONFLICT = 0.3
"""Equations that others contradict by more than this, in logs, are relaxed in further rounds, as the paper suggests."""

_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
_WHITE = np.array([0.9505, 1.0, 1.0890])
_LAB_TURN = (6 / 29) ** 3
"""IEC 61966-2-1 primaries and CIE 1976 L*a*b* under D65."""


def garces(image: Values, mask: Mask, clusters: int = 20, same: float = 3.0) -> Split:
    """Return reflectance (h, w, 3) and gray shading (h, w).

    `same` is the weight of the equation that ties a region to the largest of its cluster, times the root of its pixels:
    a pair of pixels across a border has 1.

    Both are linear float32 and zero outside the mask; inside, their product is the image. The largest reflectance is 1.
    ValueError where the image or the mask cannot be used.
    """

    def log_shading(view: View) -> Floats:
        colors = lab_colors(view.light[:, view.valid])
        label_map = np.full(view.valid.shape, -1)
        label_map[view.valid] = _told_apart(*k_means(colors.T, clusters))
        label_map = _without_small(label_map, view.valid)
        return view.log_gray - _levels(label_map, view.valid, view.log_gray, same)

    return split(image, mask, log_shading)


def lab_colors(light: Floats) -> Floats:
    """Return a and b (2, n) of CIE L*a*b* at the lightness of white, for linear RGB (3, n) of sRGB's primaries.

    Under less light a and b shrink with the cube root of it; brought to one lightness they are the surface's own.
    """
    xyz = (_XYZ @ light) / _WHITE[:, None]
    root = np.where(xyz > _LAB_TURN, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    colors: Floats = np.stack([500 * (root[0] - root[1]), 200 * (root[1] - root[2])]) / root[1]
    return colors


def _told_apart(centers: Floats, labels: Labels) -> Labels:
    """Return the labels, where clusters between whose centers nobody sees a difference are one."""
    distance = np.sqrt(np.sum((centers[:, None] - centers) ** 2, axis=-1))
    _, joined = connected_components(csr_array(distance < JUST_SEEN))
    return joined.astype(np.intp)[labels]


def regions_of(label_map: Labels) -> Labels:
    """Return the connected parts (h, w), 0 and up, of each label of a map (h, w) that has −1 outside; corners touch."""
    regions = np.full(label_map.shape, -1)
    count = 0
    for value in range(label_map.max() + 1):
        parts, found = label(label_map == value, np.ones((3, 3)))
        regions[parts > 0] = parts[parts > 0] - 1 + count
        count += found
    return regions


def _without_small(label_map: Labels, valid: Mask) -> Labels:
    """Return the map in which pixels of regions too small take the label of the nearest pixel of any other."""
    regions = regions_of(label_map)
    large = np.bincount(regions[valid]) >= SMALLEST * np.count_nonzero(valid)
    kept = valid & large[regions]
    if not kept.any():
        return label_map
    nearest = distance_transform_edt(~kept, return_distances=False, return_indices=True)
    return np.where(valid, label_map[tuple(nearest)], -1)


def _levels(label_map: Labels, valid: Mask, log_gray: Floats, same: float) -> Floats:
    """Return the log of each region's brightness of reflectance, at its pixels (h, w)."""
    regions = regions_of(label_map)
    size = np.bincount(regions[valid])
    start = np.bincount(regions[valid], log_gray[valid]) / size
    parts = [*_border_equations(regions, log_gray), _cluster_equations(regions, label_map, size, same)]
    one, other, step, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
    levels, relaxed = start, weight
    for _ in range(ROUNDS if len(step) else 0):
        levels = least_squares_levels(one, other, step, relaxed, start)
        relaxed = weight / (1 + ((step - (levels[one] - levels[other])) / CONFLICT) ** 2)
    return np.where(valid, levels[regions], 0.0)


def _border_equations(regions: Labels, log_gray: Floats) -> list[Equations]:
    """Return that the shading goes on from a region to the next, down and to the right."""
    found = []
    for one, other in ((np.s_[ACROSS:], np.s_[:-ACROSS]), (np.s_[:, ACROSS:], np.s_[:, :-ACROSS])):
        border = (regions[one] != regions[other]) & (regions[one] >= 0) & (regions[other] >= 0)
        step = (log_gray[one] - log_gray[other])[border]
        found.append((regions[one][border], regions[other][border], step, np.ones(len(step))))
    return found


def _cluster_equations(regions: Labels, label_map: Labels, size: Labels, same: float) -> Equations:
    """Return that a region is as bright as the largest of its cluster."""
    label_of = np.zeros(len(size), np.intp)
    label_of[regions[regions >= 0]] = label_map[regions >= 0]
    largest = np.zeros(label_of.max() + 1, np.intp)
    by_size = np.argsort(size, kind="stable")
    largest[label_of[by_size]] = by_size  # the last one written is the largest
    one = np.flatnonzero(largest[label_of] != np.arange(len(size)))
    return one, largest[label_of[one]], np.zeros(len(one)), same * np.sqrt(size[one])
