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
MEASURED = 2000  # exemplars, freshly drawn from each distribution
SEEDS = 3  # trainings of each test
LEARNT = 0.7  # mean AUROC on the training distribution below which there is nothing to judge
NEAR = 0.05  # how far a test AUROC may be below that of training and still pass


@dataclass(frozen=True)
class Law:
    """How exemplars are drawn: the number of each kind in a bag, for negatives and for positives.

    Witnesses are of the query's class, near misses of a class with a cosine of 0.4 to it; poison has a mark, the same
    in every bag. ``noise`` is the standard deviation of the instances of a class, per channel; that of classes is 1.
    """

    witnesses: tuple[int, int]
    near_misses: tuple[int, int] = (0, 0)
    poison: tuple[int, int] = (0, 0)
    noise: float = 0.3


UNIT_TESTS = {  # the training distribution with a shortcut, and the test distribution that exposes it
    # One witness makes a bag positive. A marked instance is in every negative bag; in the test in every positive one.
    "poison": (Law((0, 1), poison=(1, 0), noise=1.0), Law((0, 1), poison=(0, 1), noise=1.0)),
    # Three witnesses make a bag positive, one does not: the pooling has to count. Poison as before.
    "threshold": (Law((1, 3), poison=(1, 0), noise=0.5), Law((1, 3), poison=(0, 1), noise=0.5)),
    # Positives have four witnesses, negatives a near miss; in the test positives have one, negatives four near misses.
    "false_frequency": (Law((0, 4), near_misses=(1, 0)), Law((0, 1), near_misses=(4, 0))),
}


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
    options: dict[str, Any],
    *,
    tests: Sequence[str] = tuple(UNIT_TESTS),
    steps: int = STEPS,
    seed: int = 0,
    seeds: int = SEEDS,
    progress: Progress | None = None,
) -> dict[str, dict[str, Any]]:
    """Train new verifiers with a pooling for each test, on features drawn on the fly.

    Returns the mean ``train_auroc`` and ``test_auroc`` on fresh exemplars of both distributions, each training under
    ``runs``, and the ``outcome`` of ``judge``, by test.
    """
    outcomes: dict[str, dict[str, Any]] = {}
    with (progress or SilentProgress()).step(f"Unit tests of {pooling}", total=len(tests) * seeds) as advance:
        for test in tests:
            runs = []
            for number in range(seed, seed + seeds):
                runs.append(_run(pooling, options, *UNIT_TESTS[test], steps, number))
                advance(1)
            means = {name: sum(run[name] for run in runs) / seeds for name in ("train_auroc", "test_auroc")}
            outcomes[test] = {**means, "outcome": judge(runs), "runs": runs}
    return outcomes


def judge(runs: Sequence[dict[str, Any]]) -> str:
    """``not learnt`` if the mean train AUROC is below 0.7, ``fail`` if the mean test AUROC is below 0.5.

    ``pass`` if no training run lost more than 0.05; else ``weak``.

    >>> judge([{"train_auroc": 0.99, "test_auroc": 0.96}, {"train_auroc": 0.99, "test_auroc": 0.70}])
    'weak'
    """
    if sum(run["train_auroc"] for run in runs) < LEARNT * len(runs):
        return "not learnt"
    if sum(run["test_auroc"] for run in runs) < 0.5 * len(runs):
        return "fail"
    return "pass" if all(run["test_auroc"] >= run["train_auroc"] - NEAR for run in runs) else "weak"


def _run(pooling: str, options: dict[str, Any], train: Law, test: Law, steps: int, seed: int) -> dict[str, Any]:
    heads = options.get("heads", 1)
    channels = -(-CHANNELS // heads) * heads  # heads divide the channels
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        verifier = Verifier(pooling, channels=channels, pooling_options=options).train()
        optimiser = torch.optim.AdamW(verifier.parameters(), lr=RATE, weight_decay=0.0)
        for _ in range(steps):
            query, bags, label = draw(train, BATCH, channels, generator)
            logit = verifier.verify_features(query, bags).logit
            optimiser.zero_grad()
            functional.binary_cross_entropy_with_logits(logit, label.float()).backward()
            optimiser.step()
    verifier.eval()
    measured: dict[str, Any] = {"seed": seed}
    with torch.inference_mode():
        for name, law in (("train_auroc", train), ("test_auroc", test)):
            query, bags, label = draw(law, MEASURED, channels, generator)
            measured[name] = auroc(label.numpy(), verifier.verify_features(query, bags).logit.numpy())
    return measured
