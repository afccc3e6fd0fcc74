"""The letter, colour and dashes that identify a model on the page."""

from html import escape

NONE = '<span class="none">–</span>'  # a missing figure
STYLES = 10  # .m0 to .m9 in report.css; letters distinguish more models


def letter(number: int) -> str:
    """A to Z, then A2 to Z2, and so on.

    >>> letter(0), letter(25), letter(26)
    ('A', 'Z', 'A2')
    """
    return chr(65 + number % 26) + (str(number // 26 + 1) if number >= 26 else "")


def style(number: int) -> str:
    """The CSS class with the colour and, for lines, the dashes."""
    return f"m{number % STYLES}"


def badge(number: int, name: str = "") -> str:
    """The letter on its colour, and the model's name if given."""
    made = f'<span class="badge {style(number)}" aria-hidden="true">{letter(number)}</span>'
    return f"{made} {escape(name)}" if name else made
