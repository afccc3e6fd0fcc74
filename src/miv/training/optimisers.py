"""Optimisers and learning rate schedules."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from miv.training.config import TrainingConfig


class KerasRMSprop(Optimizer):
    r"""RMSprop as used by the paper's authors, from Keras 2.11 and later.

    .. math:: v \leftarrow \rho v + (1 - \rho) g^2, \qquad w \leftarrow w - \eta \, g / \sqrt{v + \epsilon}

    PyTorch divides by :math:`\sqrt v + \epsilon` instead. With :math:`\epsilon = 10^{-7}` that is a different
    optimiser wherever gradients are below :math:`3 \cdot 10^{-4}`: there Keras takes smaller steps.
    """

    def __init__(self, parameters: Iterable[Any], lr: float, rho: float = 0.9, epsilon: float = 1e-7) -> None:
        super().__init__(parameters, {"lr": lr, "rho": rho, "epsilon": epsilon})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step; ``closure``, which computes gradients first, is not used here."""
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            gradients: list[Tensor] = [weight.grad for weight in weights]
            for weight in weights:
                if not self.state[weight]:
                    self.state[weight]["mean_square"] = torch.zeros_like(weight)
            mean_squares = [self.state[weight]["mean_square"] for weight in weights]
            torch._foreach_mul_(mean_squares, group["rho"])
            torch._foreach_addcmul_(mean_squares, gradients, gradients, 1 - group["rho"])
            roots = torch._foreach_add(mean_squares, group["epsilon"])
            torch._foreach_sqrt_(roots)
            torch._foreach_addcdiv_(weights, gradients, roots, -group["lr"])


class AdamWL2SP(AdamW):
    r"""AdamW that pulls weights toward where they started (L2-SP, Li et al. 2018) instead of toward zero.

    .. math:: w \leftarrow w - \eta \lambda (w - w_0)

    The start :math:`w_0` is part of a group, so that a checkpoint holds it.
    """

    def __init__(self, groups: list[dict[str, Any]], lr: float) -> None:
        for group in groups:
            group["start"] = [weight.detach().clone() for weight in group["params"]]
        super().__init__(groups, lr=lr, fused=False)

    def load_state_dict(self, state_dict: Any) -> None:
        """Also move the start to the device of the weights, which may differ from the checkpoint's."""
        super().load_state_dict(state_dict)
        for group in self.param_groups:
            group["start"] = [start.to(weight) for start, weight in zip(group["start"], group["params"], strict=True)]

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Take one step of AdamW, then one toward the start."""
        loss = super().step(closure)
        for group in self.param_groups:
            if group["pull"]:
                torch._foreach_lerp_(group["params"], group["start"], min(1.0, group["lr"] * group["pull"]))
        return loss


def create_optimiser(config: TrainingConfig, model: nn.Module, exemplars: float = 1_000) -> Optimizer:
    """Create the optimiser of all trainable weights; a group's ``factor`` multiplies the scheduled rate.

    With the start "similar", adamw pulls the head's weights to their start, and wide matrices learn at lower rates
    (Yang et al. 2022).
    """
    rate, backbone_rate = config.learning_rates[0][1], config.backbone_learning_rate
    has_rate, is_adamw = isinstance(backbone_rate, float), config.optimiser == "adamw"
    is_similar = config.start == "similar" and is_adamw
    groups: dict[tuple[Any, ...], dict[str, Any]] = {}  # few groups make steps faster
    for name, weight in model.named_parameters():
        if not weight.requires_grad:
            continue
        in_backbone, is_matrix = name.startswith("backbone."), weight.ndim > 1
        group = {"factor": backbone_rate / rate if in_backbone and isinstance(backbone_rate, float) else 1.0}
        if is_similar and is_matrix and not in_backbone:
            group["factor"] = min(1.0, WIDTH / weight.shape[1])
        if is_adamw:  # offsets, scales and the similarity vector need not be near 0
            decays = is_matrix and (in_backbone or not is_similar)
            group["weight_decay"] = config.weight_decay if decays else 0.0
        if is_similar:
            group["pull"] = 0.0 if in_backbone else config.pull * (1_000 / exemplars) ** 2
        key = tuple(group.values()) if is_similar else (has_rate and in_backbone, is_adamw and not is_matrix)
        groups.setdefault(key, {"params": [], **group})["params"].append(weight)
    ordered = [groups[key] for key in (groups if is_similar else sorted(groups))]
    optimiser: Optimizer
    if is_similar:
        optimiser = AdamWL2SP(ordered, lr=rate)
    else:
        optimiser = AdamW(ordered, lr=rate, fused=False) if is_adamw else KerasRMSprop(ordered, lr=rate)
    set_rates(optimiser, rate)
    return optimiser


def set_rates(optimiser: Optimizer, rate: float) -> None:
    """Set the scheduled rate; each group keeps its own factor of it."""
    for group in optimiser.param_groups:
        group["lr"] = rate * group["factor"]


def check_state(optimiser: Optimizer) -> None:
    """Raise an error if the optimiser could not take a step with the state it has, such as one of a checkpoint."""
    for group in optimiser.param_groups:
        example = nn.Parameter(torch.zeros(1))
        example.grad = torch.zeros(1)
        make: Callable[..., Optimizer] = type(optimiser)
        small = make([{**group, "params": [example]}], lr=group["lr"])
        small.step()  # odd settings of the group fail here
        missing = small.param_groups[0].keys() - group.keys()  # the small one has their defaults
        if missing:
            raise ValueError(f"the optimiser lacks {min(missing)!r}")
        for place, weight in enumerate(group["params"]):
            if "start" in group and group["start"][place].shape != weight.shape:
                raise ValueError("the start of a weight has another shape than the weight")
            expected = {n: weight.shape if value.ndim else value.shape for n, value in small.state[example].items()}
            state = optimiser.state.get(weight, {})
            if not isinstance(state, dict):
                raise ValueError("the state of the optimiser is not a dictionary")
            if state and {name: getattr(value, "shape", None) for name, value in state.items()} != expected:
                raise ValueError("the state of the optimiser does not fit the weights")


def learning_rate(config: TrainingConfig, epoch: int, done: float) -> float:
    """The learning rate at a point of a stage.

    >>> settings = TrainingConfig(learning_rates=((0, 1e-4), (5, 5e-5)))
    >>> [learning_rate(settings, epoch, 0.0) for epoch in (0, 4, 5, 9)]
    [0.0001, 0.0001, 5e-05, 5e-05]
    """
    if config.schedule == "steps":
        return [rate for first, rate in config.learning_rates if epoch >= first][-1]
    highest = config.learning_rates[0][1]
    if done < _RISING:
        return highest * (0.04 + 0.96 * done / _RISING)  # not from 0, so that the first step counts
    return highest * 0.5 * (1 + math.cos(math.pi * (done - _RISING) / (1 - _RISING)))


WIDTH = 128  # matrices with at most this many inputs learn at the full rate
_RISING = 0.2  # share of one cycle in which the rate rises
