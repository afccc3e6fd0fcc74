"""The contract of every pooling, for poolings of your own: ``check_pooling(MyPooling)`` in a test."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from miv.bags import Bags
from miv.errors import MIVError
from miv.poolings import POOLINGS, Pooling
from miv.poolings.pooling_base import Start
from miv.verifier.network import Verification, Verifier


@dataclass(frozen=True)
class PoolingCase:
    """A registered pooling with its options, in a verifier whose weights have all left their starting values.

    Args:
        name: its name in the registry.
        options: its options, besides ``channels``.
        start: ``similar`` or ``paper``.
        channels: length of the features.
        sizes: of the bags.
        seed: of the weights and the features.
        scale: of the features.
        away: how far the weights are from their start.
        reads_in_order: whether the order of instances matters, by design.
    """

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    start: Start = "similar"
    channels: int = 12
    sizes: tuple[int, ...] = (5, 1, 7)
    seed: int = 0
    scale: float = 1.0
    away: float = 0.3
    reads_in_order: bool = False

    def verifier(self) -> Verifier:
        """In float64 and evaluation mode."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            verifier = Verifier(
                self.name, channels=self.channels, pooling_options=self.options, start=self.start
            ).double()
            with torch.no_grad():
                for parameter in verifier.parameters():
                    parameter.add_(self.away * torch.randn_like(parameter))
                for buffer in verifier.buffers():  # the centre
                    buffer.add_(0.1 * torch.randn_like(buffer))
        return verifier.eval()

    def exemplars(self) -> tuple[Tensor, list[Tensor]]:
        """Queries ``(B, C)`` and the features ``(N, C)`` of each bag, in float64."""
        generator = torch.Generator().manual_seed(self.seed + 1)

        def rows(count: int) -> Tensor:
            return self.scale * torch.randn(count, self.channels, generator=generator, dtype=torch.float64)

        return rows(len(self.sizes)), [rows(size) for size in self.sizes]


def order_of_instances(case: PoolingCase) -> None:
    """The order of instances does not matter."""
    if case.reads_in_order:
        return
    verifier, (query, bags) = case.verifier(), case.exemplars()
    generator = torch.Generator().manual_seed(case.seed)
    orders = [torch.randperm(len(bag), generator=generator) for bag in bags]
    plain = verifier(query, Bags.from_list(bags))
    moved = verifier(query, Bags.from_list([bag[order] for bag, order in zip(bags, orders, strict=True)]))
    _same(plain.logit, moved.logit, "another order of instances gives another logit")
    if plain.attention is not None:
        for number, order in enumerate(orders):
            words = "the attention does not follow its instances into another order"
            _same(plain.attention_of(number)[order], moved.attention_of(number), words)


def one_by_one(case: PoolingCase) -> None:
    """A batch equals its exemplars one by one, bags of one included."""
    verifier, (query, bags) = case.verifier(), case.exemplars()
    together = verifier(query, Bags.from_list(bags))
    for number, bag in enumerate(bags):
        alone = verifier(query[number : number + 1], Bags.from_list([bag]))
        words = f"a bag of {len(bag)} gives another answer alone than in a batch"
        _same(together.logit[number : number + 1], alone.logit, words)
        if together.attention is not None:
            _same(together.attention_of(number), alone.attention_of(0), words)


def attention_and_gradients(case: PoolingCase) -> None:
    """Attention is at least 0 and sums to 1 in each bag, and every gradient exists and is finite."""
    for dtype in (torch.float32, torch.float64):
        verifier, (query, bags) = case.verifier().to(dtype).train(), case.exemplars()
        query = query.to(dtype).requires_grad_()
        values = torch.cat(bags).to(dtype).requires_grad_()
        answer = verifier(query, Bags.from_list(bags).with_values(values))
        answer.logit.sum().backward()
        _check(bool(torch.isfinite(answer.logit).all()), "a logit is not finite")
        for key, tensor in {**_learned(verifier), "the query": query, "the bag": values}.items():
            _check(tensor.grad is not None, f"{key} has no gradient")
            _check(bool(torch.isfinite(tensor.grad).all()), f"the gradient of {key} is not finite")  # type: ignore[arg-type]
        if answer.attention is not None:
            _check(bool((answer.attention >= 0).all()), "some attention is below 0")
            sums = torch.stack([answer.attention_of(number).sum() for number in range(len(bags))])
            _same(sums, torch.ones_like(sums), "attention does not sum to 1 in each bag", 1e-4)


def finite_differences(case: PoolingCase) -> None:
    """Gradients equal finite differences."""
    case = replace(case, sizes=(3, 1, 2))
    verifier, (query, bags) = case.verifier(), case.exemplars()
    borders = Bags.from_list(bags)

    def logits(query: Tensor, values: Tensor, *_: Tensor) -> Tensor:
        return verifier(query, borders.with_values(values)).logit

    small = [weight for weight in _learned(verifier).values() if weight.numel() <= 200]
    inputs = (query.requires_grad_(), borders.values.clone().requires_grad_(), *small)
    try:
        torch.autograd.gradcheck(logits, inputs, atol=1e-5, fast_mode=True)
    except RuntimeError as error:
        raise AssertionError(f"a gradient differs from finite differences: {error}") from error


def bfloat16(case: PoolingCase) -> None:
    """bfloat16 gives the same within its precision, as weights and by autocast."""
    # Enough channels for a sum to lose digits; further from the start, attention is so sharp that rounding decides.
    case = replace(case, channels=8 * case.channels, sizes=(9, 1, 30), away=case.away / 2)
    query, bags = case.exemplars()
    expected = case.verifier()(query, Bags.from_list(bags))
    for way in ("weights", "autocast"):
        verifier = case.verifier().to(torch.bfloat16 if way == "weights" else torch.float32)
        dtype = next(verifier.parameters()).dtype
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=way == "autocast"):
            answer = verifier(query.to(dtype), Bags.from_list([bag.to(dtype) for bag in bags]))
        scale = expected.logit.abs().max().item()
        words = f"bfloat16 ({way}) gives another"
        _same(answer.logit.double(), expected.logit, f"{words} logit", 0.05 * scale + 0.05, 0.05)
        one_hot = expected.attention is not None and bool(((expected.attention > 0).sum() <= len(bags)).item())
        if answer.attention is not None and expected.attention is not None and not one_hot:  # a tie may turn
            _same(answer.attention.double(), expected.attention, f"{words} attention", 0.06, 0.05)
        answer.logit.sum().backward()
        for key, weight in _learned(verifier).items():
            _check(weight.grad is not None and bool(torch.isfinite(weight.grad).all()), f"{words} gradient of {key}")


def saved_and_loaded(case: PoolingCase) -> None:
    """Saved and loaded gives the same."""
    verifier, (query, bags) = case.verifier().float(), case.exemplars()
    inputs = query.float(), Bags.from_list([bag.float() for bag in bags])
    with tempfile.TemporaryDirectory() as folder:
        verifier.save_pretrained(folder)
        loaded = Verifier.from_pretrained(folder)
    one, other = (_parts(each(*inputs)) for each in (verifier, loaded))
    _check(len(one) == len(other), "attention is missing after loading")
    for before, after in zip(one, other, strict=True):
        _same(before, after, "a loaded verifier answers differently", 1e-6)


def trained_after_use(case: PoolingCase) -> None:
    """Bags that were verified in inference mode can be trained on."""
    verifier, (query, bags) = case.verifier(), case.exemplars()
    both = Bags.from_list(bags)
    with torch.inference_mode():
        seen = verifier(query, both).logit.clone()
    answer = verifier(query, both)
    answer.logit.sum().backward()
    _same(answer.logit.detach(), seen.clone(), "training mode of autograd gives another logit")


CLAUSES: tuple[Callable[[PoolingCase], None], ...] = (
    order_of_instances,
    one_by_one,
    attention_and_gradients,
    finite_differences,
    bfloat16,
    saved_and_loaded,
    trained_after_use,
)
"""The contract: each raises an ``AssertionError`` that says what is wrong."""

Naive = Callable[[dict[str, Any], Any, Any], tuple[Any, Any, Any]]


def check_pooling(
    pooling: type[Pooling] | str,
    options: dict[str, Any] | None = None,
    *,
    naive: Naive | None = None,
    reads_in_order: bool = False,
) -> None:
    """Check a registered pooling against the whole contract, for both starts and several sizes and scales.

    Args:
        pooling: the class, or its name.
        options: its options, besides ``channels``.
        naive: the pooling in plain NumPy, for one exemplar: from the weights by name, a query ``(C,)`` and
            a bag ``(N, C)`` after the first norm to the query's vector, the bag's vector and the attention ``[N][h]``.
        reads_in_order: whether the order of instances matters, by design, as in Bi-LSTM.

    >>> check_pooling("gabmil")
    """
    name = pooling if isinstance(pooling, str) else POOLINGS.name_of(pooling)
    if name is None:
        raise MIVError(f"{pooling} is not registered. Write @miv.register_pooling(name) above the class.")
    first = PoolingCase(POOLINGS[name].name, options or {}, reads_in_order=reads_in_order)
    for start in get_args(Start):
        for sizes, scale in (((5, 1, 7), 1.0), ((40,), 1e-3), ((1, 1, 3), 1e3)):
            case = replace(first, start=start, sizes=sizes, scale=scale)
            for clause in CLAUSES if scale == 1 else (one_by_one, attention_and_gradients):
                try:
                    clause(case)
                except AssertionError as error:
                    raise AssertionError(f"{name} ({start}), bags of {sizes}: {error}") from error
        if naive is not None:
            _equals_naive(replace(first, start=start), naive)


def _equals_naive(case: PoolingCase, naive: Naive) -> None:
    verifier, (query, bags) = case.verifier(), case.exemplars()
    answer, norm = verifier(query, Bags.from_list(bags)), verifier.pooling.norm
    weights = {key: value.numpy() for key, value in verifier.pooling.state_dict().items()}
    attention: list[Any] = []
    for number, bag in enumerate(bags):
        one, all_of_bag = (norm(rows).detach().numpy() for rows in (query[number], bag))
        vector_q, vector_p, by_instance = naive(weights, one, all_of_bag)
        for given, expected in ((answer.query_vector, vector_q), (answer.bag_vector, vector_p)):
            words = f"{case.name} ({case.start}) differs from its naive computation"
            _same(given[number], torch.from_numpy(np.asarray(expected, np.float64)), words, 1e-9)
        attention += [] if by_instance is None else [np.asarray(by_instance, np.float64)]
    _check(bool(attention) == (answer.attention_by_head is not None), "one of both has no attention")
    if answer.attention_by_head is not None:
        expected = torch.from_numpy(np.concatenate(attention))
        _same(answer.attention_by_head, expected, f"{case.name} has another attention than its naive computation", 1e-9)


def _learned(verifier: Verifier) -> dict[str, Tensor]:
    return {key: weight for key, weight in verifier.named_parameters() if weight.requires_grad}


def _parts(answer: Verification) -> list[Tensor]:
    parts = [answer.logit, answer.query_vector, answer.bag_vector]
    return parts if answer.attention is None else [*parts, answer.attention]


def _same(one: Tensor, other: Tensor, words: str, atol: float = 1e-7, rtol: float = 1e-6) -> None:
    try:
        torch.testing.assert_close(one, other, atol=atol, rtol=rtol)
    except AssertionError as error:
        raise AssertionError(f"{words}.\n{error}") from None


def _check(holds: bool, words: str) -> None:
    if not holds:
        raise AssertionError(f"{words}.")
