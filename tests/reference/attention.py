"""Places that look at all others, place by place (`unlit/model/attention.py`)."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def looked_around(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return what each of n places is told (n, d) by all, for one head: questions q, answers k, sayings v (n, d)."""
    told = []
    for question in q:
        likeness = torch.stack([(question * answer).sum() / math.sqrt(len(question)) for answer in k])
        shares = likeness.exp() / likeness.exp().sum()
        told.append(sum((share * saying for share, saying in zip(shares, v, strict=True)), torch.zeros_like(v[0])))
    return torch.stack(told)
