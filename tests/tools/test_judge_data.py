from collections import Counter

import numpy as np
import pytest
from tools import judge_data as data, judge_rules as rules

from miv.tasks.claims import ClaimBag, ClaimSentence

pytestmark = pytest.mark.skipif(not rules.WORDNET.is_dir(), reason="needs WordNet (Debian's wordnet-base)")

CLAIM = "Marie Curie was born in Warsaw."
GOLD = "Marie Curie, a physicist, was born in Warsaw and lived in Paris."
OTHER = "The city has a large river with many bridges."


def bag(claim: str, gold: str, supported: bool = True, page: str = "") -> ClaimBag:
    texts = {gold: True, OTHER: False}
    return ClaimBag(
        claim, page, supported, [ClaimSentence(text, text, page, is_gold) for text, is_gold in texts.items()]
    )


def cities() -> list[ClaimBag]:
    return [
        bag(CLAIM.replace("Warsaw", city), GOLD.replace("Warsaw", city))
        for city in ("Warsaw", "Berlin", "London", "Vienna", "Madrid", "Rome")
    ]


def pairs_of(bags: list[ClaimBag]) -> list[data.Pair]:
    return list(data.Maker(bags, "set", np.random.default_rng(0)).pairs())


def test_a_swap_is_made_in_the_claim_in_the_premise_and_in_both() -> None:
    made = [pair for pair in pairs_of(cities()) if pair.kind == "set name" and pair.origin == "set 0"]
    places = {city for bag in cities() for city in bag.claim.rstrip(".").split()[-1:]}

    def place(text: str) -> str:
        return next(city for city in places if f"born in {city}" in text)

    for pair in made:
        if pair.label == rules.SUPPORTS:
            assert place(pair.premise) == place(pair.hypothesis)
        if pair.label == rules.CONTRADICTS:
            assert place(pair.premise) != place(pair.hypothesis)
    assert Counter(pair.label for pair in made)[rules.CONTRADICTS] >= 2
    assert {pair.hypothesis for pair in made if pair.label == rules.SUPPORTS}  # the changed claim can be true too


def test_negations_of_true_claims_contradict_and_of_false_claims_support() -> None:
    true = [pair for pair in pairs_of([bag(CLAIM, GOLD)]) if pair.kind == "set negation"]
    false = [
        pair
        for pair in pairs_of([bag("Marie Curie was born in Rome.", GOLD, supported=False)])
        if pair.kind == "set negation"
    ]
    assert {pair.label for pair in true} == {rules.CONTRADICTS, rules.NEITHER}
    assert {pair.label for pair in false} == {rules.SUPPORTS, rules.NEITHER}
    for pair in (*true, *false):
        assert "n't" in pair.hypothesis or "not" in pair.hypothesis or "never" in pair.hypothesis
        assert (GOLD in pair.premise) == (pair.label != rules.NEITHER)


def test_a_premise_that_begins_with_a_pronoun_has_its_page_first() -> None:
    gold = "She was born in Warsaw."
    made = pairs_of([bag(CLAIM, gold, page="Marie Curie (physicist)")] * 8)
    premises = [pair.premise for pair in made if pair.kind == "set evidence"]
    assert any(text.startswith("Marie Curie. She was born") for text in premises)
    assert not any(text.startswith("She") for text in premises)


def test_balancing_removes_what_the_hypothesis_alone_says() -> None:
    words = ["red", "blue", "green", "tall"]
    random = np.random.default_rng(0)
    made = []
    for number in range(3000):
        label = int(random.integers(3))
        sign = " only" if random.random() < (0.8, 0.2, 0.2)[label] else ""
        text = f"It is{sign} {random.choice(words)} {random.choice(words)}."
        made.append(data.Pair(f"premise {number}", text, label, "set", str(number)))
    before = data.leaks(made, data.claim_only(made))
    made = data.balanced(made, np.random.default_rng(1), log=lambda text: None)
    after = data.leaks(made, data.claim_only(made))
    assert before["supports"] > 0.7
    assert max(after.values()) < 0.6
    assert len(made) > 1000
