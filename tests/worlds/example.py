"""Scenes for tests: every kind of shape and light, at random."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Generator, Tensor

from unlit.worlds.description import Camera, LightKind, Lights, ShapeKind, Shapes

NO_HEIGHTS = torch.zeros(0, 2, 2)
DARK = torch.zeros(2, 4)


def generator(seed: int) -> Generator:
    return torch.Generator().manual_seed(seed)


def uniform(source: Generator, low: float, high: float, *size: int) -> Tensor:
    return low + (high - low) * torch.rand(*size, generator=source)


def turned(source: Generator) -> Tensor:
    """A random rotation (3, 3)."""
    q, r = torch.linalg.qr(torch.randn(3, 3, generator=source))
    rotation: Tensor = q * torch.diagonal(r).sign()
    return -rotation if torch.linalg.det(rotation) < 0 else rotation


def placed(scale: tuple[float, float, float], at: tuple[float, float, float], rotation: Tensor | None = None) -> Tensor:
    """The map (3, 4) of a shape scaled, turned and moved."""
    turn = torch.eye(3) if rotation is None else rotation
    return torch.cat([turn @ torch.diag(torch.tensor(scale)), torch.tensor(at)[:, None]], 1)


def shapes(
    kinds: list[ShapeKind], maps: list[Tensor], reflectance: float = 0.5, heights: Tensor = NO_HEIGHTS
) -> Shapes:
    grid = [0 if kind == ShapeKind.TERRAIN else -1 for kind in kinds]
    return Shapes(
        torch.tensor(kinds, dtype=torch.int32), torch.stack(maps), torch.zeros(len(kinds), dtype=torch.int32),
        torch.full((len(kinds), 3), reflectance), torch.tensor(grid, dtype=torch.int32), heights,
    )  # fmt: skip


def light(kind: LightKind, sky: Tensor = DARK, **values: list[float] | float) -> Lights:
    """One light; what is not given is zero, or down."""

    def one(name: str, default: list[float] | float) -> Tensor:
        return torch.tensor([values.get(name, default)])

    down = [0.0, 0.0, -1.0]
    nowhere = [0.0, 0.0, 0.0]
    return Lights(
        kind=torch.tensor([kind], dtype=torch.int32),
        position=one("position", nowhere),
        direction=one("direction", down),
        edge_u=one("edge_u", nowhere),
        edge_v=one("edge_v", nowhere),
        radius=one("radius", 0.1),
        angle=one("angle", 0.1),
        radiance=one("radiance", 1.0),
        sky=sky,
    )


def together(*lights: Lights, sky: Tensor = DARK) -> Lights:
    """Several lights, under one sky."""
    joined = {name: torch.cat([getattr(part, name) for part in lights]) for name in vars(lights[0]) if name != "sky"}
    return Lights(**joined, sky=sky)


def some_of(lights: Lights, count: int) -> Lights:
    """The first few lights."""
    return Lights(**{name: value if name == "sky" else value[:count] for name, value in vars(lights).items()})


def waves(side: int) -> Tensor:
    """A height grid (1, side, side)."""
    y, x = torch.meshgrid(torch.linspace(-3, 3, side), torch.linspace(-3, 3, side), indexing="ij")
    return (torch.sin(2 * x) * torch.cos(1.5 * y) * 0.6)[None]


def random_shapes(seed: int, count: int = 10) -> Shapes:
    """Ground, a wall, and shapes of all kinds, standing, leaning or in the air."""
    source = generator(seed)
    kinds = [ShapeKind.QUAD, ShapeKind.BOX]
    maps = [placed((4.0, 4.0, 1.0), (0.0, 0.0, 0.0)), placed((0.1, 4.0, 2.0), (-4.0, 0.0, 2.0))]
    for i in range(count):
        kinds.append(ShapeKind(i % 6))
        size = uniform(source, 0.2, 0.7, 3).tolist()
        at = [*uniform(source, -2.5, 2.5, 2).tolist(), float(uniform(source, 0.2, 1.5, 1))]
        maps.append(placed((size[0], size[1], size[2]), (at[0], at[1], at[2]), turned(source)))
    result = shapes(kinds, maps, heights=waves(17))
    return replace(result, reflectance=uniform(source, 0.1, 0.8, len(kinds), 3))


def random_lights(seed: int) -> Lights:
    """One of each kind."""
    source = generator(seed + 1000)
    x, y, u, v = uniform(source, -2.0, 2.0, 4).tolist()
    slant = torch.nn.functional.normalize(torch.tensor([u / 2, v / 2, -1.0]), dim=0).tolist()
    sky = uniform(source, 0.2, 1.0, 8, 16) * torch.linspace(1, 0.05, 8)[:, None]
    return together(
        light(LightKind.LAMP, position=[x, y, 3.0], radius=0.2, radiance=50.0),
        light(LightKind.PANEL, position=[y, u, 3.5], edge_u=[0.5, 0.0, 0.1], edge_v=[0.0, -0.8, 0.0], radiance=8.0),
        light(LightKind.SPOT, position=[u, v, 3.5], direction=[0.0, 0.0, -1.0], radius=0.1, angle=0.6, radiance=300.0),
        light(LightKind.SUN, direction=slant, angle=0.03, radiance=400.0),
        light(LightKind.SKY, radiance=1.0),
        sky=sky,
    )  # fmt: skip


CAMERA = Camera((2.5, -6.0, 3.0), (0.0, 0.0, 0.7), 0.8)
