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

import unlit
from unlit.image_io import write_image


def main(out: Path = Path("out/demo"), weights: Path | None = None) -> None:
    """Split the photograph and say where the pictures are."""
    photo = unlit.Predictor(weights).decompose(skimage.data.coffee())  # type: ignore[no-untyped-call]  # it has no types
    paths = photo.save(out, "coffee", force=True)
    error = np.abs(photo.recompose() - photo.image).max()
    print(f"reflectance x shading is the photograph, to {error:.1g}")

    # What splitting is good for: new paint under the old light. Swapping channels turns the red china blue.
    repainted = photo.reflectance[..., ::-1] * photo.shading
    write_image(out / "coffee.repainted.png", repainted.clip(0, 1))

    bright = np.quantile(photo.shading, 0.99)
    sheet = np.hstack([photo.image, photo.reflectance, photo.shading / bright, repainted]).clip(0, 1)
    write_image(out / "sheet.png", sheet)
    for path in (*paths, out / "coffee.repainted.png"):
        print(f"  {path}")
    print(f"All on one sheet (photograph, reflectance, shading, repainted): {out / 'sheet.png'}")


if __name__ == "__main__":
    tyro.cli(main)
