"""What a judge is asked about a sentence: its parts, if it states several facts; and short answers as statements."""

import re

_AUXILIARY = "is|are|was|were|has|have|had|can|could|will|would|did|does|do|may|must|might|should"
_PAST = (
    "ate|beat|became|began|bought|broke|brought|built|came|caught|chose|cut|drew|drove|fell|felt|fled|flew|fought|found|"
    "gave|got|grew|held|hit|kept|knew|laid|led|left|lost|made|meant|met|paid|put|ran|rose|said|sang|sat|saw|sent|set|shot|"
    "sold|spent|spoke|stood|struck|swam|taught|thought|threw|told|took|understood|went|won|wore|wrote"
)
_VERB = rf"(?:{_AUXILIARY}|{_PAST}|[a-z]{{2,}}ed)\b"
_BE = ("is", "are", "was", "were")
_FIRST_VERB = re.compile(rf" (?P<verb>{_VERB})")
_BORDER = re.compile(r"(?:;|,? and(?: also| later| then)?|,? but(?: also)?|, while|, whereas) ")
_STARTS_WITH_VERB = re.compile(rf"{_VERB}|[a-z]{{3,}}s (?:the|an?|its|his|her|their|[A-Z]\w*)\b")
_PASSIVE = re.compile(r"[a-z]{2,}(?:ed|en|t) by\b")
_SAME_PERSON = re.compile(r"s?he (?=\w)", flags=re.IGNORECASE)
_OWN_SUBJECT = re.compile(
    rf"(?:[A-Z]|(?:the|a|an|its|his|her|their|this|these|no|all|some|most)\b)(?:[^\s,;]* ){{1,6}}{_VERB}"
)
_LONGEST_SUBJECT = 10  # words
_MOST_PARTS = 4


def parts_of(text: str) -> list[str]:
    """The facts of a sentence, each as a sentence of its own; the sentence itself if it cannot be divided.

    >>> parts_of("Marie Curie was born in Warsaw and died in France.")
    ['Marie Curie was born in Warsaw.', 'Marie Curie died in France.']
    >>> parts_of("Bees make honey, but the wasp was a hunter, and it had no hive.")
    ['Bees make honey, but the wasp was a hunter, and it had no hive.']
    >>> parts_of("Marie and Pierre Curie discovered polonium and radium.")
    ['Marie and Pierre Curie discovered polonium and radium.']
    >>> parts_of("The film was written by Ann Lee and directed by Bo Hall; it was a success.")
    ['The film was written by Ann Lee.', 'The film was directed by Bo Hall; it was a success.']
    """
    first = _FIRST_VERB.search(text)
    if first is None or len(text[: first.start()].split()) > _LONGEST_SUBJECT:
        return [text]
    subject, verb = text[: first.start()], first["verb"]
    parts, begin, start = [], "", 0
    for border in _BORDER.finditer(text, first.end()):
        rest = text[border.end() :]
        same_person = _SAME_PERSON.match(rest)
        if verb in _BE and _PASSIVE.match(rest):
            beginning = f"{subject} {verb} "
        elif same_person or _STARTS_WITH_VERB.match(rest):
            beginning = f"{subject} "
        elif _OWN_SUBJECT.match(rest):
            beginning = ""
        else:
            continue
        parts.append(begin + text[start : border.start()])
        begin, start = beginning, border.end() + (same_person.end() if same_person else 0)
    parts.append(begin + text[start:])
    if not 1 < len(parts) <= _MOST_PARTS or min(len(part.split()) for part in parts) <= 2:
        return [text]
    return [f"{part[:1].upper()}{part[1:].rstrip(' .;,')}." for part in parts]


_QUESTION = re.compile(
    rf"(?P<ask>who|which(?: \w+)?|what(?: \w+)??|where|when|in (?:which|what) \w+) (?P<verb>{_VERB}|\w+s) (?P<rest>.+)",
    flags=re.IGNORECASE,
)
_MOVED = re.compile(r"(?P<subject>.+) (?P<verb>\w+)")


def as_statement(question: str, answer: str) -> str:
    """A short answer as the sentence that it stands for.

    >>> as_statement("Who wrote Hamlet?", "Shakespeare.")
    'Shakespeare wrote Hamlet.'
    >>> as_statement("Where was Marie Curie born?", "Warsaw")
    'Marie Curie was born in Warsaw.'
    >>> as_statement("When did the war end?", "In 1945.")
    'The war did end in 1945.'
    >>> as_statement("How many eggs does it lay?", "Three")
    'How many eggs does it lay? Three.'
    """
    question, answer = question.strip().rstrip("?").strip(), answer.strip().rstrip(".")
    match = _QUESTION.fullmatch(question)
    if match is None:
        return f"{question}? {answer}."
    verb, rest = match["verb"], match["rest"]
    if match["ask"].lower().startswith(("who", "which", "what")):
        if verb.lower() in ("did", "does", "do"):
            return f"{question}? {answer}."
        return _sentence(f"{answer} {verb} {rest}")
    place = answer if answer.lower().startswith(("in ", "on ", "at ", "from ", "during ")) else f"in {answer}"
    place = f"{place[:1].lower()}{place[1:]}"
    moved = _MOVED.fullmatch(rest)
    if moved is None:
        return _sentence(f"{rest} {verb} {place}")
    return _sentence(f"{moved['subject']} {verb} {moved['verb']} {place}")


_MOST_OF_REPLY = 4  # words of a piece that is read with its question


def is_reply(text: str) -> bool:
    """Whether a few words without a verb, such as "Free of charge.", say something only after a question."""
    words = f" {text}".replace("hundred", "")
    return ":" not in text and len(text.split()) <= _MOST_OF_REPLY and not _FIRST_VERB.search(words)


_NUMBER_ONLY = re.compile(r"(?:(?:in|on|at|since|by|around|about) )?[\W\d_]*\d[\W\d_]*", flags=re.IGNORECASE)


_TIME = re.compile(
    r"\d|\b(?:in|on|at|after|before|during|since|until|ago|last|next|century|yesterday|today|tomorrow|never|"
    r"spring|summer|autumn|winter|(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|april|may|june|july|"
    r"august|september|october|november|december)\b",
    flags=re.IGNORECASE,
)


def doubt_of(question: str, answer: str) -> str:
    """Why an answer does not fit its question: a number is nobody, although a source may join the two.

    >>> doubt_of("Who wrote it?", "In 1978."), doubt_of("Who wrote it?", "Ann, in 1978."), doubt_of("When?", "1978")
    ('the question asks who, and the answer is a number', '', '')
    >>> doubt_of("When was it opened?", "Free of charge.")
    'the question asks when, and the answer names no time'
    """
    if question.strip().lower().startswith("when ") and is_reply(answer) and not _TIME.search(answer):
        return "the question asks when, and the answer names no time"
    asks_who = question.strip().lower().startswith(("who ", "whom ", "whose "))
    return "the question asks who, and the answer is a number" * bool(asks_who and _NUMBER_ONLY.fullmatch(answer))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
