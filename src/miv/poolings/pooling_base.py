"""The base class and output of poolings, and their registry for code, command line, documents and tests."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar, get_args

import torch
from torch import Tensor, nn

from miv.bags import Bags, as_bags
from miv.bags.borders import refuse_nested
from miv.errors import MIVError, unknown_name
from miv.poolings.similar import AlignedNorm, ScaledProduct
from miv.poolings.stored import StoredForm
from miv.registry import Registry, remember_options

Start = Literal["paper", "similar"]


@dataclass(frozen=True)
class PoolingOutput:
    """The output of a pooling: two vectors to compare, and its attention.

    Args:
        query_vector: ``(B, C)``, the paper's :math:`v^Q`.
        bag_vector: ``(B, C)``, the paper's :math:`v^P`.
        attention: ``(T, h)``, for each head at least 0 and with sum 1 in each bag; ``None`` if the pooling has no
            attention.
        score: ``(T,)``, what the pooling chooses targets by, if its attention keeps only the choice; ``None`` if the
            attention itself ranks all targets.
        attention_scores: ``(T, h)``, whose softmax over each bag is the attention; ``None`` if the outputs for parts of
            a bag do not tell the output for the whole, see ``miv.verifier.streaming``.
    """

    query_vector: Tensor
    bag_vector: Tensor
    attention: Tensor | None
    score: Tensor | None = None
    attention_scores: Tensor | None = None


class WeightedProduct(nn.Module):
    r"""Similarity of query and bag vector, the paper's equation 7.

    .. math:: sim = \sum_{i=1}^C \alpha_i \, v^Q_i \, v^P_i
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        bound = math.sqrt(3 / channels)  # Glorot's bound for a vector
        self.weight = nn.Parameter(torch.empty(channels).uniform_(-bound, bound))  # α

    def forward(self, query: Tensor, targets: Tensor) -> Tensor:
        """Compare row by row: ``(B, C)`` and ``(B, C)`` to ``(B,)``."""
        return (query * targets) @ self.weight


class Pooling(nn.Module):
    r"""From a query and its bag to two vectors that can be compared.

    A pooling works inside a ``Verifier`` and on its own. Called with features, it applies its first norm (``norm``) to
    the query and the targets, then pools:

    .. math:: v^{query} = norm(query), \qquad v^{target} = norm(target)

    ``pooling.similarity(output.query_vector, output.bag_vector)`` returns the logits ``(B,)``.

    A subclass defines ``forward(query, bags) -> PoolingOutput`` in terms of :math:`v^{query}` ``(B, C)`` and
    :math:`v^{target}` ``(T, C)``, the features *after* that norm. The norm and the similarity are here because some
    poolings use them again: the seed of PMA and the [CLS] of MSA pass through the norm, and the baseline attends with
    the weights of the similarity.

    Args:
        channels: ``C``, the length of a feature vector.

    >>> pooling = create_pooling("cap_dba_l2", channels=4)
    >>> output = pooling(torch.randn(2, 4), Bags.from_list([torch.randn(3, 4), torch.randn(1, 4)]))
    >>> pooling.similarity(output.query_vector, output.bag_vector).shape, output.attention.shape
    (torch.Size([2]), torch.Size([4, 2]))
    """

    has_attention: ClassVar[bool] = True
    # Whether the bag vector is that of the target with the greatest score; otherwise it is a mean by attention.
    takes_best: ClassVar[bool] = False
    # Whether `start_similar`, once fitted, makes it (with one head) as good as the nearest target.
    starts_as_nearest: ClassVar[bool] = False
    score_is_logit: ClassVar[bool] = False  # whether the score of a target is the logit if it were the whole bag
    learns: ClassVar[bool] = True  # whether there is anything left to learn once `start_similar` is fitted

    norm: nn.LayerNorm | AlignedNorm
    similarity: WeightedProduct | ScaledProduct

    def __init__(self, channels: int) -> None:
        super().__init__()
        check_count("channels", channels)
        self.channels = channels
        self.norm = nn.LayerNorm(channels, eps=1e-3)  # the Keras default, which the authors used
        self.similarity = WeightedProduct(channels)

    def start_similar(self) -> None:
        """Replace the first LayerNorm and the similarity with ones that start as a cosine; see ``similar.py``."""
        self.norm = AlignedNorm(self.channels)
        self.similarity = ScaledProduct(self.channels)

    def __call__(self, query: Tensor, bags: Bags) -> PoolingOutput:
        """Check the shapes of queries ``(B, C)`` and values ``(T, C)``, apply the first norm, then pool."""
        if not isinstance(query, Tensor):
            raise MIVError(
                f"query is a {type(query).__name__}. Expected a tensor (B, {self.channels}) with one query per bag."
            )
        refuse_nested(query, "query")
        targets = as_bags(bags)
        self._check(query, targets)
        normed = targets.with_values(self.norm(targets.values))  # (T, C)
        output: PoolingOutput = super().__call__(self.norm(query), normed)
        return output

    def forward(self, query: Tensor, bags: Bags) -> PoolingOutput:
        """Pool features after the first norm: ``(B, C)`` and bags of values ``(T, C)``."""
        raise NotImplementedError(f"{type(self).__name__} has no forward(query, bags).")

    def stored_form(self) -> StoredForm | None:
        """What galleries store for this pooling; ``None``: features are stored, and pooled for every query.

        Every class overrides it for itself: a subclass may pool otherwise, so it does not inherit the form.
        """
        return None

    def _check(self, query: Tensor, bags: Bags) -> None:
        expected = f"Expected query (B, {self.channels}) and bags of values (T, {self.channels})"
        values = bags.values
        if query.shape != (len(bags), self.channels) or values.shape[1:] != (self.channels,):
            raise MIVError(
                f"query is {tuple(query.shape)} and bags.values {tuple(values.shape)} in {len(bags)} bags. "
                f"{expected}, one query per bag."
            )
        if not query.is_floating_point() or query.dtype != values.dtype:
            raise MIVError(f"query is {query.dtype} and bags.values {values.dtype}. {expected} of one float dtype.")
        weights = next((weight.dtype for weight in self.parameters()), query.dtype)
        if query.dtype != weights and not torch.is_autocast_enabled(query.device.type):
            raise MIVError(f"The features are {query.dtype}, the weights {weights}. Convert one of them.")


def form_of(pooling: Pooling) -> StoredForm:
    """The stored form of a pooling, by default its features; a subclass may pool otherwise, so it inherits none."""
    form = pooling.stored_form() if "stored_form" in vars(type(pooling)) else None
    return StoredForm(pooling) if form is None else form


POOLINGS: Registry[Pooling] = Registry(
    "pooling", " For one of your own, import its module first: miv --import MODULE, or MIV_IMPORT=MODULE."
)
P = TypeVar("P", bound=type[Pooling])


def register_pooling(name: str, *, section: str = "–") -> Callable[[P], P]:
    """Register a pooling, so that it can be created by name, saved and loaded.

    Args:
        name: name of the pooling, such as ``my_pooling``.
        section: the section of the paper that describes it.
    """

    def register(make: P) -> P:
        if not (isinstance(make, type) and issubclass(make, Pooling)):
            raise MIVError(f"Cannot register {make!r} as {name!r}. Expected a subclass of miv.Pooling.")
        return POOLINGS.register(name, section)(remember_options(make))

    return register


def list_poolings() -> list[str]:
    """Names of all poolings, in the order of the paper.

    >>> list_poolings()[:3]
    ['baseline', 'gabmil', 'pma']
    """
    return POOLINGS.names()


def create_pooling(name: str, *, channels: int, start: Start = "paper", **options: Any) -> Pooling:
    """Create a pooling by name.

    Args:
        name: one of ``list_poolings()``.
        channels: ``C``, the length of a feature vector.
        start: ``paper`` uses the authors' layers and starting weights; ``similar`` scales features to one length and
            starts with a cosine similarity.
        options: options of the pooling, such as ``heads``; ``miv poolings`` lists them.

    >>> create_pooling("cap_dba_l2", channels=12, heads=3).channels
    12
    >>> create_pooling("gabmil", channels=12, hiden=64)
    Traceback (most recent call last):
    miv.errors.MIVError: There is no option of gabmil 'hiden'. Did you mean 'hidden'? Known: channels, hidden.
    """
    check_choice("start", start, get_args(Start))
    pooling = POOLINGS.create(name, channels=channels, **options)
    if start == "similar":
        pooling.start_similar()
    return pooling


def check_choice(option: str, value: str, allowed: tuple[str, ...]) -> None:
    """Raise an error for a value that is not allowed."""
    if value not in allowed:
        raise unknown_name(f"{option} named", str(value), allowed)


def check_flag(option: str, value: bool) -> None:
    """Raise an error unless the value is a bool; the string ``"false"`` would count as true."""
    if not isinstance(value, bool):
        raise MIVError(f"{option} is {value!r}. Expected True or False.")


def check_count(option: str, value: int, most: int = 1_000_000) -> int:
    """Return a whole number from 1 to ``most``; anything else is an error."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise MIVError(f"{option} is {value!r}. Expected a whole number from 1 to {most:,}.")
    return value


def check_heads(channels: int, heads: int) -> int:
    """Return ``D = C / h``, the channels of one head."""
    check_count("heads", heads)
    if channels % heads:
        divisors = [h for h in range(1, channels + 1) if channels % h == 0]
        raise MIVError(
            f"heads is {heads} and channels is {channels}. Expected heads that divide the channels: "
            f"{', '.join(map(str, divisors[:12]))}{', ...' if len(divisors) > 12 else ''}."
        )
    return channels // heads
