"""The three steps of the lattice's filter: splat from points to vertices, blur among vertices, slice back to points.

Shapes: n points, v vertices, d features, k channels. Point p lies in simplex `simplex[p]`, whose vertices are
`corners[simplex[p]]`, with weights `weights[p]` there. As a matrix of n rows with d + 1 entries each, slicing is
`A @ vertex_values` and splatting its transpose. Nothing here is tracked for gradients; `lattice` gives them.

Plain torch serves any device and is the reference that the faster ways are tested against: SciPy's compressed rows on a
CPU (benchmarks/dense_term.py has the ratio), the kernels of `filtering_kernels.py` on a CUDA device.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from unlit.pairwise.bistochastic import Bistochastic, bistochastic

if TYPE_CHECKING:
    import scipy.sparse

    Matrix = scipy.sparse.csr_array[Any, tuple[int, int]]


@dataclass(frozen=True)
class Structure:
    """Which simplex holds each point, with which weights, and how the vertices lie to one another."""

    weights: Tensor
    """(n, d + 1) barycentric weights by color, float."""
    ordered_simplex: Tensor
    """(n,) index of the simplex of the points in `order`, int32."""
    order: Tensor
    """(n,) the points sorted by simplex, int64: what indexing takes as it is."""
    crowd: Tensor
    """The largest number of points in one simplex, a scalar."""
    corners: Tensor
    """(simplices, d + 1) vertices of each simplex by color, int32."""
    neighbors: Tensor
    """(d + 1, 2, v) the vertices behind and ahead of each along each axis, int32; v stands for none."""

    @cached_property
    def simplex(self) -> Tensor:
        """(n,) index of each point's simplex, int32."""
        return torch.empty_like(self.ordered_simplex).index_copy_(0, self.order, self.ordered_simplex)


class TorchFilter:
    """W in plain torch operations: any device."""

    def __init__(self, structure: Structure) -> None:
        self.structure = structure
        self.gain = gain(structure.weights.shape[1] - 1)

    def __call__(self, values: Tensor) -> Tensor:
        """Return W values, for values (n, k)."""
        return self.slice(self.blur(self.splat(values)).mul_(self.gain))

    def bistochastic(self, rounds: int, tolerance: float) -> Bistochastic:
        """Return the scale that makes W bistochastic."""
        ones = torch.ones_like(self.structure.weights[:, 0])
        return bistochastic(lambda values: self(values[:, None])[:, 0], ones, rounds, tolerance)

    def splat(self, values: Tensor) -> Tensor:
        """Return weighted sums (v, k) at the vertices of values (n, k) at the points; zero at those that touch none."""
        s = self.structure
        result = values.new_zeros(s.neighbors.shape[2], values.shape[1])
        for color in range(s.corners.shape[1]):
            result.index_add_(0, s.corners[:, color][s.simplex], values * s.weights[:, color, None])
        return result

    def blur(self, vertex_values: Tensor) -> Tensor:
        """Return B̄ of vertex values (v, k): the blurs along all axes in either order, added."""
        forward = backward = vertex_values
        for ahead, back in zip(self.structure.neighbors, self.structure.neighbors.flip(0), strict=True):
            forward = _blurred(forward, ahead)
            backward = _blurred(backward, back)
        return forward + backward

    def slice(self, vertex_values: Tensor) -> Tensor:
        """Return weighted means (n, k) at the points of values (v, k) at the vertices."""
        s = self.structure
        result = vertex_values.new_zeros(s.weights.shape[0], vertex_values.shape[1])
        for color in range(s.corners.shape[1]):
            result += vertex_values[s.corners[:, color][s.simplex]] * s.weights[:, color, None]
        return result


CROWD = 2000
"""More points than this in one simplex, as of a flat sky, are added up in float64: one after the other in float32, a
million equal numbers lose three digits."""


class SciPyFilter(TorchFilter):
    """W on a CPU, with SciPy's compressed sparse rows."""

    def __init__(self, structure: Structure) -> None:
        super().__init__(structure)
        v = structure.neighbors.shape[2]
        self._dtype = torch.float64 if int(structure.crowd) > CROWD else structure.weights.dtype
        corners = structure.corners[structure.simplex]
        self._slice = _rows(structure.weights.to(self._dtype), corners, v)
        self._splat = self._slice.T
        self._blurs = [_axis_matrix(neighbors, self._dtype) for neighbors in structure.neighbors]

    def __call__(self, values: Tensor) -> Tensor:
        """Return W values, for values (n, k)."""
        return super().__call__(values.to(self._dtype)).to(values.dtype)

    def splat(self, values: Tensor) -> Tensor:
        """See `TorchFilter`."""
        return torch.from_numpy(self._splat @ values.contiguous().numpy())

    def blur(self, vertex_values: Tensor) -> Tensor:
        """See `TorchFilter`."""
        forward = backward = vertex_values.numpy()
        for matrix, opposite in zip(self._blurs, reversed(self._blurs), strict=True):
            forward = matrix @ forward
            backward = opposite @ backward
        return torch.from_numpy(forward + backward)

    def slice(self, vertex_values: Tensor) -> Tensor:
        """See `TorchFilter`."""
        return torch.from_numpy(self._slice @ vertex_values.contiguous().numpy())


def _rows(weights: Tensor, columns: Tensor, width: int) -> Matrix:
    """Return the matrix of `width` columns that has weights (n, e) at `columns` (n, e), over the same memory."""
    import scipy.sparse  # here, so that training on a GPU does not need SciPy

    n, entries = weights.shape
    # SciPy wants one integer type for both; 32 bits, half the memory, do for 357 million points of 5 features.
    integer = torch.int32 if n * entries < 2**31 else torch.int64
    ends = torch.arange(0, n * entries + 1, entries, dtype=integer)
    parts = (weights.reshape(-1).numpy(), columns.reshape(-1).to(integer).numpy(), ends.numpy())
    return scipy.sparse.csr_array(parts, shape=(n, width), copy=False)


def _axis_matrix(neighbors: Tensor, dtype: torch.dtype) -> Matrix:
    """Return the blur along one axis, I + ½ (two neighbors), for neighbors (2, v)."""
    v = neighbors.shape[1]
    columns = torch.cat([torch.arange(v, dtype=torch.int32)[None], neighbors]).T
    present = columns < v
    weights = present.to(dtype) * torch.tensor([1, 0.5, 0.5], dtype=dtype)
    return _rows(weights, torch.where(present, columns, 0), v)


def gain(d: int) -> float:
    """Return the factor of SᵀB̄S that makes W approximate the Gaussian itself rather than a multiple of it.

    The integral of a row of SᵀB̄S over all feature space is the blur's gain, 2 · 2^(d+1), times the volume that falls to
    one vertex, (3/2)^(d/2) / sqrt(d + 1); that of the Gaussian is (2π)^(d/2).
    """
    return float((4 * math.pi / 3) ** (d / 2) * math.sqrt(d + 1) / 2 ** (d + 2))


def best_filter(structure: Structure) -> TorchFilter:
    """Return the quickest way for the device that the points are on."""
    device = structure.weights.device.type
    if device == "cpu":
        return SciPyFilter(structure)
    if device == "cuda" and has_kernels():
        from unlit.pairwise.filtering_kernels import TritonFilter

        return TritonFilter(structure)
    return TorchFilter(structure)


def has_kernels() -> bool:
    """Return whether Triton is installed; torch for CUDA brings it on Linux, not everywhere."""
    try:
        import triton  # noqa: F401  # only whether it is there
    except ImportError:
        return False
    return True


def _blurred(vertex_values: Tensor, neighbors: Tensor) -> Tensor:
    """Return values (v, k) plus half the sum of both neighbors (2, v) along one axis; absent ones count as zero."""
    padded = torch.cat([vertex_values, vertex_values.new_zeros(1, vertex_values.shape[1])])
    return vertex_values + 0.5 * (padded[neighbors[0]] + padded[neighbors[1]])
