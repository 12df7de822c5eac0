"""The all-pairs term against its definition: time and memory, value and gradient, as the sequence grows.

python benchmarks/all_pairs.py [--json FILE] [--device cuda]
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import tyro
from torch import Tensor

from _measure import peak_memory_mb, report, timed, timing_row
from _scene import frames
from unlit.color import floored_log
from unlit.losses.all_pairs import all_pairs_sq_distance

Term = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def definition(x: Tensor, y: Tensor, p: Tensor, q: Tensor) -> Tensor:
    """Return the double sum over frames as it is written, O(m² n)."""
    total = x.new_zeros(())
    for i in range(x.shape[0]):
        for j in range(y.shape[0]):
            total = total + (p[i] * q[j] * (x[i] - y[j])).square().sum()
    return total


def main(json: Path | None = None, device: str = "cpu", lengths: tuple[int, ...] = (4, 8, 16, 32)) -> None:
    """Measure both forms for sequences of several lengths at 256 x 384."""
    place = torch.device(device)
    rows: list[dict[str, Any]] = []
    for m in lengths:
        x = floored_log(frames(m)).to(place)
        y = x.flip(0).contiguous()
        p = torch.ones_like(x[:, :1])
        inputs = [x.requires_grad_(), y.requires_grad_(), p, p]
        slow_value, fast_value = definition(*inputs).item(), all_pairs_sq_distance(*inputs).item()
        assert abs(fast_value / slow_value - 1) < 1e-4, "the two forms disagree"
        slow = timed(lambda: _step(definition, inputs), place, calls=3, warm_up=1)  # noqa: B023  # used at once
        fast = timed(lambda: _step(all_pairs_sq_distance, inputs), place)  # noqa: B023  # used at once
        slow_mb = peak_memory_mb(lambda: _step(definition, inputs), place)  # noqa: B023  # used at once
        fast_mb = peak_memory_mb(lambda: _step(all_pairs_sq_distance, inputs), place)  # noqa: B023  # used at once
        rows.append(timing_row(f"definition, m = {m}", slow, peak_mb=slow_mb))
        rows.append(timing_row(f"all pairs, m = {m}", fast, peak_mb=fast_mb, times=slow.median_ms / fast.median_ms))
    report("all_pairs", rows, place, json)


def _step(term: Term, inputs: list[Tensor]) -> None:
    """Value and gradient."""
    torch.autograd.grad(term(*inputs), inputs[:2])


if __name__ == "__main__":
    tyro.cli(main)
