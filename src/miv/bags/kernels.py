"""The ragged operations that dominate the time of a pooling, with manual gradients.

With autograd, each step of ``Σ_n a_n LN(z_n ⊙ g)`` writes a new ``(T, C)`` tensor, forward and backward, and on a CPU
this costs half as much again as the matrix products. Here the bags are processed in blocks that fit in the cache,
temporaries are reused, and the backward pass recomputes them instead of storing them.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from miv.bags.borders import Borders, InstanceBlock


class Sum(torch.autograd.Function):
    """``(T, ...)`` to ``(B, ...)``. ``Sum`` and ``Expand`` are each other's gradients."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, borders: Borders) -> Tensor:
        ctx.borders = borders
        total = _sum_rows(rows.reshape(len(rows), -1), borders.ptr[:-1])
        return total.reshape(len(borders), *rows.shape[1:])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return Expand.apply(grad, ctx.borders), None


class Expand(torch.autograd.Function):
    """``(B, ...)`` to ``(T, ...)``."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, borders: Borders) -> Tensor:
        ctx.borders = borders
        return rows.index_select(0, borders.owner)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return Sum.apply(grad, ctx.borders), None


class Variance(torch.autograd.Function):
    """Population variance of each bag and channel: ``(T, C)`` to ``(B, C)``."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, borders: Borders) -> Tensor:
        sizes = borders.sizes[:, None].to(values.dtype)
        mean = _sum_rows(values, borders.ptr[:-1]).div_(sizes)  # (B, C)
        ctx.save_for_backward(values, mean, sizes)
        ctx.borders = borders
        variance = torch.empty_like(mean)
        for block in borders.blocks:
            deviation = _expand(mean, block).sub_(values[block.rows])
            variance[block.bags] = _sum_rows(deviation.square_(), block.starts)
        return variance.div_(sizes)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        values, mean, sizes = ctx.saved_tensors
        factor = grad * 2 / sizes  # (B, C)
        for_values = torch.empty_like(values)
        for block in ctx.borders.blocks:
            deviation = torch.sub(values[block.rows], _expand(mean, block), out=for_values[block.rows])
            deviation.mul_(_expand(factor, block))
        return for_values, None


class Dot(torch.autograd.Function):
    """Each instance times its bag's row, head by head: ``(B, C)`` and ``(T, C)`` to ``(T, h)``."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, values: Tensor, borders: Borders, heads: int) -> Tensor:
        ctx.save_for_backward(rows, values)
        ctx.borders, ctx.heads = borders, heads
        products = values.new_empty(len(values), heads, dtype=_precise(values.dtype))
        for block in borders.blocks:
            product = _expand(rows, block).mul_(values[block.rows])
            products[block.rows] = _by_head(product, heads).sum(-1, dtype=products.dtype)
        return products

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        rows, values = ctx.saved_tensors
        for_rows, for_values = torch.empty_like(rows), torch.empty_like(values)
        for block in ctx.borders.blocks:
            for_rows[block.bags] = _weighted_sum(grad, values, block)
            _weigh(_expand(rows, block, for_values[block.rows]), grad, block)
        return for_rows, for_values, None, None


class WeightedSum(torch.autograd.Function):
    """Each bag's instances by their head's weight: ``(T, h)`` and ``(T, C)`` to ``(B, C)``."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, values: Tensor, borders: Borders) -> Tensor:
        ctx.save_for_backward(weights, values)
        ctx.borders = borders
        total = values.new_empty(len(borders), values.shape[1])
        for block in borders.blocks:
            total[block.bags] = _weighted_sum(weights, values, block)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        weights, values = ctx.saved_tensors
        for_weights, for_values = torch.empty_like(weights), torch.empty_like(values)
        for block in ctx.borders.blocks:
            expanded = _expand(grad, block)
            for_weights[block.rows] = _by_head(expanded * values[block.rows], weights.shape[1]).sum(-1)
            for_values[block.rows] = _weigh(expanded, weights, block)
        return for_weights, for_values, None


class Distance(torch.autograd.Function):
    r"""Weighted distance of each instance to its bag's row, by head: :math:`\sum_m^D \beta_m |y_m - z_m|^p`.

    ``y`` ``(B, C)``, ``z`` ``(T, C)`` and ``β`` ``(C,)`` to ``(T, h)``, for ``p`` of 1 or 2.
    """

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, values: Tensor, beta: Tensor, borders: Borders, heads: int, power: int
    ) -> Tensor:
        ctx.save_for_backward(rows, values, beta)
        ctx.borders, ctx.heads, ctx.power = borders, heads, power
        distances = values.new_empty(len(values), heads, dtype=_precise(values.dtype))
        for block in borders.blocks:
            difference = _expand(rows, block).sub_(values[block.rows])
            distance = difference.square_() if power == 2 else difference.abs_()
            distances[block.rows] = _by_head(distance.mul_(beta), heads).sum(-1, dtype=distances.dtype)
        return distances

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        rows, values, beta = ctx.saved_tensors
        for_rows, for_values = torch.empty_like(rows), torch.empty_like(values)
        for_beta = torch.zeros_like(beta, dtype=_precise(beta.dtype))
        for block in ctx.borders.blocks:
            difference = _expand(rows, block).sub_(values[block.rows])  # y - z
            sign = difference if ctx.power == 2 else difference.sign()
            slope = (_by_head(sign, ctx.heads) * grad[block.rows, :, None]).flatten(1)
            for_beta += difference.mul_(slope).sum(0, dtype=for_beta.dtype)  # |y - z|^p, weighed
            torch.mul(slope, beta * -ctx.power, out=for_values[block.rows])
            for_rows[block.bags] = _sum_rows(for_values[block.rows], block.starts)
        return for_rows.neg_(), for_values, for_beta.to(beta.dtype), None, None, None


class NormedSum(torch.autograd.Function):
    r"""The heart of CAP: :math:`\sum_n a_n \, normalise(z_n \odot g)`, head by head.

    ``a`` ``(T, h)``, ``z`` ``(T, C)`` and ``g`` ``(B, C)``, or ``None`` for ones, to ``(B, C)``. ``normalise``
    scales each head's ``D`` channels to mean 0 and variance 1, with ``eps`` added to the variance. Backward, with the
    normalised row :math:`\hat x_n`, one over its deviation :math:`r_n` and the gradient :math:`G`:

    .. math::
        \partial a_n = G \cdot \hat x_n, \qquad
        \partial x_n = a_n r_n \big( G - mean(G) - \hat x_n \, \partial a_n / D \big)
    """

    @staticmethod
    def forward(
        ctx: Any, attention: Tensor, values: Tensor, gate: Tensor | None, borders: Borders, eps: float
    ) -> Tensor:
        ctx.save_for_backward(attention, values, gate)
        ctx.borders, ctx.eps = borders, eps
        total = values.new_empty(len(borders), values.shape[1])
        for block in borders.blocks:
            centred, reciprocal = _centre(values, gate, block, attention.shape[1], eps)
            centred.mul_((attention[block.rows] * reciprocal)[..., None])
            total[block.bags] = _sum_rows(centred.flatten(1), block.starts)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        attention, values, gate = ctx.saved_tensors
        heads = attention.shape[1]
        by_head = _by_head(grad, heads)
        size = by_head.shape[-1]  # D
        slopes = (by_head - by_head.mean(-1, keepdim=True)).flatten(1)  # (B, C), G - mean(G)
        for_attention, for_values = torch.empty_like(attention), torch.empty_like(values)
        for_gate = None if gate is None else torch.empty_like(gate)
        for block in ctx.borders.blocks:
            centred, reciprocal = _centre(values, gate, block, heads, ctx.eps)
            slope = _by_head(_expand(slopes, block), heads)  # (t, h, D)
            # A centred row has mean 0, so mean(G) plays no part in the product.
            product = (slope * centred).sum(-1).mul_(reciprocal)  # (t, h), ∂a
            for_attention[block.rows] = product
            slope.addcmul_(centred, (product * reciprocal)[..., None], value=-1 / size)
            slope.mul_((attention[block.rows] * reciprocal)[..., None])
            for_row = slope.flatten(1)  # ∂x
            if gate is None or for_gate is None:
                for_values[block.rows] = for_row
            else:
                torch.mul(for_row, _expand(gate, block), out=for_values[block.rows])
                for_gate[block.bags] = _sum_rows(for_row.mul_(values[block.rows]), block.starts)
        return for_attention, for_values, for_gate, None, None


def _precise(dtype: torch.dtype) -> torch.dtype:
    """A sum over many channels is too coarse in a short float: near 512, bfloat16 has steps of 4."""
    return torch.promote_types(dtype, torch.float32)


def _sum_rows(rows: Tensor, starts: Tensor) -> Tensor:
    """Add up the rows ``(t, C)`` from each start to the next: ``(b, C)``."""
    order = torch.arange(len(rows), device=rows.device)
    return functional.embedding_bag(order, rows, starts, mode="sum")  # the fastest that torch has on a CPU


def _expand(rows: Tensor, block: InstanceBlock, out: Tensor | None = None) -> Tensor:
    """A fresh ``(t, C)``, or ``out``: for each instance of the block, its bag's row of ``(B, C)``."""
    return torch.index_select(rows[block.bags], 0, block.owner, out=out)


def _by_head(rows: Tensor, heads: int) -> Tensor:
    return rows.view(len(rows), heads, -1)


def _weigh(rows: Tensor, weights: Tensor, block: InstanceBlock) -> Tensor:
    """Multiply the block's ``(t, C)`` in place by the weights ``(T, h)`` of its instances, head by head."""
    _by_head(rows, weights.shape[1]).mul_(weights[block.rows, :, None])
    return rows


def _weighted_sum(weights: Tensor, values: Tensor, block: InstanceBlock) -> Tensor:
    weighted = _by_head(values[block.rows], weights.shape[1]) * weights[block.rows, :, None]
    return _sum_rows(weighted.flatten(1), block.starts)


def _centre(values: Tensor, gate: Tensor | None, block: InstanceBlock, heads: int, eps: float) -> tuple[Tensor, Tensor]:
    """The block's gated rows, less each head's mean ``(t, h, D)``, and one over their deviations ``(t, h)``.

    Written out because ``native_layer_norm`` takes twice as long as these four steps.
    """
    rows = values[block.rows].clone() if gate is None else _expand(gate, block).mul_(values[block.rows])
    by_head = _by_head(rows, heads)
    by_head.sub_(by_head.mean(-1, keepdim=True))
    variance = torch.linalg.vector_norm(by_head, dim=-1).square_().div_(by_head.shape[-1])
    return by_head, variance.add_(eps).rsqrt_()
