"""What a scene is made of, in numbers that any renderer can read.

A scene is shapes, the lights that may shine on them, and a camera. Shapes are unit shapes of their own space, placed
in the world by affine maps. Lights are white and of one strength: color and strength are chosen when frames are
composed, since light adds up.

World units are meters, z points up. Shapes: n shapes, k lights, g height grids of side s.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from torch import Tensor


class ShapeKind(IntEnum):
    """Unit shapes. All are closed but QUAD and TERRAIN, whose two sides look alike."""

    SPHERE = 0
    """x² + y² + z² = 1."""
    BOX = 1
    """[−1, 1]³."""
    CYLINDER = 2
    """x² + y² = 1, z in [−1, 1], with its two caps."""
    CONE = 3
    """Radius (1 − z) / 2 for z in [−1, 1]: a cap at z = −1, the tip at z = 1."""
    QUAD = 4
    """[−1, 1]² at z = 0."""
    TERRAIN = 5
    """z = heights(x, y) over [−1, 1]², bilinear between the grid's values, which are in [−1, 1]."""


@dataclass(frozen=True)
class Shapes:
    """What light falls on."""

    kind: Tensor
    """(n,) int32, of `ShapeKind`."""
    to_world: Tensor
    """(n, 3, 4) float32: object to world, a matrix and a translation; invertible."""
    material: Tensor
    """(n,) int32: into the scene's materials."""
    reflectance: Tensor
    """(n, 3): the mean reflectance of the shape, which is what bounced light meets; textures are for the camera."""
    grid: Tensor
    """(n,) int32: into `heights`, −1 for all but TERRAIN."""
    heights: Tensor
    """(g, s, s): rows along y, columns along x; g may be 0."""


class LightKind(IntEnum):
    """Kinds of lights."""

    LAMP = 0
    """A sphere of `radius` around `position`, that shines the same to all sides."""
    PANEL = 1
    """A parallelogram: `position` is its center, `edge_u` and `edge_v` half its sides; shines along edge_u × edge_v."""
    SPOT = 2
    """A lamp that shines in a cone about `direction`: full within half of `angle`, falling to none at `angle`."""
    SUN = 3
    """Light from `direction` (towards which it shines), the disk's angular radius is `angle`."""
    SKY = 4
    """Light from everywhere above and below the horizon, by `Lights.sky`."""


@dataclass(frozen=True)
class Lights:
    """What shines. Lights cannot be seen and cast no shadow, so that they do not change each other's irradiance."""

    kind: Tensor
    """(k,) int32, of `LightKind`."""
    position: Tensor
    """(k, 3)."""
    direction: Tensor
    """(k, 3), of length one."""
    edge_u: Tensor
    """(k, 3)."""
    edge_v: Tensor
    """(k, 3)."""
    radius: Tensor
    """(k,) meters."""
    angle: Tensor
    """(k,) radians."""
    radiance: Tensor
    """(k,): of the surface that shines; for SUN that of its disk, for SKY a factor on `sky`."""
    sky: Tensor
    """(s, 2s): radiance by direction; rows from straight up to straight down, columns by azimuth from x towards y."""


@dataclass(frozen=True)
class Camera:
    """A pinhole that looks from `position` to `target`; `view` is the vertical angle in radians. z is up."""

    position: tuple[float, float, float]
    target: tuple[float, float, float]
    view: float


@dataclass(frozen=True)
class LightBasis:
    """A rendered scene: everything that frames are composed of."""

    reflectance: Tensor
    """(3, h, w), linear."""
    irradiance: Tensor
    """(k, 3, h, w): what each light alone makes, bounces included, divided by π. A frame is reflectance times a mixture
    of these."""
    mask: Tensor
    """(1, h, w): True where there is a matt surface."""
    depth: Tensor
    """(1, h, w), meters; infinite where there is none."""
    normal: Tensor
    """(3, h, w), of the surface as shaded, towards the camera."""
