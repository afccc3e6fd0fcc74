"""Train the tokens and the similarity of a ``maxsim`` verifier to find evidence, left out of half of the bags."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from tools.evidence_states import TokenStates
from tools.evidence_task import evidence_keys
from torch import Tensor
from torch.nn import functional

from miv.backbones.tokens import WORD_LENGTH, TokenEncoder
from miv.poolings.maxsim import TokenSimilarity
from miv.tasks.claims import ClaimBag, topics_of
from miv.verifier.network import Verifier

CLAIMS, OTHERS, EVIDENCE = 16, 6, 2  # claims per step; for each, other sentences and evidence sentences
RATE, WARM_UP = 1e-3, 30
SHARPNESS = 2.0  # of the soft maximum over a bag


@dataclass(frozen=True)
class Example:
    """A claim, its evidence, and sentences that are none: on its topic, and others given with it."""

    claim: str
    evidence: list[str]
    on_topic: list[str]
    others: list[str]


@dataclass(frozen=True)
class Drawn:
    """A claim of one step, some of its evidence, some sentences that are none, and all sentences that may be it."""

    claim: str
    evidence: list[str]
    others: list[str]
    all_evidence: list[str]


def examples_of(bags: Sequence[ClaimBag]) -> list[Example]:
    """The claims with at least two sentences that are no evidence."""
    topics = topics_of(list(bags), evidence_keys)
    known: dict[int, dict[str, None]] = {}
    for bag, topic in zip(bags, topics, strict=True):
        texts = [one.text for one in bag.sentences if one.is_evidence or bag.page]
        known.setdefault(topic, {}).update(dict.fromkeys(texts))
    found = []
    for bag, topic in zip(bags, topics, strict=True):
        evidence = [one.text for one in bag.sentences if one.is_evidence]
        on_topic = [text for text in known[topic] if text not in evidence and text != bag.claim]
        others = [one.text for one in bag.sentences if not one.is_evidence and one.text not in known[topic]]
        if evidence and len(on_topic) + len(others) >= 2:
            found.append(Example(bag.claim, evidence, on_topic, others))
    return found


def start(backbone: TokenEncoder, states: TokenStates) -> None:
    """Start with the main directions of all tokens, so that products of projected tokens are nearly the same."""
    hidden, ids = states.some_tokens(20_000)
    with torch.no_grad():
        backbone.projection.copy_(torch.eye(len(backbone.projection), backbone.width))
        unit = functional.normalize
        words = backbone.encoder.get_input_embeddings()(ids)
        both = torch.cat([unit(hidden, dim=2), WORD_LENGTH * unit(words, dim=2)], dim=2)[0]
        backbone.projection.copy_(torch.linalg.eigh(both.T @ both)[1].flip(1)[:, : backbone.width])


def train(
    verifier: Verifier, states: TokenStates, sets: Sequence[tuple[float, list[Example]]], steps: int, seed: int
) -> None:
    """Train on examples of several sets, each with a probability."""
    backbone, similarity = verifier.backbone, verifier.pooling.similarity
    assert isinstance(backbone, TokenEncoder)
    assert isinstance(similarity, TokenSimilarity)
    small = [similarity.query_offset, similarity.target_offset]
    groups = [
        {"params": [backbone.projection], "lr": RATE},
        {"params": [backbone.log_weight], "lr": 9 * RATE},
        {"params": small, "lr": 15 * RATE},
        {"params": [similarity.scale, similarity.intercept], "lr": 20 * RATE},
    ]
    optimiser = torch.optim.Adam(groups)
    rates = [group["lr"] for group in optimiser.param_groups]
    total = 0.0
    for step in range(steps):
        random = np.random.default_rng([seed, step])
        factor = min(1.0, (step + 1) / WARM_UP) * max(0.03, (1 + math.cos(math.pi * step / steps)) / 2)
        for group, rate in zip(optimiser.param_groups, rates, strict=True):
            group["lr"] = factor * rate
        loss = _loss(backbone, similarity, states, [_drawn(sets, random) for _ in range(CLAIMS)])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        total += loss.item()
        if (step + 1) % 50 == 0:
            print(f"step {step + 1}: loss {total / 50:.4f}", flush=True)
            total = 0.0


def _drawn(sets: Sequence[tuple[float, list[Example]]], random: np.random.Generator) -> Drawn:
    """A random claim with some of its sentences, those on the topic first."""
    examples = sets[int(random.choice(len(sets), p=[share for share, _ in sets]))][1]
    example = examples[int(random.integers(len(examples)))]

    def some(texts: list[str], count: int) -> list[str]:
        return [texts[place] for place in random.permutation(len(texts))[:count]]

    on_topic = some(example.on_topic, OTHERS - 2 if len(example.others) >= 2 else OTHERS)
    others = on_topic + some(example.others, OTHERS - len(on_topic))
    return Drawn(example.claim, some(example.evidence, EVIDENCE), others, example.evidence)


def _loss(backbone: TokenEncoder, similarity: TokenSimilarity, states: TokenStates, drawn: list[Drawn]) -> Tensor:
    """Is the evidence in the bag? And which of all sentences of the step is it?"""
    sentences = list(dict.fromkeys(text for one in drawn for text in (*one.evidence, *one.others)))
    place = {text: number for number, text in enumerate(sentences)}
    claims = backbone.weighted(*states.padded([one.claim for one in drawn]))
    logits = all_pairs(similarity, claims, backbone.weighted(*states.padded(sentences)))  # (claims, sentences)
    total = logits.new_zeros(())
    for row, one in zip(logits, drawn, strict=True):
        evidence = [place[text] for text in one.evidence]
        others = [place[text] for text in one.others]
        yes, no = (torch.logsumexp(row[some] * SHARPNESS, 0) / SHARPNESS for some in (evidence + others, others))
        total = total + (functional.softplus(-yes) + functional.softplus(no)) / 2
        wrong = row[[number for text, number in place.items() if text not in one.all_evidence]]
        ranks = [torch.logsumexp(torch.cat([row[[number]], wrong]), 0) - row[number] for number in evidence]
        total = total + torch.stack(ranks).mean()
    return total / len(drawn)


def all_pairs(similarity: TokenSimilarity, claims: Tensor, sentences: Tensor) -> Tensor:
    """The similarity of every claim ``(Q, L, d)`` and every sentence ``(S, M, d)``: ``(Q, S)``."""
    weight, length = claims.norm(dim=2), sentences.norm(dim=2)  # (Q, L), (S, M)
    unit = functional.normalize
    cosine = torch.einsum("qld,smd->qslm", unit(claims, dim=2), unit(sentences, dim=2))
    matched = (cosine.amax(dim=3).clamp(min=0) * weight[:, None]).sum(dim=2) / weight.sum(dim=1)[:, None]
    asked = claims.sum(dim=1) @ similarity.query_offset / weight.sum(dim=1)  # (Q,)
    told = sentences.sum(dim=1) @ similarity.target_offset / length.sum(dim=1)  # (S,)
    return matched * similarity.scale + asked[:, None] + told + similarity.intercept
