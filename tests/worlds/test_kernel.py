"""The renderer's fast form against its readable form: the same random numbers, so the same picture but for rounding."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.worlds.example import (
    CAMERA,
    generator,
    light,
    placed,
    random_lights,
    random_shapes,
    shapes,
    some_of,
    together,
    turned,
    uniform,
    waves,
)
from unlit.worlds import render_kernel
from unlit.worlds.description import LightKind, Lights, ShapeKind, Shapes
from unlit.worlds.intersection import geometry, nearest
from unlit.worlds.nvrtc import CompilationError, compiled
from unlit.worlds.render import irradiance, primary_hits, render
from unlit.worlds.render_kernel import MOST_LIGHTS, MOST_SHAPES, is_available, kernel_hits, kernel_source

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> torch.device:
    place = torch.device(request.param, 0) if request.param == "cuda" else torch.device("cpu")
    if place.type == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    if place.type == "cpu" and not is_available(place):
        pytest.skip("the fast form on a CPU needs a C++ compiler, and none was found")
    return place


def apart(fast: Tensor, readable: Tensor) -> Tensor:
    """How far two renderings are from each other, over the mean of each light."""
    return (fast - readable).abs() / readable.mean((1, 2, 3), keepdim=True).clamp_min(1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_both_forms_render_the_same(device: torch.device, seed: int) -> None:
    scene, lights = random_shapes(seed, 12), random_lights(seed)
    hits = primary_hits(scene, CAMERA, (16, 24), "reference", device)
    bumps = hits.normal + 0.3 * torch.randn(3, 16, 24, generator=generator(seed)).to(device)
    bumps = bumps / bumps.norm(dim=0)
    fast, readable = (
        irradiance(
            scene, lights, hits.position, hits.normal, shading_normals=bumps, mask=hits.mask,
            samples=48, paths=16, bounces=3, seed=seed, form=form,
        )
        for form in ("kernel", "reference")
    )  # fmt: skip
    difference = apart(fast, readable)
    # A ray that grazes an edge may pass in one form and not in the other; a sample is one of 48.
    assert float((difference > 1e-3).float().mean()) < 0.01
    assert float(difference.mean()) < 1e-4
    assert float(readable.mean()) > 0


def test_both_forms_see_the_same(device: torch.device) -> None:
    scene = random_shapes(9, 18)
    fast, readable = (primary_hits(scene, CAMERA, (40, 60), form, device) for form in ("kernel", "reference"))
    same = fast.shape == readable.shape
    assert float(same.float().mean()) > 0.999
    met = same & (readable.shape >= 0)
    assert torch.allclose(fast.depth[0, met], readable.depth[0, met], rtol=1e-4)
    assert torch.equal(fast.mask, readable.mask)
    for name in ("position", "normal", "object_position", "object_normal"):
        a, b = getattr(fast, name), getattr(readable, name)
        close = (a - b).abs().amax(0) < 1e-3
        assert float(close.float().mean()) > 0.995, name


@pytest.mark.parametrize("kind", list(ShapeKind))
def test_both_forms_meet_each_kind_of_shape(device: torch.device, kind: ShapeKind) -> None:
    source = generator(int(kind))
    maps = [placed((0.4, 0.9, 1.4), (0.3, -0.2, 0.1), turned(source)), placed((2.0, 0.1, 0.3), (0.0, 1.0, 0.0))]
    scene = shapes([kind, kind], maps, heights=waves(13))
    origin = torch.randn(3, 4000, generator=source) * 2
    direction = torch.nn.functional.normalize(uniform(source, -1, 1, 3, 4000) - origin, dim=0)
    direction[:, :40] = torch.tensor([[0.0], [0.0], [-1.0]])  # along an axis, where divisions are by zero
    t, index = nearest(geometry(scene), origin, direction)
    fast = kernel_hits(scene, origin.to(device), direction.to(device))
    fast_t, same = fast.distance, fast.index.cpu() == index
    assert float(same.float().mean()) > 0.998
    assert torch.allclose(fast_t.cpu()[same], t[same], rtol=1e-4, atol=1e-5)
    assert int((index >= 0).sum()) > 500


def test_more_lights_than_one_launch_takes(device: torch.device) -> None:
    scene = random_shapes(2, 6)
    lights = together(*[random_lights(seed) for seed in range(4)], sky=random_lights(0).sky)
    assert len(lights.kind) > MOST_LIGHTS
    fast, readable = (
        render(scene, lights, CAMERA, size=(6, 8), samples=8, form=form, device=device).irradiance
        for form in ("kernel", "reference")
    )
    assert float(apart(fast, readable).mean()) < 1e-3
    few = render(scene, some_of(lights, 3), CAMERA, size=(6, 8), samples=8, form="kernel", device=device).irradiance
    assert torch.equal(few, fast[:3])


def test_samples_that_do_not_fill_a_warp(device: torch.device) -> None:
    scene, lights = random_shapes(3, 6), random_lights(3)
    fast, readable = (
        render(scene, lights, CAMERA, size=(5, 7), samples=5, form=form, device=device).irradiance
        for form in ("kernel", "reference")
    )
    assert float(apart(fast, readable).mean()) < 1e-3


def walled(side: float) -> Shapes:
    """A room of six quads with things in it, all on the inner side: walls that cannot cast a shadow."""
    maps = []
    for axis in range(3):
        turn = torch.roll(torch.eye(3), axis, 0)
        for way in (-1.0, 1.0):
            at = torch.roll(torch.tensor([0.0, 0.0, way * side]), axis)
            maps.append(torch.cat([turn * side, at[:, None]], 1))
    inner = random_shapes(5, 8)
    kinds = [ShapeKind.QUAD] * 6 + [ShapeKind(int(kind)) for kind in inner.kind[2:]]
    room = shapes(kinds, [*maps, *inner.to_world[2:]], heights=waves(9))
    return replace(room, reflectance=uniform(generator(1), 0.2, 0.8, len(kinds), 3))


def test_walls_that_are_left_out_change_nothing(device: torch.device) -> None:
    lights = together(
        light(LightKind.LAMP, position=[0.5, 0.0, 2.5], radius=0.2, radiance=20.0),
        light(LightKind.PANEL, position=[0.0, 0.0, 2.9], edge_u=[0.5, 0.0, 0.0], edge_v=[0.0, -0.5, 0.0], radiance=9.0),
        light(LightKind.SUN, direction=[0.0, 0.0, -1.0], radiance=100.0),
    )
    fast, readable = (
        render(walled(3.0), lights, CAMERA_INSIDE, size=(12, 16), samples=16, form=form, device=device).irradiance
        for form in ("kernel", "reference")
    )
    assert float((apart(fast, readable) > 1e-3).float().mean()) < 0.01
    assert not readable[2].any()  # the ceiling keeps the sun out


CAMERA_INSIDE = replace(CAMERA, position=(2.0, -2.5, 1.0))


def test_lists_do_not_lose_a_shape_that_is_in_the_way(device: torch.device) -> None:
    """Many points and lights all around, so that every way to leave a shape out is tried."""
    source = generator(11)
    scene = random_shapes(7, 30)
    lamps: list[Lights] = []
    for i in range(12):
        at = uniform(source, -3.5, 3.5, 3).tolist()
        kind = [LightKind.LAMP, LightKind.PANEL, LightKind.SUN][i % 3]
        way = torch.nn.functional.normalize(torch.randn(3, generator=source), dim=0).tolist()
        edges = uniform(source, -1, 1, 2, 3).tolist()
        lamps.append(light(kind, position=at, direction=way, edge_u=edges[0], edge_v=edges[1], radius=0.3, angle=0.2))
    points, normals = uniform(source, -3, 3, 3, 20, 20), torch.randn(3, 20, 20, generator=source)
    normals = normals / normals.norm(dim=0)
    fast, readable = (
        irradiance(
            scene, together(*lamps), points.to(device), normals.to(device), samples=32, paths=1, bounces=0, form=form
        )
        for form in ("kernel", "reference")
    )
    assert float((apart(fast, readable) > 1e-3).float().mean()) < 0.005


@pytest.mark.parametrize("kind", list(ShapeKind))
def test_what_lies_below_the_surface_is_left_out_and_nothing_else(device: torch.device, kind: ShapeKind) -> None:
    """Points all around one shape, under a sky: whatever of it rises above the point's plane takes light away."""
    source = generator(20 + int(kind))
    scene = shapes([kind], [placed((0.5, 0.9, 1.3), (0.0, 0.0, 0.0), turned(source))], heights=waves(9))
    points, normals = (torch.nn.functional.normalize(torch.randn(3, 30, 30, generator=source), dim=0) for _ in range(2))
    sky = light(LightKind.SKY, torch.ones(4, 8))
    fast, readable = (
        irradiance(scene, sky, 1.4 * points.to(device), normals.to(device), samples=16, bounces=1, form=form)
        for form in ("kernel", "reference")
    )
    assert float((apart(fast, readable) > 1e-3).float().mean()) < 0.005
    assert float((readable < 0.9).float().mean()) > 0.05


def test_the_source_compiles_for_a_gpu(tmp_path: Path) -> None:
    """By NVRTC or nvcc, whichever is here; neither needs a GPU."""
    try:
        assert len(compiled(kernel_source(), "sm_90")) > 10_000
    except CompilationError as error:
        if "not installed" not in str(error):
            raise
        nvcc = shutil.which("nvcc")
        if nvcc is None:
            pytest.skip("neither NVRTC nor nvcc is installed")
        source = tmp_path / "kernel.cu"
        source.write_text(kernel_source())
        command = [nvcc, "-arch=sm_90", "-use_fast_math", "-cubin", "-Xptxas", "-v", "-o", "/dev/null", str(source)]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
        assert "unlit_irradiance" in said
        assert said.count("0 bytes spill stores") == said.count("spill stores")


def test_all_parts_of_the_source_are_joined_and_compilers_name_them() -> None:
    assert set(render_kernel.PARTS) == set(render_kernel.PARTS[0].parent.iterdir())
    assert [line for line in kernel_source().splitlines() if line.startswith("#line")] == [
        f'#line 1 "{part.name}"' for part in render_kernel.PARTS
    ]


@pytest.fixture
def fresh_library() -> Iterator[None]:
    """Let the library be looked for again, now and after the test."""
    render_kernel._library.cache_clear()
    yield
    render_kernel._library.cache_clear()


@pytest.mark.usefixtures("fresh_library")
def test_without_a_compiler_the_readable_form_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, lights = random_shapes(1, 3), random_lights(1)
    readable = render(scene, lights, CAMERA, size=(4, 6), samples=4, form="reference").irradiance
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert not is_available(torch.device("cpu"))
    assert torch.equal(render(scene, lights, CAMERA, size=(4, 6), samples=4).irradiance, readable)
    with pytest.raises(CompilationError, match=r"no C\+\+ compiler"):
        render(scene, lights, CAMERA, size=(4, 6), samples=4, form="kernel")


@pytest.mark.usefixtures("fresh_library")
def test_a_cache_that_cannot_be_written_does_not_stop_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if not is_available(torch.device("cpu")):
        pytest.skip("no C++ compiler was found")
    render_kernel._library.cache_clear()
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert is_available(torch.device("cpu"))


@pytest.mark.usefixtures("fresh_library")
@pytest.mark.parametrize("refused", ["-march=native", "-O3"])
def test_a_compiler_that_does_not_know_the_processor_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, refused: str
) -> None:
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler was found")
    picky = tmp_path / "c++"
    picky.write_text(
        f'#!/bin/sh\necho "$*" >> {tmp_path}/asked\n'
        f'case " $* " in *" {refused} "*) echo "no {refused}" >&2; exit 1;; esac\nexec {compiler} "$@"\n'
    )
    picky.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda name: str(picky))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert is_available(torch.device("cpu")) is (refused == "-march=native")
    assert bool(list(tmp_path.glob("cache/unlit/render-*.so"))) is (refused == "-march=native")
    *_, compiling = (tmp_path / "asked").read_text().splitlines()
    assert ("-march=native" in compiling) is (refused != "-march=native")


@pytest.mark.usefixtures("fresh_library")
def test_each_kind_of_processor_has_a_library_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    files = []

    def refused(command: list[str], file: Path) -> Path:
        files.append(file.name)
        raise OSError(f"no {command[0]}")

    monkeypatch.setattr(shutil, "which", lambda name: "c++")
    monkeypatch.setattr(render_kernel, "_built", refused)
    for said in ("#define __AVX2__ 1", "", "#define __AVX2__ 1"):
        monkeypatch.setattr(render_kernel, "target", lambda compiler, said=said: ((), said))
        render_kernel._library.cache_clear()
        assert not is_available(torch.device("cpu"))
    one, other, again = files[::2]  # each is tried in the cache, and elsewhere
    assert one == again != other


def test_a_compiler_says_what_it_takes_for_given() -> None:
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler was found")
    flags, said = render_kernel.target(compiler)
    assert flags == render_kernel.MACHINE_FLAGS
    assert "#define __VERSION__" in said
    assert render_kernel.target("false") == ((), "")


def test_the_library_leaves_small_numbers_as_they_are() -> None:
    if not is_available(torch.device("cpu")):
        pytest.skip("no C++ compiler was found")
    smallest = torch.tensor([1e-40])
    assert float(smallest * 0.5) > 0


def test_a_source_that_is_wrong_is_refused_with_what_the_compiler_said() -> None:
    try:
        compiled("int x = 1;", "sm_90")
    except CompilationError as error:
        pytest.skip(str(error))
    with pytest.raises(CompilationError, match="error"):
        compiled("this is no source", "sm_90")


@pytest.mark.parametrize("samples", [4, 24])
def test_both_forms_render_as_many_shapes_as_the_fast_one_takes(device: torch.device, samples: int) -> None:
    many, lights = random_shapes(1, MOST_SHAPES - 2), random_lights(1)
    assert len(many.kind) == MOST_SHAPES
    fast, readable = (
        render(many, lights, CAMERA, size=(6, 9), samples=samples, bounces=1, seed=3, form=form, device=device)
        for form in ("kernel", "reference")
    )
    # So few samples that a ray that grazes an edge shows.
    assert float((apart(fast.irradiance, readable.irradiance) > 1e-3).float().mean()) < 0.02
    assert float(readable.irradiance.mean()) > 0


def test_too_many_shapes_for_the_fast_form_are_refused_by_name(device: torch.device) -> None:
    many = random_shapes(1, MOST_SHAPES)
    with pytest.raises(ValueError, match="shapes"):
        render(many, random_lights(1), CAMERA, size=(2, 2), samples=1, form="kernel", device=device)
    assert render(many, random_lights(1), CAMERA, size=(2, 2), samples=1, device=device).irradiance.isfinite().all()
