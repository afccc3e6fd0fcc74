"""The page of a checked answer: each sentence with its citations, and the sources with cited sentences highlighted."""

from html import escape
from itertools import groupby
from pathlib import Path

from miv.checking.checked_answer import OUTCOMES, CheckedAnswer, CheckedSentence, Citation, Source
from miv.io.whole_files import whole_file
from miv.report.page_frame import check_page_name, page_part, whole_page

MOST_SHOWN = 2000  # sentences of sources; if there are more, only paragraphs with a citation are shown

_WORDS = {"unsure": "unsure", "unsupported": "not supported"}


def write_check_page(checked: CheckedAnswer, out: Path | str, *, title: str = "") -> None:
    """Write a checked answer as one HTML file, atomically.

    Args:
        checked: the result of ``miv.check``.
        out: the output file.
        title: title of the page.
    """
    out = Path(out)
    check_page_name(out)
    page = render_check(checked, title or "Checked answer")
    with whole_file(out) as temporary:
        temporary.write_text(page, encoding="utf-8", errors="replace")


def render_check(checked: CheckedAnswer, title: str) -> str:
    """Return the whole page as text."""
    citations = {(one.source, one.sentence): one for one in checked.citations}
    total = sum(len(source.sentences) for source in checked.sources)
    sources = "".join(_source(source, citations, total > MOST_SHOWN) for source in checked.sources)
    counts = "".join(
        f"<li><b>{checked.count(outcome)}</b>{outcome}</li>" for outcome in OUTCOMES if checked.count(outcome)
    )
    body = (
        '<a class="skip" href="#answer">Skip to the answer</a>'
        f'<header class="top"><h1>{escape(title)}</h1><nav aria-label="Parts of the page"><ul>'
        '<li><a href="#answer">Answer</a></li><li><a href="#sources">Sources</a></li></ul></nav></header><main>'
        '<section id="answer" aria-labelledby="answer-heading">'
        '<h2 id="answer-heading">Is each sentence backed by the sources?</h2>'
        f'<ul class="counts">{counts}</ul><div class="answer-text">{_answer(checked)}</div>'
        f'<p class="note">Checked with {escape(checked.verifier)} ({escape(checked.goal)}). A cited sentence is '
        "evidence on the statement; it may confirm or contradict it, so read it.</p></section>"
        '<section id="sources" aria-labelledby="sources-heading"><h2 id="sources-heading">Sources</h2>'
        f"{sources}</section></main>"
    )
    return whole_page(f"{title}: miv check", body, page_part("report.css") + page_part("check.css"))


def _answer(checked: CheckedAnswer) -> str:
    groups = groupby(checked.sentences, key=lambda one: one.paragraph)
    return "".join(f"<p>{' '.join(map(_sentence, paragraph))}</p>" for _, paragraph in groups)


def _sentence(one: CheckedSentence) -> str:
    if one.probability is None:
        return escape(one.text)
    title = f"{one.outcome}, probability {one.probability:.2f}"
    links = "".join(
        f'<a class="cite" href="#c{number}" title="alone {alone:.2f}">[{number}]</a>'
        for number, alone in zip(one.citations, one.probabilities, strict=True)
    )
    if one.outcome in _WORDS:
        nearest = f' <span class="nearest">nearest: {links}</span>' if links else ""
        links = f' <span class="mark {one.outcome}">{_WORDS[one.outcome]}</span>{nearest}'
    return f'<span class="said {one.outcome}" title="{title}">{escape(one.text)}</span>{links}'


def _source(source: Source, citations: dict[tuple[str, int], Citation], only_cited: bool) -> str:
    paragraphs = []
    for _, group in groupby(source.sentences, key=lambda one: one.paragraph):
        pieces = [(one, citations.get((source.name, one.number))) for one in group]
        if only_cited and not any(citation for _, citation in pieces):
            continue
        words = " ".join(_piece(one.text, citation) for one, citation in pieces)
        paragraphs.append(f"<p>{words}</p>")
    shown = "".join(paragraphs) or '<p class="none">No sentence of it is cited.</p>'
    cut = '<p class="note">Only paragraphs with a citation are shown.</p>' if only_cited and paragraphs else ""
    return f'<article class="source"><h3>{escape(source.name)}</h3>{cut}{shown}</article>'


def _piece(text: str, citation: Citation | None) -> str:
    if citation is None:
        return escape(text)
    return f'<mark id="c{citation.number}"><b>[{citation.number}]</b> {escape(text)}</mark>'
