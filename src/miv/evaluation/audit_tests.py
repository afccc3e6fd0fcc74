"""Does a pooling learn what multiple instance verification assumes? Tests that offer it a shortcut.

After the algorithmic unit tests of Raff and Holt (2023), "Reproducibility in Multiple Instance Learning: A Case For
Algorithmic Unit Tests", with a query: each exemplar has a class of its own, of which the query is one instance and
the witnesses are others. The training distribution offers a shortcut beside the witnesses; in the test distribution the
shortcut points the wrong way. A pooling that learnt the rule does equally well on both; one that took the shortcut has
a test AUROC below one half. The outcome depends on the seed, so there are several training runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from miv.bags import Bags
from miv.evaluation.metrics import auroc
from miv.runtime import Progress, SilentProgress
from miv.verifier.network import Verifier

SIZE = 8  # instances in a bag
MARKED = 8  # channels that say nothing of the class; only poison has something there
CHANNELS = 32
STEPS, BATCH, RATE = 600, 64, 3e-3
MEASURED = 2000  # exemplars, freshly drawn under each law
SEEDS = 3  # trainings of each test
LEARNT = 0.7  # mean AUROC under the training law below which there is nothing to judge
NEAR = 0.05  # how far a test AUROC may be below that of training and still pass


@dataclass(frozen=True)
class Law:
    """How exemplars are drawn: the number of each kind in a bag, for negatives and for positives.

    Args:
        witnesses: instances of the query's class.
        near_misses: instances of another class that is like the query's (a cosine of 0.4).
        poison: instances with a mark, the same in every bag, whatever the query.
        noise: standard deviation of the instances of a class, per channel; that of the classes is 1.
    """

    witnesses: tuple[int, int]
    near_misses: tuple[int, int] = (0, 0)
    poison: tuple[int, int] = (0, 0)
    noise: float = 0.3


@dataclass(frozen=True)
class UnitTest:
    """A test: the training distribution with a shortcut, and the test distribution that exposes it."""

    name: str
    meaning: str
    train: Law
    test: Law


UNIT_TESTS = (
    UnitTest(
        "poison",
        "One witness makes a bag positive. In training a marked instance is in every negative bag and in no positive "
        "one; in the test it is the other way round. An instance must not speak for no.",
        train=Law(witnesses=(0, 1), poison=(1, 0), noise=1.0),
        test=Law(witnesses=(0, 1), poison=(0, 1), noise=1.0),
    ),
    UnitTest(
        "threshold",
        "Three witnesses make a bag positive, one does not: the pooling has to count. Poison as before.",
        train=Law(witnesses=(1, 3), poison=(1, 0), noise=0.5),
        test=Law(witnesses=(1, 3), poison=(0, 1), noise=0.5),
    ),
    UnitTest(
        "false_frequency",
        "One witness makes a bag positive. In training positives have four and negatives one near miss; in the test "
        "positives have one and negatives four near misses. Much that is a little like the query is not a witness.",
        train=Law(witnesses=(0, 4), near_misses=(1, 0)),
        test=Law(witnesses=(0, 1), near_misses=(4, 0)),
    ),
)


def draw(law: Law, exemplars: int, channels: int, generator: torch.Generator) -> tuple[Tensor, Bags, Tensor]:
    """Draw queries ``(B, C)``, bags of ``(B * SIZE, C)`` in a random order, and labels ``(B,)``, half of them 1."""

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    content = channels - MARKED
    label = torch.arange(exemplars) % 2
    middle = normal(exemplars, 1, content)  # of the query's class
    place = torch.arange(SIZE)
    witness = place < torch.tensor(law.witnesses)[label, None]  # (B, N)
    near = (place < torch.tensor(law.near_misses)[label, None]).flip(1)  # from the end, so that none is both
    poison = (place < torch.tensor(law.poison)[label, None]).flip(1)
    instances = normal(exemplars, SIZE, content)
    instances = torch.where(witness[..., None], middle + law.noise * normal(exemplars, SIZE, content), instances)
    instances = torch.where(near[..., None], 0.4 * middle + (1 - 0.4**2) ** 0.5 * instances, instances)
    marks = 2.0 * poison[..., None].float() + 0.1 * normal(exemplars, SIZE, MARKED)
    query = torch.cat([middle[:, 0] + law.noise * normal(exemplars, content), 0.1 * normal(exemplars, MARKED)], dim=1)
    order = torch.rand(exemplars, SIZE, generator=generator).argsort(dim=1)[..., None].expand(-1, -1, channels)
    values = torch.cat([instances, marks], dim=2).gather(1, order)  # (B, N, C)
    return query, Bags(values.flatten(0, 1), torch.arange(exemplars + 1) * SIZE), label


def run_unit_tests(
    pooling: str,
    pooling_options: dict[str, Any] | None = None,
    *,
    tests: Sequence[UnitTest] = UNIT_TESTS,
    steps: int = STEPS,
    seed: int = 0,
    seeds: int = SEEDS,
    progress: Progress | None = None,
) -> dict[str, dict[str, Any]]:
    """Train new verifiers with a pooling for each test, on features drawn on the fly.

    Args:
        pooling: a name from ``miv.list_poolings()``.
        pooling_options: its options.
        tests: which tests.
        steps: number of training steps, each on a fresh batch.
        seed: start of the random numbers.
        seeds: number of training runs, starting with ``seed``.
        progress: reports progress.

    Returns:
        For each test: ``train_auroc`` and ``test_auroc`` on fresh exemplars of the training and the test distribution,
        means over the training runs; each run under ``runs``; and the ``outcome`` of ``judge``.
    """
    found: dict[str, dict[str, Any]] = {}
    with (progress or SilentProgress()).step(f"Unit tests of {pooling}", total=len(tests) * seeds) as advance:
        for test in tests:
            runs = []
            for number in range(seed, seed + seeds):
                runs.append(_run(pooling, pooling_options or {}, test, steps, number))
                advance(1)
            means = {name: sum(run[name] for run in runs) / seeds for name in ("train_auroc", "test_auroc")}
            found[test.name] = {**means, "outcome": judge(runs), "runs": runs}
    return found


def judge(runs: Sequence[dict[str, Any]]) -> str:
    """The outcome of a test, from the ``train_auroc`` and ``test_auroc`` of each training run.

    ``not learnt`` if the mean is below 0.7 even on the training distribution; ``fail`` if the test mean is below 0.5;
    ``pass`` if no training run lost more than 0.05; else ``weak``.

    >>> judge([{"train_auroc": 0.99, "test_auroc": 0.96}, {"train_auroc": 0.99, "test_auroc": 0.70}])
    'weak'
    """
    if sum(run["train_auroc"] for run in runs) < LEARNT * len(runs):
        return "not learnt"
    if sum(run["test_auroc"] for run in runs) < 0.5 * len(runs):
        return "fail"
    return "pass" if all(run["test_auroc"] >= run["train_auroc"] - NEAR for run in runs) else "weak"


def _run(pooling: str, options: dict[str, Any], test: UnitTest, steps: int, seed: int) -> dict[str, Any]:
    channels = -(-CHANNELS // options.get("heads", 1)) * options.get("heads", 1)  # heads divide the channels
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        verifier = Verifier(pooling, channels=channels, pooling_options=options).train()
        optimiser = torch.optim.AdamW(verifier.parameters(), lr=RATE, weight_decay=0.0)
        for _ in range(steps):
            query, bags, label = draw(test.train, BATCH, channels, generator)
            logit = verifier.verify_features(query, bags).logit
            loss = functional.binary_cross_entropy_with_logits(logit, label.float())
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    verifier.eval()
    measured: dict[str, Any] = {"seed": seed}
    with torch.inference_mode():
        for name, law in (("train_auroc", test.train), ("test_auroc", test.test)):
            query, bags, label = draw(law, MEASURED, channels, generator)
            measured[name] = auroc(label.numpy(), verifier.verify_features(query, bags).logit.numpy())
    return measured
