"""Rendered scenes, composed frames, and datasets of both."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import avg_pool2d

from unlit.cli import main
from unlit.data.batch import UNCHANGED, batch_of
from unlit.data.camera import CameraLook
from unlit.data.dataset import open_dataset
from unlit.data.settings import DataSettings
from unlit.data.sizing import places_of, unclipped
from unlit.worlds import bases as rendering
from unlit.worlds.bases import World, bases
from unlit.worlds.compose import LEVEL, compose, drawn_weights, levelled, usable_lights
from unlit.worlds.dataset import SPLIT_STARTS, open_worlds, parsed_size, seeds_of, world_item
from unlit.worlds.scene import LIGHTS, Scene
from unlit.worlds.writing import write_worlds

SIZE = (24, 32)
SEEDS = (0, 7, 11)


@pytest.fixture(scope="module")
def worlds() -> list[World]:
    return list(bases(SEEDS, SIZE, samples=8))


def test_a_world_has_reflectance_light_mask_depth_and_normals(worlds: list[World]) -> None:
    for world in worlds:
        basis = world.basis
        assert basis.reflectance.shape == basis.normal.shape == (3, *SIZE)
        assert basis.irradiance.shape == (LIGHTS, 3, *SIZE)
        assert basis.mask.shape == basis.depth.shape == (1, *SIZE)
        assert world.highlight.shape == (LIGHTS, 1, *SIZE)
        assert bool((basis.irradiance >= 0).all())
        assert bool(torch.isfinite(basis.irradiance).all())
        assert bool((world.highlight[:, basis.mask] == 0).all()), "what shines is masked"


def test_a_world_is_the_same_again_and_in_any_company(worlds: list[World]) -> None:
    (again,) = bases([SEEDS[1]], SIZE, samples=8)
    torch.testing.assert_close(again.basis.reflectance, worlds[1].basis.reflectance)
    torch.testing.assert_close(again.basis.irradiance, worlds[1].basis.irradiance)


def test_a_pixel_is_the_mean_of_the_finer_ones_at_edges_too(
    worlds: list[World], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rendering, "FINER", 1)
    (fine,) = bases([SEEDS[0]], (2 * SIZE[0], 2 * SIZE[1]), samples=2)
    torch.testing.assert_close(avg_pool2d(fine.frames(), 2), worlds[0].frames(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(avg_pool2d(fine.basis.reflectance[None], 2)[0], worlds[0].basis.reflectance)


def test_scenes_are_rendered_one_by_one_where_memory_does_not_suffice_for_more(
    worlds: list[World], monkeypatch: pytest.MonkeyPatch
) -> None:
    together = rendering._rendered

    def short_of_memory(scenes: list[Scene], *rest: Any) -> Iterator[World]:
        if len(scenes) > 1:
            yield from together(scenes[:1], *rest)
            raise torch.OutOfMemoryError
        yield from together(scenes, *rest)

    monkeypatch.setattr(rendering, "_rendered", short_of_memory)
    again = list(bases(SEEDS, SIZE, samples=8))
    assert [world.scene.seed for world in again] == list(SEEDS)
    torch.testing.assert_close(again[2].basis.irradiance, worlds[2].basis.irradiance)


def lights_and_weights(world: World, count: int = 5, seed: int = 0) -> tuple[torch.Tensor, np.ndarray]:
    lights = usable_lights(world)
    return lights, drawn_weights(np.random.default_rng(seed), world, lights, count)


def test_frames_are_reflectance_times_shading_where_they_are_valid(worlds: list[World]) -> None:
    for seed, world in enumerate(worlds):
        lights, weights = lights_and_weights(world, seed=seed)
        made = compose(world, weights, lights, torch.linspace(0.1, 0.5, 5))
        product = made.reflectance * made.shading
        valid = made.mask.expand_as(product)
        assert float(valid.float().mean()) > 0.1
        error = (made.frames - product).abs()[valid] / product[valid].clamp_min(1e-6)
        assert float(error.max()) < 1e-3
        assert not bool((made.mask & (made.frames.amax(1, keepdim=True) >= 1)).any()), "what is clipped is masked"


def test_light_adds_up(worlds: list[World]) -> None:
    world = worlds[0]
    lights = usable_lights(world)[:2]
    frames, _ = levelled(world, lights)
    both = compose(world, np.ones((1, 2, 3), np.float32), lights, torch.tensor([2 * LEVEL]))
    valid = both.mask[0].expand(3, -1, -1)
    torch.testing.assert_close(both.frames[0][valid], frames.sum(0)[valid], rtol=1e-4, atol=1e-6)


def test_a_camera_changes_frames_and_no_truth(worlds: list[World]) -> None:
    lights, weights = lights_and_weights(worlds[1])
    exposure = torch.full((5,), 0.3)
    plain, seen = (
        compose(worlds[1], weights, lights, exposure, look) for look in (None, CameraLook(contrast=0.3, quality=60.0))
    )
    assert torch.equal(plain.shading, seen.shading)
    assert not torch.equal(plain.frames, seen.frames)


def test_weights_are_not_negative_and_no_frame_is_dark(worlds: list[World]) -> None:
    for seed in range(30):
        _, weights = lights_and_weights(worlds[seed % 3], seed=seed)
        assert (weights >= 0).all()
        assert (weights.sum((1, 2)) > 0).all()


def test_a_world_is_an_item_of_single_lights_whose_mixtures_are_known(worlds: list[World]) -> None:
    item = world_item(worlds[0])
    assert item.one_light
    augment = replace(UNCHANGED, mixtures=1.0, light_color=1.0)
    batch = batch_of(
        [item], [np.random.default_rng(0)], [places_of(item)], DataSettings(frames=4), augment, torch.device("cpu")
    )
    (truth,) = batch.truths
    assert truth is not None
    assert truth.reflectance is not None
    assert truth.shading is not None
    valid = batch.mask[0].expand_as(batch.frames[0])
    torch.testing.assert_close(batch.frames[0][valid], (truth.reflectance * truth.shading)[valid], rtol=1e-3, atol=1e-6)


def test_splits_never_meet() -> None:
    ranges = [seeds_of(split, 0, 1_000_000_000) for split in SPLIT_STARTS]
    assert all(a.stop <= b.start or b.stop <= a.start for a in ranges for b in ranges if a is not b)


def test_a_dataset_that_is_rendered_when_read_has_all_that_its_name_says() -> None:
    dataset = open_worlds("worlds:5:3:32x24:2")
    assert [source.split for source in dataset.sources] == ["train"] * 3 + ["validation"]
    assert len({source.name for source in dataset.sources}) == 4
    assert dataset.fingerprint != open_worlds("worlds:5:3:32x24:4").fingerprint
    first = dataset.sources[0].read()
    assert first.sequence.frames.shape[1:] == (3, 24, 32)
    second = dataset.sources[1].read()
    copied = pickle.loads(pickle.dumps(dataset.sources[1])).read()
    assert torch.equal(second.sequence.frames, copied.sequence.frames), "out of order, and in another process"


@pytest.mark.parametrize(
    "text", ["worlds:1", "worlds:1:0", "worlds:a:2", "worlds:1:2:9", "worlds:1:2:32x24:0", "worlds:-1:2", "world:1:2"]
)
def test_wrong_names_of_worlds_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"write|give|ask"):
        open_worlds(text)


@pytest.mark.parametrize("text", ["384", "x", "0x10", "15x400", "5000x100", "64x64x3"])
def test_impossible_sizes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"size '?[\dx]+"):
        parsed_size(text)


def write(out: Path, scenes: int = 3, **changes: object) -> list[str]:
    settings = {"seed": 0, "size": SIZE, "samples": 2, **changes}
    return write_worlds(out, scenes=scenes, **settings)  # type: ignore[arg-type]  # as the tests change them


def test_what_is_written_is_read_as_it_was(tmp_path: Path) -> None:
    assert write(tmp_path / "worlds") == []
    dataset = open_dataset(tmp_path / "worlds", with_truth=True)
    rendered = open_worlds("worlds:0:3:32x24:2")
    assert len(dataset.sources) == 3
    for stored, made in zip(dataset.sources, rendered.sources, strict=False):
        item, exact = unclipped(stored.read()), made.read()
        assert item.one_light
        assert item.truth is not None
        assert item.truth.reflectance is not None
        assert item.truth.shading is not None
        assert exact.truth is not None
        assert exact.truth.reflectance is not None
        torch.testing.assert_close(item.truth.reflectance, exact.truth.reflectance, rtol=1e-3, atol=1e-4)
        product = item.truth.reflectance * item.truth.shading
        valid = item.sequence.mask.expand_as(product) & (product > 0.01)
        torch.testing.assert_close(item.sequence.frames[valid], product[valid], rtol=2e-3, atol=1e-4)
    assert (tmp_path / "worlds" / "sheet.jpg").stat().st_size > 500


def test_finished_scenes_are_not_rendered_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, 2)
    before = {p: p.stat().st_mtime_ns for p in tmp_path.glob("world-*/frames/*")}
    asked: list[int] = []
    real = bases

    def counted(seeds: list[int], *rest: object) -> object:
        asked.extend(seeds)
        return real(seeds, *rest)  # type: ignore[arg-type]  # passed on as they came

    monkeypatch.setattr("unlit.worlds.writing.bases", counted)
    write(tmp_path, 3)
    assert asked == [2]
    assert all(p.stat().st_mtime_ns == t for p, t in before.items())
    assert len(json.loads((tmp_path / "dataset.json").read_text())["sequences"]) == 3


def test_an_interruption_leaves_a_dataset_that_can_be_read_and_gone_on_with(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "unlit", "worlds", "--out", str(tmp_path / "w"), "--scenes", "40"]
    process = subprocess.Popen([*command, "--size", "32x24", "--samples", "2", "--quiet"], stderr=subprocess.PIPE)
    _wait(lambda: len(list(tmp_path.glob("w/world-*"))) >= 2, process)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    done = {p.name for p in tmp_path.glob("w/world-*")}
    count = max(int(name.split("-")[1]) for name in done) + 1
    write(tmp_path / "w", count)
    assert len(open_dataset(tmp_path / "w").sources) == count
    assert not list(tmp_path.glob("w/.*"))


def _wait(ready: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    for _ in range(1200):
        if ready():
            return
        assert process.poll() is None, "it ended too early"
        time.sleep(0.05)
    raise AssertionError("nothing was rendered in a minute")


BAD = {
    "no scenes": ["--scenes", "0"],
    "no size": ["--scenes", "1", "--size", "0x0"],
    "no samples": ["--scenes", "1", "--samples", "0"],
    "a seed below zero": ["--scenes", "1", "--seed", "-3"],
    "a seed beyond the last": ["--scenes", "2", "--seed", "999999999"],
    "no such device": ["--scenes", "1", "--device", "abacus"],
}


@pytest.mark.parametrize("arguments", BAD.values(), ids=BAD)
def test_bad_input_is_one_line_and_leaves_nothing(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["worlds", "--out", str(tmp_path / "w"), *arguments])
    assert ended.value.code == 2
    said = capsys.readouterr().err.strip()
    assert said.startswith("unlit: ")
    assert "\n" not in said
    assert not (tmp_path / "w").exists()


def test_too_little_memory_is_said_before_anything_is_rendered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sysconf", lambda name: 1000)
    with pytest.raises(ValueError, match=r"too little memory: 32x24 needs .* smaller size"):
        write(tmp_path)


def test_worlds_of_another_size_are_not_mixed(tmp_path: Path) -> None:
    write(tmp_path, 1)
    with pytest.raises(ValueError, match=r"holds worlds of 32x24 with 2 samples"):
        write(tmp_path, 2, samples=4)


def test_a_folder_with_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(ValueError, match="holds other things"):
        write(tmp_path, 1)
