"""The mean of a verifier's weights at the start of a stage and after each of its epochs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn


class WeightAverage:
    r"""The mean of the weights that learn, over the start :math:`\theta_0` and the epochs since; later ones count more.

    .. math:: \bar\theta_k = \frac{2}{(k + 1)(k + 2)} \sum_{e=0}^{k} (e + 1) \, \theta_e

    On a few hundred bags, single epochs are better or worse by chance, and the one that suits ``validation`` best often
    is worse than the start on new bags. All of them stay near the start, so that their mean is a verifier as well, with
    less of what each has memorised (Shamir and Zhang 2013). ``docs/results/plain.md`` has the measurements.

    Args:
        module: with the weights of the start. Weights that do not learn now are left alone.

    >>> layer = nn.Linear(1, 1, bias=False)
    >>> _ = nn.init.constant_(layer.weight, 1.0)
    >>> average = WeightAverage(layer)
    >>> _ = nn.init.constant_(layer.weight, 4.0)
    >>> average.update()
    >>> with average.in_place():  # (1 + 2 * 4) / 3
    ...     layer.weight.item()
    3.0
    >>> layer.weight.item()
    4.0
    """

    def __init__(self, module: nn.Module) -> None:
        self._learned = {name: weight for name, weight in module.named_parameters() if weight.requires_grad}
        self._means = {name: weight.detach().clone() for name, weight in self._learned.items()}
        self._count = 1

    @torch.no_grad()
    def update(self) -> None:
        """Add the current weights to the mean."""
        self._count += 1
        for name, weight in self._learned.items():
            mean = self._means[name] = self._means[name].to(weight.device)
            mean.lerp_(weight, 2 / (self._count + 1))

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Use the mean instead of the weights for a while."""
        before = {name: weight.detach().clone() for name, weight in self._learned.items()}
        self._copy(self._means)
        try:
            yield
        finally:
            self._copy(before)

    @torch.no_grad()
    def _copy(self, values: dict[str, torch.Tensor]) -> None:
        for name, weight in self._learned.items():
            weight.copy_(values[name])

    def document(self) -> dict[str, Any]:
        """The mean and the number of weights in it, as stored in a checkpoint."""
        return {"count": self._count, "means": self._means}

    def restore(self, document: dict[str, Any]) -> None:
        """Restore what ``document`` returned; a ``ValueError`` if it is of other weights."""
        count, means = document["count"], document["means"]
        shapes = {name: mean.shape for name, mean in means.items()}
        if type(count) is not int or count < 1 or shapes != {name: one.shape for name, one in self._means.items()}:
            raise ValueError("the mean of the weights does not fit the verifier")
        self._count, self._means = count, dict(means)
