"""What papers report, to stand beside what is measured here. Nothing of it was measured by this project.

All rows are as Li & Snavely 2018 print them in their tables (IIW and SAW test sets; the ten MIT test objects), WHDR and
AP as fractions. The WHDR is that of δ = 0.1, by the authors for gamma-encoded reflectance; the AP is that of `paper`.
"""

from __future__ import annotations

from collections.abc import Mapping

Scores = Mapping[str, float]

_WHDR, _AP = "whdr@0.1/gamma", "ap/paper"
_MIT_KEYS = tuple(f"{metric}/{part}" for metric in ("mse", "lmse", "dssim") for part in ("reflectance", "shading"))


def _mit(*values: float) -> dict[str, float]:
    return dict(zip(_MIT_KEYS, values, strict=True))


_BOTH = {
    "Li & Snavely 2018, BigTime": (0.203, 0.9790),
    "Zhou et al. 2015": (0.199, 0.9624),
    "Bell et al. 2014": (0.206, 0.9737),
    "Zhao et al. 2012": (0.238, 0.9711),
    "Garces et al. 2012": (0.248, 0.9689),
    "Retinex-Color, Grosse et al. 2009": (0.269, 0.9193),
    "Narihira et al. 2015, DI": (0.373, 0.9504),
    "Shi et al. 2016": (0.594, 0.8630),
}

PUBLISHED: dict[str, dict[str, Scores]] = {
    "iiw": {
        **{name: {_WHDR: whdr} for name, (whdr, _) in _BOTH.items()},
        "BigTime with per-image reconstruction": {_WHDR: 0.259},
        "BigTime with local reflectance smoothness": {_WHDR: 0.274},
        "BigTime with gray shading": {_WHDR: 0.223},
    },
    "saw": {
        **{name: {_AP: ap} for name, (_, ap) in _BOTH.items()},
        "BigTime with local shading smoothness": {_AP: 0.9703},
        "BigTime without the normalised median": {_AP: 0.9715},
    },
    "mit": {
        "Li & Snavely 2018, BigTime, without ground truth": _mit(0.0147, 0.0135, 0.0341, 0.0253, 0.1398, 0.1266),
        "Barron & Malik 2015, SIRFS, with ground truth": _mit(0.0147, 0.0083, 0.0416, 0.0168, 0.1238, 0.0985),
        "Shi et al. 2016, with ground truth": _mit(0.0278, 0.0126, 0.0503, 0.0240, 0.1465, 0.1200),
        "Narihira et al. 2015, DI, with ground truth": _mit(0.0277, 0.0154, 0.0585, 0.0295, 0.1526, 0.1328),
    },
}
