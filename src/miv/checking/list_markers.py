"""The marks of list items, told from numbers and dashes at the start of a wrapped line."""

import re

_BULLET = re.compile(r"\s*[-*+•](?:\s+(?=\S)|\s*$)")
_ORDINAL = re.compile(r"\s*(\(?)(?:(\d{1,3})([.)])|([a-zA-Z])\))\s+")
_MOST_LEFT_OUT = 10  # numbers of a list: a larger one at the start of a line is rather the end of a sentence


class ListMarkers:
    """Finds the marks of list items, in the order of a document.

    As in CommonMark, a line inside a paragraph starts a list only with a bullet before some text, or with the first
    number or letter. In a list, later numbers follow each other, or leave out a few. Dashes (– and —) are no marks.
    """

    def __init__(self) -> None:
        self._last: dict[str, int] = {}  # place of the last item, by the look of its mark
        self._bullets = 0  # a number may go on a list of bullets

    def length(self, line: str, *, in_paragraph: bool) -> int:
        """Number of characters before the text of a list item; 0 if the line starts no item."""
        bullet = _BULLET.match(line)
        if bullet and (not in_paragraph or self._bullets or bullet.end() < len(line)):
            self._bullets += 1
            return bullet.end()
        ordinal = _ORDINAL.match(line)
        if not ordinal:
            if not in_paragraph and line.strip() and not line[0].isspace():
                self._last, self._bullets = {}, 0  # text after a list
            return 0
        opening, digits, closing, letter = ordinal.groups()
        look = opening + (closing if digits else "a" if letter.islower() else "A")
        place = int(digits) if digits else ord(letter.lower()) - ord("a") + 1
        last = self._last.get(look)
        goes_on = last is not None and last < place <= last + _MOST_LEFT_OUT and not line[0].isspace()
        is_next = place - 1 == self._bullets or place - 1 in self._last.values() or last == place + 1 or goes_on
        if in_paragraph and not is_next and place != 1:
            return 0
        self._last[look] = place
        return ordinal.end()
