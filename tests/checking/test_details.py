"""Numbers, dates and names of a sentence that no cited source contains."""

from datetime import date

import pytest
from hypothesis import given, strategies as st

pytest.importorskip("sentencex", reason="needs sentencex, of the extra text")

import miv
from miv.checking.details import SourceDetails, missing_details
from miv.checking.results import render_check
from tests.checking.words import word_verifier


def missing(text: str, *source: str) -> list[str]:
    return [detail.text for detail in missing_details(text, [SourceDetails(source)], ())]


WORDS = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety"""
UNITS = WORDS.split()  # the last eight are tens


def spelled(number: int) -> str:
    """A naive speller, independent of the code."""
    for scale, name in ((10**12, "trillion"), (10**9, "billion"), (10**6, "million"), (1000, "thousand")):
        if number >= scale:
            rest = f" {spelled(number % scale)}" if number % scale else ""
            return f"{spelled(number // scale)} {name}{rest}"
    if number >= 100:
        return f"{UNITS[number // 100]} hundred" + (f" and {spelled(number % 100)}" if number % 100 else "")
    if number < 20:
        return UNITS[number]
    return UNITS[18 + number // 10] + (f"-{UNITS[number % 10]}" if number % 10 else "")


NUMBERS = st.integers(0, 10**15 - 1) | st.integers(0, 2000)


@given(NUMBERS)
def test_a_number_is_the_same_in_words_and_in_digits(number: int) -> None:
    for source in (f"{number}", f"{number:,}", f"{number}.0", f"{number:,}".replace(",", "\u202f")):
        assert missing(f"They have {spelled(number)} bees.", f"They have {source} bees.") == []
        assert missing(f"They have {source} bees.", f"They have {spelled(number)} bees.") == []


@given(NUMBERS, NUMBERS)
def test_another_number_is_missing(number: int, other: int) -> None:
    lost = [] if number == other else [f"{number:,}"]
    assert missing(f"They have {number:,} bees.", f"They have {spelled(other)} bees.") == lost


FORMS = ("%d %b %Y", "%d %B %Y", "%B %d, %Y", "%b. %d, %Y", "%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%dth of %B %Y")


@given(st.dates(date(1000, 1, 1)), st.dates(date(1000, 1, 1)), st.sampled_from(FORMS), st.sampled_from(FORMS))
def test_a_date_is_the_same_in_each_form(day: date, other: date, form: str, form_of_source: str) -> None:
    claim = f"It began on {day.strftime(form)}."
    assert missing(claim, f"On {day.strftime(form_of_source)} it began.") == []
    assert missing(f"It began in {day.year}.", claim) == missing(f"It began in {day.strftime('%B %Y')}.", claim) == []
    if day.year != other.year:
        assert missing(claim, f"On {other.strftime(form_of_source)} it began.") == [day.strftime(form)]


@pytest.mark.parametrize(
    ("text", "source", "lost"),
    [
        ("In 1876 she moved to Krakow.", "In 1867 she moved to Warsaw.", ["1876", "Krakow"]),
        ("It grew by 5 percent, or 2.5 million.", "It grew by 5%: 2,500,000 more.", []),
        ("It grew by five per cent.", "It grew by 6%.", ["five"]),
        ("It cost $5bn and is 31m high.", "It cost 5 billion dollars and is 31 metres high.", []),
        ("He was third and came 21st.", "He came 3rd, then twenty-first.", []),
        ("It was in the 1990s and the 19th century.", "It was in 1994, not in 1850.", []),
        ("It was in the '90s and the nineteenth century.", "It was in 1989 and 1901.", ["90s", "nineteenth century"]),
        ("It was 1994.", "It was in the 1990s.", ["1994"]),
        ("The war of 1939-45 lasted until 1945.", "The war lasted from 1939 to 1945.", []),
        ("One of them came first, a second later.", "They came.", []),
        ("It was on 8 Nov 1867.", "It was on 7 November 1867.", ["8 Nov 1867"]),
        ("Zoë's sister met Skłodowska.", "Zoe was a friend of Sklodowska's.", []),
        ("Pierre Curie met Ludwig van Beethoven.", "Marie Curie met Ludwig van Beethoven.", ["Pierre"]),
        ("John Smith met J. K. Rowling.", "J. Smith met Joanne Rowling.", []),
        ("She spoke to the UN in the United States.", "The United Nations of the U.S. heard her.", []),
        ("Canadian and French bees, Beatles of Sweden.", "In Canada, France and Sweden a Beatle had bees.", []),
        ("He met the Canadians of Italy.", "He met the Austrians of Iraq.", ["Canadians of Italy"]),
        ("Beethoven was born.", "Somebody was born.", []),  # it may be any word that begins a sentence
        ("Beethoven was born.", "Bonn is far. He met Mozart and Mozart met Haydn.", []),
        ("Mozart was born.", "Bonn is far.", []),
        ("In Bonn, Mozart was born.", "Bonn is far.", ["Mozart"]),
        ("Yesterday she said: “However, it rains.”", "Rain fell.", []),
        ("Type GPT-4 or H2O.", "Type GPT-5 or CO2.", ["4", "H2O"]),
    ],
)
def test_what_is_missing(text: str, source: str, lost: list[str]) -> None:
    assert missing(text, source) == lost


def test_places_are_those_of_the_text_and_one_source_is_enough() -> None:
    text = "🐝 Ann Bell saw 1,000 bees on 7 May 1990."
    sources = [SourceDetails(["It was on May 7, 1990."]), SourceDetails(["Ann has a thousand."])]
    details = missing_details(text, sources, ())
    assert [(detail.kind, text[detail.start : detail.end]) for detail in details] == [("name", "Bell")]
    assert [detail.kind for detail in missing_details(text, [], ())] == ["name", "number", "date"]


def test_a_name_of_the_answer_may_begin_a_sentence() -> None:
    bees = SourceDetails(["Bees make honey."])
    assert missing_details("Curie keeps bees.", [bees], ()) == ()
    assert [detail.text for detail in missing_details("Curie keeps bees.", [bees], {"curie"})] == ["Curie"]


def test_a_sentence_with_a_missing_detail_is_unsure() -> None:
    sources = {"a.md": "All 20 bees of Anna make sweet honey.", "b.md": "Wasps hunt meat in 1999 with Berta."}
    answer = "All twenty bees of Anna make honey. All 30 bees of Berta make sweet honey."
    checked = miv.check(answer, sources, verifier=word_verifier(), citations=1)
    good, bad = checked.sentences
    assert (good.outcome, good.missing, good.reason) == ("evidence found", (), "")
    assert (bad.outcome, bad.reason) == ("unsure", "no cited source contains 30, Berta")
    assert bad.probability is not None
    assert bad.probability >= checked.threshold
    assert [(detail.text, detail.kind, detail.start) for detail in bad.missing] == [
        ("30", "number", 4),
        ("Berta", "name", 15),
    ]
    assert not checked
    document = checked.document()["sentences"][1]
    assert document["missing"][0] == {"text": "30", "kind": "number", "start": 4, "end": 6}
    assert document["nearest"] == (1,)
    assert '[unsure; missing: "30", "Berta"; nearest [1]]' in " ".join(str(checked).split())
    page = render_check(checked, "Title")
    assert 'All <span class="missing" title="number in no cited source">30</span> bees of <span' in page
    assert "no cited source contains 30, Berta" in page
    one = miv.check(answer, sources, verifier=word_verifier(), citations=1, threshold=0.0)
    assert [sentence.outcome for sentence in one.sentences] == ["evidence found", "unsure"]
