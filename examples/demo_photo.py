"""A photograph without its light: `make demo`.

    python examples/demo_photo.py --out out/demo

Takes the cup of coffee that scikit-image carries (by Rachel Michetti, CC0), splits it by the model that comes with the
package, and writes reflectance, shading, the cup in another color under the same light, and all of them on one sheet.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import skimage.data
import tyro
from numpy.typing import NDArray

import unlit
from unlit.image_io import write_image


def main(out: Path = Path("out/demo"), weights: Path | None = None) -> None:
    """Split the photograph and say where the pictures are."""
    photo = unlit.Predictor(weights).decompose(skimage.data.coffee())  # type: ignore[no-untyped-call]  # it has no types
    paths = photo.save(out, "coffee", force=True)
    error = np.abs(photo.recompose() - photo.image).max()
    print(f"reflectance x shading is the photograph, to {error:.1g}")

    # What splitting is good for: new paint under the old light. Exchanging red and blue turns the red china blue.
    share = china(photo.reflectance)[..., None]
    repainted = (share * photo.reflectance[..., ::-1] + (1 - share) * photo.reflectance) * photo.shading
    write_image(out / "coffee.repainted.png", repainted.clip(0, 1))

    bright = np.quantile(photo.shading, 0.99)
    sheet = np.hstack([photo.image, photo.reflectance, photo.shading / bright, repainted]).clip(0, 1)
    write_image(out / "sheet.png", sheet)
    for path in (*paths, out / "coffee.repainted.png"):
        print(f"  {path}")
    print(f"All on one sheet (photograph, reflectance, shading, repainted): {out / 'sheet.png'}")


def china(reflectance: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return 1 where this photograph has red china, 0 elsewhere, (h, w): what is red on the saucer, not in the cup."""
    y, x = np.mgrid[: reflectance.shape[0], : reflectance.shape[1]].astype(np.float32)

    def ellipse(cx: float, cy: float, width: float, height: float, turn: float) -> NDArray[np.bool_]:
        along, across = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]], np.float32)
        u, v = ((a[0] * (x - cx) + a[1] * (y - cy)) for a in (along, across))
        return np.asarray((u / width) ** 2 + (v / height) ** 2 < 1)

    redness = reflectance[..., 0] / np.maximum(reflectance.sum(axis=-1), 1e-6)
    on_saucer = ellipse(277, 227, 209, 165, 0.15) & ~ellipse(291, 108, 119, 92, 0)
    return np.asarray(np.clip(10 * (redness - 0.5), 0, 1) * on_saucer, np.float32)


if __name__ == "__main__":
    tyro.cli(main)
