"""A function of tensors, forward and backward, as work that a GPU repeats by itself.

A network of this size is hundreds of small pieces of work, and handing them over one by one takes the host longer than
they take the device. Captured once (CUDA graphs), all of them are handed over in one go, and the host is free for the
next batch. What is captured reads and writes the same memory each time: so inputs are copied in, and outputs hold until
the next call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

WARM_UP = 3
"""Calls before capturing: kernels are compiled and ways of computing chosen at the first, which cannot be captured."""


class Captured:
    """One function for inputs of given shapes.

    Each `backward` sets the gradients of `parameters`, to tensors of its own that hold until the next. Other gradients
    must exist before, and are added to. `state` are tensors that the function changes (the statistics of a network),
    which capturing leaves as they were. Functions that share a `pool` of memory must not be between forward and
    backward at the same time (torch's `graph_pool_handle` gives one).
    """

    def __init__(
        self,
        function: Callable[..., tuple[Tensor, ...]],
        inputs: Sequence[Tensor],
        state: Sequence[Tensor],
        pool: Any = None,
        parameters: Sequence[Tensor] = (),
    ) -> None:
        self._inputs = tuple(given.clone() for given in inputs)
        self._parameters = parameters
        before = [values.clone() for values in state]
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(WARM_UP):
                self._forget_gradients()
                found = _with_gradient(function(*self._inputs))
                torch.autograd.backward(found, [torch.zeros_like(values) for values in found])
                del found  # or what remembers the way backward would outlive this stream
        torch.cuda.current_stream().wait_stream(aside)
        self._forward, self._backward = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._forward, pool=pool, capture_error_mode="thread_local"):
            self._outputs = function(*self._inputs)
        wanted = _with_gradient(self._outputs)
        self._gradients = [torch.zeros_like(values) for values in wanted]
        self._forget_gradients()  # or they would be added to, which costs a pass over all of them
        with torch.cuda.graph(self._backward, pool=pool, capture_error_mode="thread_local"):
            torch.autograd.backward(wanted, self._gradients)
        self._found = [parameter.grad for parameter in parameters]
        self._forget_gradients()
        self.has_gradient = [values.requires_grad for values in self._outputs]
        self._outputs = tuple(values.detach() for values in self._outputs)
        for values, old in zip(state, before, strict=True):
            values.copy_(old)

    def forward(self, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Return the function's values for inputs of the shapes that it was captured with."""
        for place, given in zip(self._inputs, inputs, strict=True):
            place.copy_(given)
        self._forward.replay()
        return self._outputs

    def backward(self, gradients: Sequence[Tensor]) -> None:
        """Find the parameters' gradients, for the gradients of the values of the last `forward` that have one."""
        for place, given in zip(self._gradients, gradients, strict=True):
            place.copy_(given)
        self._backward.replay()
        for parameter, gradient in zip(self._parameters, self._found, strict=True):
            parameter.grad = gradient

    def _forget_gradients(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None


def _with_gradient(values: Sequence[Tensor]) -> list[Tensor]:
    return [value for value in values if value.requires_grad]
