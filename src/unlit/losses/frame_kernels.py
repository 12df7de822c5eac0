"""What compares frames of one place, on a CUDA device, in Triton: reconstruction, consistency and the scale's pin.

Shapes: m frames, h x w pixels. `energy_kernels` launches these; tests/losses/test_energy_kernels.py holds the whole to
`energy.plain_energy`.

A program takes all frames of some pixels. With x = log I − log S − c and y = log R, means x̄ (by the weights P²) and ȳ
(over valid frames, Q) of each place, and Σ_P, Σ_Q the sums of these weights over frames, at each place

    Σ_i Σ_j P_i² Q_j² (x_i − y_j)² = Σ_Q Σ_i P_i² (x_i − x̄)² + Σ_P Σ_j Q_j (y_j − ȳ)² + Σ_P Σ_Q (x̄ − ȳ)²
    ½ Σ_i Σ_j Q_i Q_j (y_i − y_j)² = Σ_Q Σ_j Q_j (y_j − ȳ)²

which subtracts nothing large, and whose gradients need the means alone: one walk through the frames finds the means,
another the sums and the gradients, to which it adds those of the smoothness terms. So the gradient of the energy is
written once, in the digits of what it belongs to. Programs leave their sums in places of their own, so that training
repeats bit for bit.
"""

from __future__ import annotations

import triton
import triton.language as tl

from unlit.color import LOG_FLOOR

BLOCK = 32
"""Pixels of a program, which is one warp: its sums over pixels then wait for nobody."""

_FLOOR = tl.constexpr(LOG_FLOOR)
_TINY = tl.constexpr(1e-20)


@triton.jit(do_not_specialize=["m"])
def count(mask, partials, m, plane, block: tl.constexpr):
    """Sums over some pixels of how many frames are valid there, and of its square."""
    pixel = tl.program_id(0) * block + tl.arange(0, block)
    count = tl.zeros([block], tl.float32)
    frame = tl.full([], 0, tl.int64)
    while frame < m:  # not `range`, whose end Triton's interpreter cannot read from a variable
        count += tl.load(mask + frame * plane + pixel, pixel < plane, 0).to(tl.float32)
        frame += 1
    tl.store(partials + tl.program_id(0), tl.sum(count, 0))
    tl.store(partials + tl.num_programs(0) + tl.program_id(0), tl.sum(count * count, 0))


@triton.jit
def divisors(counts):
    """What the sums of reconstruction, consistency and scale are divided by."""
    valid, squared = tl.load(counts), tl.load(counts + 1)
    return tl.maximum(3 * squared, 1.0), tl.maximum(3 * (squared - valid), 1.0), tl.maximum(valid, 1.0)


@triton.jit
def _explained(frames, log_shading, light_color, valid, inside, colored: tl.constexpr):
    """Of one frame: x (pixels, 4), its squared weight P² and log S (pixels), fit for arithmetic where not valid.

    What is not valid is loaded all the same, or loading would wait for the mask.
    """
    is_color = tl.arange(0, 4) < 3
    seen = tl.load(frames, inside[:, None] & is_color[None, :], 0.0)
    seen = tl.where(valid[:, None], seen, 0.0)
    square = tl.sqrt(tl.sqrt(tl.maximum(tl.sum(seen, 1) / 3, 0.0)))  # P is the eighth root
    gray = tl.where(valid, tl.load(log_shading, inside, 0.0).to(tl.float32), 0.0)
    x = tl.log(tl.maximum(seen, _FLOOR)) - gray[:, None]
    if colored:
        x -= tl.load(light_color + tl.arange(0, 4), is_color, 0.0).to(tl.float32)[None, :]
    return tl.where(is_color[None, :], x, 0.0), square, gray


@triton.jit
def _means(
    frames, mask, log_reflectance, log_shading, light_color, m, plane, seen_step, frame_step, seen_at, at, pixel,
    colored: tl.constexpr,
):  # fmt: skip
    """Σ_P and Σ_Q (pixels) over all frames, and the means of x and y (pixels, 4); 0 where there is nothing."""
    inside = pixel < plane
    there = inside[:, None] & (tl.arange(0, 4) < 3)[None, :]
    sum_p, sum_q = (0 * pixel).to(tl.float32), (0 * pixel).to(tl.float32)
    sum_x, sum_y = (0 * at).to(tl.float32), (0 * at).to(tl.float32)
    frame = tl.full([], 0, tl.int64)
    while frame < m:
        place = frame * plane + pixel
        valid = tl.load(mask + place, inside, 0) != 0
        x, square, _ = _explained(
            frames + frame * seen_step + seen_at, log_shading + place, light_color + 3 * frame, valid, inside, colored
        )
        y = tl.load(log_reflectance + frame * frame_step + at, there, 0.0).to(tl.float32)
        sum_p += square
        sum_q += tl.where(valid, 1.0, 0.0)
        sum_x += square[:, None] * x
        sum_y += tl.where(valid[:, None], y, 0.0)
        frame += 1
    return sum_p, sum_q, sum_x / (sum_p + _TINY)[:, None], sum_y / (sum_q + _TINY)[:, None]


@triton.jit(do_not_specialize=["m", "seen_channel", "seen_pixel", "channel_step", "pixel_step"])
def terms(
    frames, mask, log_reflectance, log_shading, light_color, dense, smooth, counts,
    reflectance_gradient, shading_gradient, color_partials, partials,
    by_reconstruction, by_consistency, by_reflectance, by_shading, by_scale,
    m, plane, seen_step, seen_channel, seen_pixel, frame_step, channel_step, pixel_step,
    colored: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Reconstruction, consistency and scale of some pixels, and the gradient of the whole energy there.

    `by_` are the weights of the terms; `dense` and `smooth` are the gradients of the others. Images of reflectance lie
    in memory alike, its gradients too; those of one channel are contiguous. There are four channels, one of them idle,
    since Triton's shapes are powers of two. A lane has all of a pixel's; Triton would divide them among lanes if it
    knew what lies side by side, so the steps are not told.
    """
    program, programs = tl.program_id(0), tl.num_programs(0)
    pixel, channel = program * block + tl.arange(0, block), tl.arange(0, 4)
    inside, is_color = pixel < plane, channel < 3
    there = inside[:, None] & is_color[None, :]
    seen_at = pixel[:, None] * seen_pixel + channel[None, :] * seen_channel
    at = pixel[:, None] * pixel_step + channel[None, :] * channel_step
    sum_p, sum_q, x_mean, y_mean = _means(
        frames, mask, log_reflectance, log_shading, light_color, m, plane, seen_step, frame_step, seen_at, at, pixel,
        colored,
    )  # fmt: skip
    explained, compared, counted = divisors(counts)
    x_spread, y_spread, size = tl.zeros_like(x_mean), tl.zeros_like(x_mean), tl.zeros_like(sum_p)
    frame = tl.full([], 0, tl.int64)
    while frame < m:
        place = frame * plane + pixel
        valid = tl.load(mask + place, inside, 0) != 0
        x, square, gray = _explained(
            frames + frame * seen_step + seen_at, log_shading + place, light_color + 3 * frame, valid, inside, colored
        )
        x_spread += square[:, None] * (x - x_mean) * (x - x_mean)
        size += tl.abs(gray)
        # By the light, which x has with a minus.
        slope = 2 * by_reconstruction / explained * (square * sum_q)[:, None] * (y_mean - x)
        if colored:
            tl.store(color_partials + (3 * frame + channel) * programs + program, tl.sum(slope, 0), is_color)
        sign = tl.where(gray > 0, 1.0, 0.0) - tl.where(gray < 0, 1.0, 0.0)
        gray_slope = tl.sum(slope, 1) + by_scale / counted * sign + by_shading * tl.load(smooth + place, inside, 0.0)
        tl.store(shading_gradient + place, gray_slope, inside)

        y = tl.load(log_reflectance + frame * frame_step + at, there, 0.0).to(tl.float32)
        y = tl.where(valid[:, None], y, y_mean)
        y_spread += (y - y_mean) * (y - y_mean)
        slope = 2 * by_reconstruction / explained * sum_p[:, None] * (y - x_mean)
        slope += 2 * by_consistency / compared * sum_q[:, None] * (y - y_mean)
        slope += by_reflectance * tl.where(valid[:, None], tl.load(dense + frame * frame_step + at, there, 0.0), 0.0)
        tl.store(reflectance_gradient + frame * frame_step + at, tl.where(valid[:, None], slope, 0.0), there)
        frame += 1
    apart = tl.sum((x_mean - y_mean) * (x_mean - y_mean), 1)
    x_spread, y_spread = tl.sum(x_spread, 1), tl.sum(y_spread, 1)
    tl.store(partials + program, tl.sum(sum_q * x_spread + sum_p * y_spread + sum_p * sum_q * apart, 0))
    tl.store(partials + programs + program, tl.sum(sum_q * y_spread, 0))
    tl.store(partials + 2 * programs + program, tl.sum(size, 0))
