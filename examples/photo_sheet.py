"""A sheet of photographs with their reflectance and shading.

    python examples/photo_sheet.py --out sheet.jpg

Takes what scikit-image's package carries: an astronaut (NASA), a cup (Rachel Michetti), a cat (Stefan van der Walt), a
rocket (SpaceX), a motorcycle (Middlebury stereo set), bricks, gravel and grass (CC0Textures).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import skimage.data
import tyro
from numpy.typing import NDArray

import unlit
from unlit.image_io import write_image
from unlit.predict.preview import preview, shrunk

PHOTOGRAPHS = ("coffee", "chelsea", "astronaut", "stereo_motorcycle", "rocket", "brick", "gravel", "grass")
COLUMNS = 2
WIDTH, GAP = 630, 6
"""Of the three pictures of one photograph together, and around them."""


def main(out: Path = Path("sheet.jpg"), weights: Path | None = None, names: tuple[str, ...] = PHOTOGRAPHS) -> None:
    """Split each photograph, and put photograph, reflectance and shading beside each other."""
    predictor = unlit.Predictor(weights)
    rows = [shrunk(preview(predictor.decompose(photograph(name))), WIDTH) for name in names]
    write_image(out, paper([rows[k::COLUMNS] for k in range(min(COLUMNS, len(rows)))]))
    print(f"{len(rows)} photographs, each with reflectance and shading: {out}")


def photograph(name: str) -> NDArray[np.uint8]:
    """Return one of scikit-image's pictures; of a stereo pair the left one."""
    found = getattr(skimage.data, name)()
    picture: NDArray[np.uint8] = found[0] if isinstance(found, tuple) else found
    return picture


def paper(columns: list[list[NDArray[np.float32]]]) -> NDArray[np.float32]:
    """Return rows of pictures (h, w, 3), `WIDTH` wide or less, below one another in columns, on white."""
    high = max(sum(len(row) + GAP for row in column) for column in columns) + GAP
    sheet = np.ones((high, len(columns) * (WIDTH + GAP) + GAP, 3), np.float32)
    for k, column in enumerate(columns):
        top = GAP
        for row in column:
            left = GAP + k * (WIDTH + GAP)
            sheet[top : top + row.shape[0], left : left + row.shape[1]] = row
            top += row.shape[0] + GAP
    return sheet


if __name__ == "__main__":
    tyro.cli(main)
