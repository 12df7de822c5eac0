from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import OpenImageIO
import pytest
from numpy.typing import NDArray

from tests.predict.weights import write_weights
from unlit.image_io import FailedImageError, ImageError, read_image, write_image
from unlit.predict.photo import PhotoDecomposition
from unlit.predict.predictor import Predictor
from unlit.predict.saving import load_parts, save_photo


@pytest.fixture
def photo(predictor: Predictor, image: NDArray[np.float32]) -> PhotoDecomposition:
    return predictor.decompose(image, encoding="linear")


@pytest.mark.parametrize(
    ("options", "near"),
    [
        ({}, 0.04),
        ({"bits": 16}, 2e-3),
        ({"encoding": "linear", "bits": 16}, 0.02),
        ({"format": "tiff"}, 1e-5),
        ({"format": "tiff", "bits": 16, "encoding": "srgb"}, 2e-3),
        ({"format": "exr"}, 1e-5),
        ({"format": "exr", "bits": 16}, 2e-3),
        ({"format": "exr", "layers": True}, 1e-5),
        ({"format": "npz"}, 1e-5),
    ],
    ids=str,
)
def test_the_photograph_can_be_had_back_from_the_files(
    options: dict[str, Any], near: float, photo: PhotoDecomposition, tmp_path: Path
) -> None:
    paths = save_photo(photo, tmp_path / "out", "cup.v2", **options)
    assert sorted(tmp_path.joinpath("out").iterdir()) == sorted(paths)
    assert paths[-1].name == "cup.v2.unlit.json"
    parts = load_parts(paths[-1])
    product = parts["reflectance"] * parts["shading"]
    bright = (photo.image > 0.02) & (photo.shading < np.quantile(photo.shading, 0.995))
    np.testing.assert_allclose(product[bright], photo.image[bright], rtol=near)
    np.testing.assert_allclose(product, photo.image, atol=0.05 if near > 1e-4 else 1e-6)


def test_the_json_says_all_that_the_files_do_not(photo: PhotoDecomposition, tmp_path: Path) -> None:
    paths = photo.save(tmp_path, "cup")
    stated = json.loads(paths[-1].read_text())
    assert stated["encoding"] == "srgb"
    assert stated["bits"] == 8
    assert stated["exact"] is True
    assert stated["size"] == {"height": 60, "width": 90}
    assert stated["weights"]["sha256"] == photo.weights_sha256 != ""
    assert stated["light_color"] == pytest.approx(photo.light_color.tolist())
    assert stated["shading_quantiles"][2] == pytest.approx(np.median(photo.gray_shading), rel=1e-6)
    assert stated["clipped"] == pytest.approx(float(photo.clipped.mean()))
    assert stated["files"]["cup.shading.png"]["scale"] >= 1


def test_a_layered_exr_has_the_photograph_its_parts_and_what_made_them(
    photo: PhotoDecomposition, tmp_path: Path
) -> None:
    path = save_photo(photo, tmp_path, "cup", format="exr", layers=True)[0]
    np.testing.assert_array_equal(read_image(path).pixels, photo.image)
    np.testing.assert_array_equal(read_image(path, layer="shading").pixels, photo.shading)
    file = OpenImageIO.ImageInput.open(str(path))
    assert file is not None
    spec = file.spec()
    assert json.loads(spec.getattribute("unlit/weights"))["sha256"] == photo.weights_sha256
    assert json.loads(spec.getattribute("unlit/light_color")) == pytest.approx(photo.light_color.tolist())


def test_nothing_is_overwritten_unless_forced(photo: PhotoDecomposition, tmp_path: Path) -> None:
    save_photo(photo, tmp_path, "cup")
    with pytest.raises(ImageError, match=r"cup\.reflectance\.png: exists already"):
        save_photo(photo, tmp_path, "cup")
    save_photo(photo, tmp_path, "cup", force=True)


def test_of_several_formats_the_one_written_last_is_loaded(photo: PhotoDecomposition, tmp_path: Path) -> None:
    save_photo(photo, tmp_path, "cup", format="exr")
    np.testing.assert_array_equal(load_parts(tmp_path / "cup.unlit.json")["shading"], photo.shading)
    save_photo(photo, tmp_path, "cup", format="tiff", bits=16, encoding="linear")
    coarse = load_parts(tmp_path / "cup.unlit.json")["shading"]
    assert 0 < np.abs(coarse - photo.shading).mean() < 1e-3
    save_photo(photo, tmp_path, "cup", format="exr", layers=True)
    np.testing.assert_array_equal(load_parts(tmp_path / "cup.unlit.json")["shading"], photo.shading)
    (tmp_path / "cup.shading.tiff").unlink()
    save_photo(photo, tmp_path, "cup", format="exr", force=True)
    files = json.loads((tmp_path / "cup.unlit.json").read_text())["files"]
    assert set(files) == {path.name for path in tmp_path.iterdir()} - {"cup.unlit.json"}


def test_what_describes_another_photograph_is_not_replaced_unless_forced(
    photo: PhotoDecomposition, predictor: Predictor, tmp_path: Path
) -> None:
    save_photo(photo, tmp_path, "cup")
    other = predictor.decompose(photo.image[::-1], encoding="linear")
    with pytest.raises(ImageError, match=r"cup\.unlit\.json: describes other results"):
        save_photo(other, tmp_path, "cup", format="exr")
    assert {path.suffix for path in tmp_path.iterdir()} == {".png", ".json"}
    save_photo(other, tmp_path, "cup", format="exr", force=True)
    files = json.loads((tmp_path / "cup.unlit.json").read_text())["files"]
    assert set(files) == {"cup.reflectance.exr", "cup.shading.exr"}


@pytest.mark.parametrize("options", [{"format": "npz"}, {"format": "exr", "layers": True}], ids=str)
def test_files_that_are_always_linear_are_not_said_to_be_encoded(
    options: dict[str, Any], photo: PhotoDecomposition, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="holds linear values alone; leave the encoding out"):
        save_photo(photo, tmp_path, "cup", encoding="srgb", **options)
    assert not list(tmp_path.iterdir())
    path = save_photo(photo, tmp_path, "cup", encoding="linear", **options)[-1]
    np.testing.assert_array_equal(load_parts(path)["shading"], photo.shading)


def test_what_is_said_of_a_file_stays_when_another_format_comes(photo: PhotoDecomposition, tmp_path: Path) -> None:
    def files(path: Path) -> dict[str, Any]:
        stated: dict[str, Any] = json.loads(path.read_text())["files"]
        return stated

    first = files(save_photo(photo, tmp_path, "cup", format="exr", with_preview=True)[-1])
    assert first["cup.preview.jpg"] == {"part": "preview", "encoding": "srgb", "bits": 8}
    second = files(save_photo(photo, tmp_path, "cup")[-1])
    assert {name: second[name] for name in first} == first


@pytest.mark.parametrize("options", [{"size": 64}, {"detail": 128}], ids=str)
def test_a_gray_photograph_seen_at_another_size_is_another_decomposition(
    options: dict[str, Any], image: NDArray[np.float32], tmp_path: Path
) -> None:
    gray = np.kron(image.mean(-1), np.ones((3, 3), np.float32))
    weights = write_weights(tmp_path / "leaning.safetensors", spread=0.3)

    def found(**stated: Any) -> PhotoDecomposition:
        return Predictor(weights, device="cpu", **{"size": 96, **stated}).decompose(gray, encoding="linear")

    first, again, other = found(), found(precision="bfloat16"), found(**options)
    save_photo(first, tmp_path, "cup")
    save_photo(again, tmp_path, "cup", format="tiff")
    with pytest.raises(ImageError, match="describes other results"):
        save_photo(other, tmp_path, "cup", format="exr")


@pytest.mark.parametrize(("writer", "name"), [("np.savez", "cup.unlit.npz"), ("replace_durably", "cup.unlit.json")])
def test_a_disk_that_is_full_is_told_with_the_file_that_did_not_fit(
    writer: str, name: str, photo: PhotoDecomposition, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(f"unlit.predict.saving.{writer}", full)
    with pytest.raises(FailedImageError, match=f"{name}: cannot be written .No space left"):
        save_photo(photo, tmp_path, "cup", format="npz")
    assert not (tmp_path / name).exists()


def test_a_preview_shows_the_three_beside_each_other(photo: PhotoDecomposition, tmp_path: Path) -> None:
    paths = save_photo(photo, tmp_path, "cup", format="exr", with_preview=True)
    assert paths[-2].name == "cup.preview.jpg"
    shown = read_image(paths[-2]).pixels
    assert shown.shape == (60, 270, 3)
    assert np.abs(shown[:, :90] - photo.image.clip(0, 1)).mean() < 0.02
    assert set(load_parts(paths[-1])) == {"reflectance", "shading"}


def test_alpha_goes_along(predictor: Predictor, image: NDArray[np.float32], tmp_path: Path) -> None:
    opacity = np.linspace(0.1, 1, image[..., 0].size, dtype=np.float32).reshape(image.shape[:2])
    photo = predictor.decompose(np.dstack([image, opacity]), encoding="linear")
    for format_, bits in (("png", 8), ("png", 16), ("exr", 32)):
        paths = save_photo(photo, tmp_path / f"{format_}{bits}", "cup", format=format_, bits=bits)  # type: ignore[arg-type]  # a str here
        for path in paths[:2]:
            alpha = read_image(path).alpha
            assert alpha is not None
            np.testing.assert_allclose(alpha, opacity, atol=0.6 / 255)


@pytest.mark.parametrize(
    ("options", "said"),
    [({"format": "gif"}, "gif"), ({"bits": 32}, "32 bits"), ({"layers": True}, "layers"), ({"bits": 12}, "12 bits")],
)
def test_what_a_format_cannot_hold_is_refused(
    options: dict[str, Any], said: str, photo: PhotoDecomposition, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=said):
        save_photo(photo, tmp_path, "cup", **options)
    assert not list(tmp_path.iterdir())


def test_what_describes_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.unlit.json").write_text('{"files": 3}')
    with pytest.raises(ImageError, match="does not describe"):
        load_parts(tmp_path / "a.unlit.json")


def test_encoded_words_are_written_as_pixels_are(image: NDArray[np.float32], tmp_path: Path) -> None:
    """The strips' way of writing against the usual one."""
    from unlit.color import linear_to_srgb
    from unlit.image_io import write_encoded

    for bits in (8, 16):
        words = np.rint(linear_to_srgb(image) * (2**bits - 1)).astype(f"uint{bits}")
        write_encoded(tmp_path / "words.png", words, encoding="srgb")
        write_image(tmp_path / "pixels.png", image, bits=bits)
        assert (tmp_path / "words.png").read_bytes() == (tmp_path / "pixels.png").read_bytes()
    with pytest.raises(ImageError, match="float32"):
        write_encoded(tmp_path / "x.tiff", image, encoding="srgb")  # type: ignore[arg-type]  # what is tested
