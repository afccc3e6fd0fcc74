"""A small grammar of invented encyclopaedia pages: people, films, bands and towns, with facts about each.

A fact is one relation of a page to a value. ``{name}`` is the page's title, ``{short}`` its name
later on, ``{value}`` the fact; ``{person}``, ``{place}``, ``{year}`` and so on stand for any other value of
that kind, so that sentences about one fact hold words that claims about another could be about.
"""

import re
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Relation:
    """How a fact is claimed and how a page states it.

    Args:
        value: the kind of its value.
        claims: sentences that claim it.
        statements: sentences of a page that state it; the wording of the first is close to the claims.
    """

    value: str
    claims: tuple[str, ...]
    statements: tuple[str, ...]


@dataclass(frozen=True)
class PageKind:
    """The parts of pages of one kind.

    Args:
        shorts: names of the subject after the first sentence; ``{last}`` is the last word of the title.
        relations: the facts of a page.
        fillers: sentences that state none of these facts.
    """

    shorts: tuple[str, ...]
    relations: tuple[Relation, ...]
    fillers: tuple[str, ...]


PAGES: dict[str, PageKind] = {
    "person": PageKind(
        shorts=("{last}", "{last}", "She", "He"),
        relations=(
            Relation(
                "place",
                (
                    "{name} was born in {value}.",
                    "{name} is a native of {value}.",
                    "{name} comes from {value}.",
                ),
                (
                    "{name} was born in {value} in {year}, the {ordinal} child of a {trade}.",
                    "A {trade}'s child from {value}, {short} left for {place} at the age of {number}.",
                    "{short} spent the early years in {value} before the family settled in {place}.",
                ),
            ),
            Relation(
                "trade",
                (
                    "{name} worked as a {value}.",
                    "{name} was a {value}.",
                    "{name} earned a living as a {value}.",
                ),
                (
                    "{name} (born {year}) is a retired {value} from {place}.",
                    "Trained as a {trade}, {short} became known as a {value} after {year}.",
                    "For {number} years {short} made a living as a {value}, mostly in {place}.",
                ),
            ),
            Relation(
                "work",
                ("{name} wrote {value}.", "{name} is the author of {value}.", "{value} is by {name}."),
                (
                    "{short} wrote {value} in {year}, and {work} {number} years later.",
                    "The best known book is {value}, which was translated by {person}.",
                    "Critics in {place} received {value} coldly, although {person} praised it.",
                ),
            ),
            Relation(
                "person",
                (
                    "{name} was married to {value}.",
                    "{name} was the spouse of {value}.",
                    "{name} wed {value}.",
                ),
                (
                    "{short} was married to {value} from {year} until {year}.",
                    "In {place} {short} met the {trade} {value}, and the wedding followed in {year}.",
                    "With {value}, a friend of {person} since school, there were {number} children.",
                ),
            ),
            Relation(
                "prize",
                ("{name} won the {value}.", "{name} received the {value}.", "The {value} went to {name}."),
                (
                    "{short} won the {value} in {year} for {work}.",
                    "Having lost the {prize} to {person}, {short} was given the {value} in {year}.",
                    "The jury of the {value} chose {name} over {person} in {year}.",
                ),
            ),
        ),
        fillers=(
            "{short} travelled widely and kept a house near {place}.",
            "Letters to {person} were published in {year}.",
            "A street in {place} bears the name.",
            "{short} taught for {number} years at the school of {place}, where {person} was a pupil.",
            "The estate went to {person}, a {trade}.",
            "{short} never spoke about {work} in public.",
        ),
    ),
    "film": PageKind(
        shorts=("The film", "It", "{name}", "The picture"),
        relations=(
            Relation(
                "person",
                (
                    "{name} was directed by {value}.",
                    "{value} directed {name}.",
                    "The director of {name} is {value}.",
                ),
                (
                    "{name} is a {year} {genre} directed by {value} and written by {person}.",
                    "After {person} left the production, {value} took the director's chair.",
                    "For {value}, until then a {trade}, {short} was the {ordinal} work behind the camera.",
                ),
            ),
            Relation(
                "year",
                ("{name} was released in {value}.", "{name} came out in {value}.", "{name} is from {value}."),
                (
                    "{short} was released in {value} by {company}, after a delay since {year}.",
                    "Shown first in {place} in {value}, {short} reached other countries much later.",
                    "Audiences of {value} stayed away, and only a new cut in {year} found admirers.",
                ),
            ),
            Relation(
                "genre",
                (
                    "{name} is a {value}.",
                    "{name} is best described as a {value}.",
                    "{name} belongs among the {value}s.",
                ),
                (
                    "{short} is a {value} with music by {person}.",
                    "What began as a {genre} became a {value} in the hands of {person}.",
                    "Reviewers called it the finest {value} since {work}.",
                ),
            ),
            Relation(
                "place",
                (
                    "{name} is set in {value}.",
                    "{name} takes place in {value}.",
                    "The story of {name} unfolds in {value}.",
                ),
                (
                    "{short} is set in {value}, although it was shot near {place}.",
                    "The plot follows a {trade} who returns to {value} after {number} years in {place}.",
                    "Streets of {value} were rebuilt in a hall of {company}.",
                ),
            ),
            Relation(
                "company",
                (
                    "{name} was produced by {value}.",
                    "{value} produced {name}.",
                    "{name} was made by {value}.",
                ),
                (
                    "{short} was produced by {value} together with {company}.",
                    "{value} paid for it, having bought the rights to {work} in {year}.",
                    "When {company} withdrew in {year}, {value} stepped in.",
                ),
            ),
        ),
        fillers=(
            "The music is by {person} and was recorded in {place}.",
            "{short} runs for {number} minutes longer in the version of {year}.",
            "{person} plays a {trade} who has lost {number} houses.",
            "It was compared with {work}, which {company} had made in {year}.",
            "Copies were thought lost until one turned up in {place}.",
            "It was nominated for the {prize} but lost to {work}.",
        ),
    ),
    "band": PageKind(
        shorts=("The band", "{name}", "The group"),
        relations=(
            Relation(
                "place",
                (
                    "{name} formed in {value}.",
                    "{name} is a band from {value}.",
                    "{name} started out in {value}.",
                ),
                (
                    "{name} are a {style} band from {value}, formed in {year}.",
                    "School friends in {value}, the members first played at a wedding in {place}.",
                    "A cellar in {value} served for practice until {short} moved to {place}.",
                ),
            ),
            Relation(
                "year",
                (
                    "{name} formed in {value}.",
                    "{name} was founded in {value}.",
                    "{name} has existed since {value}.",
                ),
                (
                    "{short} was founded in {value} by {person} and {person}.",
                    "The first rehearsal, in {value}, ended in a quarrel over a {trade}'s drum.",
                    "{person}, who had been there since {value}, left in {year}.",
                ),
            ),
            Relation(
                "style",
                ("{name} plays {value}.", "{name} is a {value} band.", "The music of {name} is {value}."),
                (
                    "{short} plays {value}, with more {style} since {person} joined.",
                    "Early songs were {style}; since {year} the sound has been {value}.",
                    "A critic from {place} called it {value} for people who dislike {style}.",
                ),
            ),
            Relation(
                "person",
                (
                    "{value} sings in {name}.",
                    "The singer of {name} is {value}.",
                    "{name} is fronted by {value}.",
                ),
                (
                    "{value} has been the singer since {year}, when {person} turned to the drums.",
                    "On stage {value} stands in front, while {person}, a trained {trade}, plays the organ.",
                    "The voice of {value} was first heard on {work}.",
                ),
            ),
            Relation(
                "work",
                ("{name} released {value}.", "{value} is an album by {name}.", "{name} recorded {value}."),
                (
                    "{short} released {value} in {year} and {work} in {year}.",
                    "Recorded in {number} days near {place}, {value} sold better than anything before.",
                    "With {value} came a tour through {place}, and the {prize}.",
                ),
            ),
        ),
        fillers=(
            "{short} toured with {person} in {year}.",
            "A concert in {place} was stopped after {number} songs.",
            "{person} produced two of the records for {company}.",
            "{short} has supported the hospital of {place} since {year}.",
            "Their van, bought from {person}, is in a museum.",
            "The name was taken from {work}.",
        ),
    ),
    "town": PageKind(
        shorts=("The town", "It", "{name}"),
        relations=(
            Relation(
                "river",
                (
                    "{name} lies on the {value}.",
                    "{name} is on the {value} river.",
                    "The {value} flows through {name}.",
                ),
                (
                    "{name} is a town on the {value}, {number} miles from {place}.",
                    "Where the {value} meets the {river}, traders built {short} in {year}.",
                    "Floods of the {value} have reached the market {number} times.",
                ),
            ),
            Relation(
                "year",
                (
                    "{name} was founded in {value}.",
                    "{name} dates from {value}.",
                    "{name} was established in {value}.",
                ),
                (
                    "{short} was founded in {value} by settlers from {place}.",
                    "A charter of {value} names it for the first time; walls followed in {year}.",
                    "The {ordinal} house went up in {value}, as {person} wrote later.",
                ),
            ),
            Relation(
                "person",
                (
                    "The mayor of {name} is {value}.",
                    "{name} is governed by {value}.",
                    "{value} is mayor of {name}.",
                ),
                (
                    "{value} has been mayor since {year}, following {person}.",
                    "In {year} the council chose {value}, a former {trade}, to lead it.",
                    "The town hall, designed by {person}, is where {value} holds office.",
                ),
            ),
            Relation(
                "goods",
                (
                    "{name} is known for its {value}.",
                    "{name} produces {value}.",
                    "People in {name} make {value}.",
                ),
                (
                    "{short} is known for {value}, sold as far away as {place}.",
                    "Once rich from {goods}, {short} has lived on {value} since {year}.",
                    "Every second family makes {value}, and the rest work for {company}.",
                ),
            ),
            Relation(
                "place",
                (
                    "{name} is twinned with {value}.",
                    "The twin town of {name} is {value}.",
                    "{value} is a twin of {name}.",
                ),
                (
                    "{short} has been twinned with {value} since {year}.",
                    "Pupils go to {value} each spring, and those of {place} come in autumn.",
                    "A bridge is named after {value}, with which the council signed a treaty in {year}.",
                ),
            ),
        ),
        fillers=(
            "{person}, a {trade}, was born here in {year}.",
            "The railway to {place} was closed in {year}.",
            "{short} has {number} churches and a theatre by {person}.",
            "Parts of {work} were filmed in the old quarter.",
            "A market for {goods} from {place} is held on the {ordinal} Sunday of the month.",
            "{company} opened a works near the station in {year}.",
        ),
    ),
}

_WORDS = {
    kind: words.split()
    for kind, words in {
        "trade": "novelist painter physicist carpenter lawyer nurse cellist botanist teacher sculptor "
        "chemist printer surgeon dancer pilot weaver",
        "genre": "comedy drama thriller western documentary musical fantasy romance satire mystery",
        "style": "folk jazz metal punk soul ska blues techno swing funk",
        "goods": "cheese lace glass clocks linen cider pottery knives paper honey",
        "ordinal": "first second third fourth fifth sixth",
        "number": "two three four five six seven nine ten twelve thirty",
        "start": "Al Bran Cor Dar El Fen Gal Hol Is Jor Kal Lor Mar Nor Os Per Ros Sel Tor Ul Ven Wil",
        "vowel": "a e i o u en an er il om ar",
        "end of a place": "mere stad ford wick holm burg haven dale port cross",
        "end of a family": "son sen ski ley man dorf berg ton well lund",
        "end of a given name": "na ra lis tin dan vin mon ric la bel",
        "end of a river": "n r th ve",
        "adjective": "Silent Glass Broken Distant Paper Winter Golden Hollow Burning Last Crooked Salted",
        "noun": "Harbour Orchard Mirror Lantern Comet River Garden Staircase Letter Kingdom Engine Sparrow",
        "kind of prize": "Prize Medal Award",
        "kind of company": "Pictures Works Brothers Company",
    }.items()
}
_RECIPES = {
    "person": "[start][vowel][end of a given name] [start][vowel][end of a family]",
    "place": "[start][vowel][end of a place]",
    "town": "[start][vowel][end of a place]",
    "river": "[start][vowel][end of a river]",
    "prize": "[start][vowel][end of a family] [kind of prize]",
    "company": "[start][vowel][end of a family] [kind of company]",
    "work": "The [adjective] [noun] of [start][vowel][end of a place]",
    "film": "The [adjective] [noun] of [start][vowel][end of a place]",
    "band": "The [adjective] [noun] of [start][vowel][end of a place]",
}


def invent(kind: str, rng: np.random.Generator) -> str:
    """Invent a value of a kind: a person, a place, a year."""
    if kind == "year":
        return str(rng.integers(1930, 2016))

    def pick(slot: re.Match[str]) -> str:
        words = _WORDS[slot[1]]
        return words[int(rng.integers(len(words)))]

    return re.sub(r"\[([^]]+)\]", pick, _RECIPES.get(kind, f"[{kind}]"))
