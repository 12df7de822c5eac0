"""Scenes handed to Mitsuba 3, a renderer that nobody here wrote.

Round shapes and terrains go as fine meshes with the normals of the true surface; boxes, quads and lights as Mitsuba's
own. A light's shape lets everything through ("null"), as our lights do. SPOT has no counterpart there that falls off as
ours does.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unlit.worlds.description import LightKind, Lights, ShapeKind, Shapes

Array = NDArray[np.float64]
AROUND = 128
"""Facets around a round shape."""
WITHIN = 8
"""Facets along a cell of a terrain."""


def mitsuba_scene(mi: Any, shapes: Shapes, lights: Lights, light: int, bounces: int, folder: Path) -> Any:
    """Return a scene of Mitsuba with one of the lights; meshes are written to `folder`."""
    integrator = {"type": "path", "max_depth": bounces + 2, "rr_depth": 100, "hide_emitters": True}
    description: dict[str, Any] = {"type": "scene", "integrator": integrator}
    for i in range(len(shapes.kind)):
        description[f"shape{i}"] = _shape(mi, shapes, i, folder)
    description["light"] = _light(mi, lights, light)
    return mi.load_dict(description)


def radiance(mi: Any, scene: Any, origin: Tensor, direction: Tensor, samples: int, seed: int) -> Tensor:
    """Return the radiance (3, r) that comes against rays (3, r), a mean over `samples`."""
    import drjit as dr

    count = direction.shape[1] * samples
    o, d = (np.repeat(vector.numpy(), samples, 1) for vector in (origin, direction))
    rays = mi.RayDifferential3f(mi.Ray3f(mi.Point3f(*o), mi.Vector3f(*d)))
    sampler = mi.load_dict({"type": "independent"})
    sampler.seed(seed, count)
    light = scene.integrator().sample(scene, sampler, rays)[0]
    dr.eval(light)
    return torch.from_numpy(np.array(light)).reshape(3, -1, samples).mean(2)


def _shape(mi: Any, shapes: Shapes, i: int, folder: Path) -> dict[str, Any]:
    kind = ShapeKind(int(shapes.kind[i]))
    to_world = shapes.to_world[i].double().numpy()
    color = {"type": "rgb", "value": shapes.reflectance[i].tolist()}
    matt = {"type": "twosided", "bsdf": {"type": "diffuse", "reflectance": color}}
    if kind in (ShapeKind.BOX, ShapeKind.QUAD):
        name = "cube" if kind == ShapeKind.BOX else "rectangle"
        return {"type": name, "to_world": _transform(mi, to_world), "bsdf": matt}
    is_terrain = kind == ShapeKind.TERRAIN
    vertices, normals, faces = _mesh(kind, shapes.heights[int(shapes.grid[i])].double().numpy() if is_terrain else None)
    file = folder / f"{i}.ply"
    turned = normals @ np.linalg.inv(to_world[:, :3])  # the inverse, transposed
    turned /= np.linalg.norm(turned, axis=1, keepdims=True)
    _write_ply(file, vertices @ to_world[:, :3].T + to_world[:, 3], turned, faces)
    return {"type": "ply", "filename": str(file), "bsdf": matt}


def _light(mi: Any, lights: Lights, i: int) -> dict[str, Any]:
    kind, shine = LightKind(int(lights.kind[i])), float(lights.radiance[i])
    if kind == LightKind.SUN:
        flux = math.pi * math.sin(float(lights.angle[i])) ** 2 * shine
        return {
            "type": "directional",
            "direction": lights.direction[i].tolist(),
            "irradiance": {"type": "rgb", "value": flux},
        }
    if kind == LightKind.SKY:
        picture = (lights.sky * shine)[:, :, None].repeat(1, 1, 3).numpy()
        # Mitsuba's skies have y up. Where azimuth does not matter, one turn is all.
        turn = mi.ScalarTransform4f().rotate([1, 0, 0], 90)
        return {"type": "envmap", "bitmap": mi.Bitmap(picture), "to_world": turn}
    emitter = {"type": "area", "radiance": {"type": "rgb", "value": shine}}
    place = lights.position[i].tolist()
    if kind == LightKind.LAMP:
        lamp = {"type": "sphere", "center": place, "radius": float(lights.radius[i])}
        return {**lamp, "emitter": emitter, "bsdf": {"type": "null"}}
    assert kind == LightKind.PANEL, "a SPOT cannot be handed over"
    u, v = lights.edge_u[i].double().numpy(), lights.edge_v[i].double().numpy()
    face = np.cross(u, v)
    to_world = np.stack([u, v, face / np.linalg.norm(face), np.array(place)], 1)
    return {"type": "rectangle", "to_world": _transform(mi, to_world), "emitter": emitter, "bsdf": {"type": "null"}}


def _transform(mi: Any, to_world: Array) -> Any:
    return mi.ScalarTransform4f(np.concatenate([to_world, [[0.0, 0.0, 0.0, 1.0]]]))


def _mesh(kind: ShapeKind, heights: Array | None) -> tuple[Array, Array, NDArray[np.int32]]:
    """Vertices, normals (v, 3) and triangles (f, 3) of a unit shape."""
    if heights is not None:
        return _terrain(heights)
    turn = np.linspace(0, 2 * math.pi, AROUND + 1)
    x, y = np.cos(turn), np.sin(turn)
    flat = np.zeros_like(turn)
    if kind == ShapeKind.SPHERE:
        polar = np.linspace(0, math.pi, AROUND // 2 + 1)[:, None]
        points = np.stack([np.sin(polar) * x, np.sin(polar) * y, np.cos(polar) + flat], 2)
        return _joined([(points, points)])
    bottom, center = np.stack([x, y, flat - 1], 1), np.stack([flat, flat, flat - 1], 1)
    down = np.stack([flat, flat, flat - 1], 1)
    cap = (np.stack([center, bottom]), np.stack([down, down]))
    if kind == ShapeKind.CONE:
        side = np.stack([x, y, flat + 0.5], 1)
        levels = [bottom * [level, level, 0] + [0, 0, 1 - 2 * level] for level in np.linspace(1, 0, 9)]
        return _joined([(np.stack(levels), np.stack([side] * 9)), cap])
    out = np.stack([x, y, flat], 1)
    top = (np.stack([-center, bottom * [1, 1, -1]]), np.stack([-down, -down]))
    return _joined([(np.stack([bottom, bottom * [1, 1, -1]]), np.stack([out, out])), cap, top])


def _terrain(heights: Array) -> tuple[Array, Array, NDArray[np.int32]]:
    """Each cell is a sheet of its own, since slopes jump from cell to cell."""
    cells = len(heights) - 1
    a = np.linspace(0, 1, WITHIN + 1)
    b = a[:, None]
    sheets = []
    for row in range(cells):
        for column in range(cells):
            (h00, h01), (h10, h11) = heights[row : row + 2, column : column + 2]
            z = (1 - b) * ((1 - a) * h00 + a * h01) + b * ((1 - a) * h10 + a * h11)
            slope_x = ((1 - b) * (h01 - h00) + b * (h11 - h10)) * cells / 2 + 0 * a
            slope_y = ((1 - a) * (h10 - h00) + a * (h11 - h01)) * cells / 2 + 0 * b
            x, y = (column + a) * 2 / cells - 1 + 0 * b, (row + b) * 2 / cells - 1 + 0 * a
            sheets.append((np.stack([x, y, z], 2), np.stack([-slope_x, -slope_y, np.ones_like(z)], 2)))
    return _joined(sheets)


def _joined(sheets: list[tuple[Array, Array]]) -> tuple[Array, Array, NDArray[np.int32]]:
    """Sheets of points and normals (i, j, 3) as one mesh."""
    vertices, normals, faces, first = [], [], [], 0
    for points, upright in sheets:
        i, j = points.shape[:2]
        corner = first + (np.arange(i - 1)[:, None] * j + np.arange(j - 1)).reshape(-1)
        faces += [np.stack([corner, corner + j, corner + j + 1], 1), np.stack([corner, corner + j + 1, corner + 1], 1)]
        vertices.append(points.reshape(-1, 3))
        normals.append(upright.reshape(-1, 3))
        first += i * j
    return np.concatenate(vertices), np.concatenate(normals), np.concatenate(faces).astype(np.int32)


def _write_ply(file: Path, vertices: Array, normals: Array, faces: NDArray[np.int32]) -> None:
    fields = "".join(f"property float {name}\n" for name in ("x", "y", "z", "nx", "ny", "nz"))
    header = f"ply\nformat binary_little_endian 1.0\nelement vertex {len(vertices)}\n{fields}"
    header += f"element face {len(faces)}\nproperty list uchar int vertex_indices\nend_header\n"
    table = np.zeros(len(faces), [("count", "u1"), ("corner", "<i4", 3)])
    table["count"], table["corner"] = 3, faces
    points = np.concatenate([vertices, normals], 1).astype("<f4")
    file.write_bytes(header.encode() + points.tobytes() + table.tobytes())
