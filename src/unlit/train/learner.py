"""The network that learns, its optimizer, and the average of its weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from unlit.color import linear_to_srgb
from unlit.config import Config, ModelSettings
from unlit.model.compact import CompactNet
from unlit.model.decomposition import Decomposition
from unlit.model.unet import UNet
from unlit.train.checkpoint import Checkpoint
from unlit.train.schedule import learning_rate

if TYPE_CHECKING:
    from unlit.quadratic.network import QuadraticNet


class Learner:
    """The network and all that changes it."""

    def __init__(self, config: Config, device: torch.device) -> None:
        train = config.train
        self.config, self.device = config, device
        torch.manual_seed(train.seed)
        self.network = network_of(config.model)
        self.network.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stub lacks it
        self._set_training()
        self._statistics = [b for b in self.network.buffers() if b.is_floating_point()]
        self._statistics_before = _flat(self._statistics)
        self.average = _copied(self.network.state_dict()) if train.average else None
        self._averaged = self._floats()
        self._keeps_gradients = False
        # First for one size, for any from the second on: asked for any at once, torch passes that on to all that is
        # compiled after it, and the network would take a fifth more time. With attention torch fails to compile it for
        # any; then each size is compiled, up to torch's limit, and others run as they are.
        self._sizes = False if config.model.attention else None
        # Ten passes over the frames that compiling makes one.
        self._seen = torch.compile(_seen, dynamic=self._sizes) if train.compile else _seen
        self.optimizer = torch.optim.Adam(
            self.network.parameters(), lr=train.learning_rate, betas=train.betas, weight_decay=train.weight_decay,
            fused=True,
        )  # fmt: skip

    def compiled(self) -> nn.Module:
        """Return the network, compiled where the config asks for it."""
        if not self.config.train.compile:
            return self.network
        return cast(nn.Module, torch.compile(self.network, dynamic=self._sizes))

    @property
    def weights(self) -> dict[str, Tensor]:
        """What is worth keeping: the average where there is one, else the network's own."""
        return self.average if self.average is not None else self.network.state_dict()

    def load(self, saved: Checkpoint) -> None:
        """Go back to a checkpoint."""
        self.network.load_state_dict(saved.model)
        self.optimizer.load_state_dict(saved.optimizer)
        self._statistics_before = _flat(self._statistics)
        self.average = saved.ema
        self._averaged = self._floats()

    def begin_with(self, weights: dict[str, Tensor]) -> None:
        """Take weights from elsewhere; what the optimizer knows begins anew."""
        self.network.load_state_dict(weights)
        self._statistics_before = _flat(self._statistics)
        self.average = _copied(self.network.state_dict()) if self.average is not None else None
        self._averaged = self._floats()

    def _floats(self) -> tuple[list[Tensor], list[Tensor]]:
        """Return the tensors of the average and those of the network that they follow; counts are not averaged."""
        now, average = self.network.state_dict(), self.average or {}
        names = [name for name in average if now[name].is_floating_point()]
        return [average[name] for name in names], [now[name] for name in names]

    def keep_gradients(self) -> None:
        """Let gradients stay where they are in memory: they are added to, and set to zero after each step."""
        self._keeps_gradients = True
        for parameter in self.network.parameters():
            parameter.grad = torch.zeros_like(parameter)

    def decomposed(self, module: nn.Module, frames: Tensor) -> Decomposition:
        """Return what the network says of frames (b, m, 3, h, w)."""
        images = self._seen(frames)
        # Without a cache of rounded weights: one that was filled while capturing would be read when it is gone.
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self._uses_bfloat16(), cache_enabled=False):
            return cast(Decomposition, module(images))

    def _uses_bfloat16(self) -> bool:
        if self.config.train.precision == "auto":
            return self.device.type == "cuda" and torch.cuda.is_bf16_supported()
        return self.config.train.precision == "bfloat16"

    def set_rate(self, step: int, steps: int) -> float:
        """Set the learning rate for a step, counted from 0, and return it."""
        train = self.config.train
        rate = learning_rate(
            step, base=train.learning_rate, steps=steps, halve_at=train.halve_at, warm_up=train.warm_up,
            final="cosine" if train.cosine else "steps",
        )  # fmt: skip
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        return rate

    def update(self, step: int) -> Tensor:
        """Take a step, unless the gradient is no number; return whether that was so, 1 or 0, a scalar on the device.

        The device decides for itself: asking it would make it wait.
        """
        train = self.config.train
        norm = nn.utils.get_total_norm([p.grad for p in self.network.parameters() if p.grad is not None])
        bad = (~torch.isfinite(norm)).float()
        # Clipped by the optimizer, which reads the gradients anyway, and divides them by this.
        scale = (norm / train.clip).clamp_min(1) if train.clip else None
        self.optimizer.grad_scale = scale  # type: ignore[attr-defined]  # as torch's GradScaler tells a fused optimizer
        self.optimizer.found_inf = bad  # type: ignore[attr-defined]  # so too
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=not self._keeps_gradients)
        if self._statistics:
            # A pass that is no number has spoiled them, and nothing would ever mend them.
            mended = torch.where(bad > 0, self._statistics_before, _flat(self._statistics))
            self._statistics_before = mended
            parts = mended.split([b.numel() for b in self._statistics])
            torch._foreach_copy_(self._statistics, [p.view_as(b) for p, b in zip(parts, self._statistics, strict=True)])
        if self.average is not None:
            # A short run's mean must not be of its first weights: the decay grows to what was asked.
            torch._foreach_lerp_(*self._averaged, 1 - min(train.average, (step + 1) / (step + 10)))
        return bad

    def _set_training(self) -> None:
        """Let the network learn; its normalisations take each batch's statistics, unless they are to stay."""
        self.network.train()
        if self.config.train.fixed_statistics:
            for module in self.network.modules():
                if isinstance(module, nn.BatchNorm2d):
                    module.eval()

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Look through the averaged weights where there are any, without learning."""
        now = _copied(self.network.state_dict()) if self.average is not None else None
        if self.average is not None:
            self.network.load_state_dict(self.average)
        self.network.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            self._set_training()
            if now is not None:
                self.network.load_state_dict(now)


def _seen(frames: Tensor) -> Tensor:
    """Return what the network is shown of frames (b, m, 3, h, w): (b m, 3, h, w), sRGB-encoded."""
    return linear_to_srgb(frames.flatten(0, 1)).contiguous(memory_format=torch.channels_last)


def network_of(settings: ModelSettings) -> UNet | CompactNet | QuadraticNet:
    """Return an untrained network."""
    if settings.network == "quadratic":
        from unlit.quadratic.network import QuadraticNet  # it needs SciPy, a second of every command's time

        return QuadraticNet()
    if settings.network == "compact":
        return CompactNet(
            gray_shading=settings.gray_shading,
            width=settings.width,
            fine=settings.fine,
            cue=settings.cue,
            deep=settings.deep,
            attention=settings.attention,
        )
    return UNet(gray_shading=settings.gray_shading, width=settings.width, anchored=settings.anchored)


def _copied(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in state.items()}


def _flat(tensors: list[Tensor]) -> Tensor:
    return torch.cat([tensor.flatten() for tensor in tensors]) if tensors else torch.zeros(0)
