"""``miv check``: check each sentence of an answer against sources."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from miv.cli.app import JsonOption, OverwriteOption, app, check_page, print_json, say
from miv.errors import MIVError


@app.command("check")
def check(
    answer: Annotated[str, Argument(help="Text or Markdown file to check; - reads standard input.")],
    sources: Annotated[list[Path], Argument(help="One or more text or Markdown files to check against.")],
    model: Annotated[
        str, Option(help="A judge, or a verifier that was trained to find evidence: a run, a folder, or a name.")
    ] = "miv/judge",
    question: Annotated[
        str | None,
        Option(help="What the answer replies to, so that answers of a few words are checked together with it."),
    ] = None,
    citations: Annotated[int, Option(help="Maximum number of source sentences listed per sentence.")] = 3,
    threshold: Annotated[
        float | None,
        Option(
            help="One threshold from 0 to 1 instead of those of the model: only sentences with missing details are "
            "unsure, and the stated error rates do not apply."
        ),
    ] = None,
    html: Annotated[Path | None, Option(help="Also write a page with the citations highlighted.")] = None,
    fail_unsupported: Annotated[
        bool, Option("--fail-unsupported", help="Exit with code 1 unless every checked sentence is supported.")
    ] = False,
    overwrite: OverwriteOption = False,
    json: JsonOption = False,
) -> None:
    """Check whether each sentence of an answer is backed by the sources, and by which of their sentences.

    Prints the answer with numbered citations, and marks what the sources contradict and what is not in them. The
    default, miv/judge, reads each sentence together with the source sentences nearest to it. A sentence with a number,
    date or name that no cited source contains is never supported. With --model miv/evidence it only says whether the
    sources contain evidence on a sentence, which may contradict it.

    Example: miv check answer.txt page1.txt page2.md --html check.html
    """
    from miv.checking.answer_check import check as check_answer
    from miv.checking.results import write_check_page
    from miv.checking.sources import read_standard_input
    from miv.runtime import RichProgress

    check_page(html, overwrite)
    text = read_standard_input() if answer == "-" else Path(answer)
    settings: dict[str, Any] = {"question": question, "citations": citations, "threshold": threshold}
    checked = check_answer(text, sources, verifier=model, **settings, progress=RichProgress())
    if not checked.sources:
        raise MIVError("No source has a sentence. Expected at least one text to check against.")
    if html is not None:
        write_check_page(checked, html, title="Standard input" if answer == "-" else Path(answer).name)
        say(f"Wrote {html}; open it in a browser.")
    print_json(checked.document()) if json else print(checked)
    if fail_unsupported and not checked:
        raise typer.Exit(1)
