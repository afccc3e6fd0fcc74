import numpy as np
import pytest
from tools import judge_rules as rules

pytestmark = pytest.mark.skipif(not rules.WORDNET.is_dir(), reason="needs WordNet (Debian's wordnet-base)")

SENTENCES = [
    "Marie Curie was born in Warsaw in 1867.",
    "Albert Einstein was born in Berlin.",
    "Isaac Newton was born in London.",
    "Ada Lovelace was born in Vienna.",
    "Niels Bohr was born in Madrid.",
]


def random() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.mark.parametrize(
    ("claim", "negative"),
    [
        ("Marie Curie was born in Warsaw.", "Marie Curie was not born in Warsaw."),
        ("The Cretaceous ended abruptly.", "The Cretaceous did not end abruptly."),
        ("Telemundo is a television network.", "Telemundo is not a television network."),
        ("Topman has six outlets in Dublin.", None),
        ("Topman has an outlet in Dublin.", "Topman does not have an outlet in Dublin."),
        ("Jane Smith taught science at a school.", "Jane Smith did not teach science at a school."),
        ("Lost has been seen by millions.", "Lost has not been seen by millions."),
        ("Marie Curie was not born in Warsaw.", None),  # negative already
        ("Some films are long.", None),  # "some films are not long" is no contradiction
        ("There is a capital called Mogadishu.", None),
        ("Sean Penn is only a stage actor.", None),
    ],
)
def test_negated(claim: str, negative: str | None) -> None:
    assert rules.negated(claim) == negative


@pytest.mark.parametrize("claim", ["Marie Curie was born in Warsaw.", "Telemundo is a television network."])
def test_affirmed_undoes_negated(claim: str) -> None:
    assert rules.affirmed(str(rules.negated(claim))) == claim


def test_affirmed_refuses_what_no_rule_knows() -> None:
    assert rules.affirmed("Marie Curie was born in Warsaw.") is None
    assert rules.affirmed("The dress did not inspire hashtags.") is None  # needs another form of the verb


def test_negation_exchanges_supports_and_contradicts() -> None:
    assert [rules.opposite(label) for label in (rules.SUPPORTS, rules.CONTRADICTS, rules.NEITHER)] == [1, 0, 2]


def test_a_number_changes_to_one_of_the_same_form() -> None:
    for number, form in [("1867", range(1842, 1893)), ("May", rules._MONTHS), ("three", rules._WORDS)]:
        value = str(rules.other_number(number, f"in {number}", random()))
        assert value != number
        assert (int(value) if number.isdigit() else value) in form
    assert len(str(rules.other_number("1,200", "1,200 copies", random()))) == len("1,200")


def test_a_swap_changes_whole_words_and_the_article() -> None:
    swap = rules.Swap("British", "American", rules.CONTRADICTS)
    assert swap("He is a British actor of British-born parents.") == "He is an American actor of American-born parents."
    assert rules.Swap("one", "two", rules.CONTRADICTS)("one stone") == "two stone"


def test_swaps_need_the_value_in_claim_and_premise() -> None:
    book = rules.NameBook(SENTENCES)
    found = {swap.old: swap.label for swap in rules.swaps(SENTENCES[0], SENTENCES[0], book, random())}
    assert found == {"1867": rules.CONTRADICTS, "Marie Curie": rules.NEITHER, "Warsaw": rules.CONTRADICTS}
    assert not rules.swaps(SENTENCES[0], "She was a physicist.", book, random())


def test_a_name_contradicts_only_where_one_thing_can_stand() -> None:
    films = ["Lost Sky", "Deep Sea", "Red Dawn", "High Noon"]
    texts = [f"Jane Smith starred in {film}." for film in films]
    book = rules.NameBook([*texts, *SENTENCES])
    labels = {swap.old: swap.label for swap in rules.swaps(texts[0], texts[0], book, random())}
    assert labels["Lost Sky"] == rules.NEITHER  # an actor stars in many films


def test_antonyms() -> None:
    assert rules.antonym_swap("Paris is a large city.") == rules.Swap("large", "small", rules.CONTRADICTS)
    assert rules.antonym_swap("Paris is a large city.", "Paris is a city.") is None
    assert rules.antonym_swap("Marie Curie was born in Warsaw.") is None  # nobody writes "unborn" there


def test_without_detail() -> None:
    text = "Soul Food is a film directed by George Tillman and released by Fox Pictures."
    assert rules.without_detail(text) == "Soul Food is a film directed by George Tillman."
    assert rules.without_detail("Soul Food is a film.") is None
