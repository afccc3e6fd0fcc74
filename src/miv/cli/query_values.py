"""A command that takes one value per ``--query``."""

import shlex
from collections.abc import Iterator
from typing import Any

from typer.core import TyperCommand

from miv.errors import MIVError

_QUERY = "--query"


class OneValuePerQuery(TyperCommand):
    """A command that refuses further words after ``--query VALUE``, as when a shell expands ``--query *.png``.

    They would count as instances of the bag. The first words may be the other arguments, such as the model.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse words that directly follow a query, then parse."""
        # A shell completes a line, or the help is shown whatever else is given.
        if not ctx.resilient_parsing and not set(ctx.help_option_names) & set(args):
            self._refuse_second_value(args)
        return super().parse_args(ctx, args)

    def _refuse_second_value(self, args: list[str]) -> None:
        missing = sum(param.param_type_name == "argument" and param.nargs == 1 for param in self.params)
        words = list(self._words(args))
        for place, (option, value) in enumerate(words):
            missing -= option is None
            if option is not None or missing >= 0:
                continue
            last = next((one for one in reversed(words[:place]) if one[0] is not None), None)
            if last is None or last[0] != _QUERY:
                continue
            query, extra = _shown(last[1]), _shown(value)
            into_bag = " Put the instances of the bag after --bag." * any(param.name == "bag" for param in self.params)
            raise MIVError(
                f"Got {extra} after {_QUERY} {query}. Expected one value per {_QUERY}. For several references, repeat "
                f"it: {_QUERY} {query} {_QUERY} {extra}.{into_bag}"
            )

    def _words(self, args: list[str]) -> Iterator[tuple[str | None, str]]:
        """The options with their values, and the other words with the option ``None``, in the given order."""
        takes_value = {
            name
            for param in self.params
            if param.param_type_name == "option" and not getattr(param, "is_flag", False)
            for name in param.opts
        }
        rest = iter(args)
        for word in rest:
            name, equals, value = word.partition("=")
            if word == "--":
                yield from ((None, one) for one in rest)
            elif not word.startswith("-") or word == "-":
                yield None, word
            elif name in takes_value:
                yield name, value if equals else next(rest, "")
            else:
                yield name, ""


def _shown(word: str) -> str:
    return shlex.quote(word if len(word) <= 60 else f"{word[:59]}…")
