"""The page of a checked answer: each sentence with its citations, and the sources with cited sentences highlighted."""

from html import escape
from itertools import groupby
from pathlib import Path

from miv.checking.results import MEANING, OUTCOMES, CheckedAnswer, CheckedSentence, Source
from miv.evaluation.page import check_page_name, page_part, whole_page
from miv.files.atomic import whole_file

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
    total = sum(len(source.sentences) for source in checked.sources)
    sources = "".join(_source(source, checked, total > MOST_SHOWN) for source in checked.sources)
    counts = "".join(
        f"<li><b>{checked.count(outcome)}</b>{outcome}</li>" for outcome in OUTCOMES if checked.count(outcome)
    )
    body = (
        '<a class="skip" href="#answer">Skip to the answer</a>'
        f'<header class="top"><h1>{escape(title)}</h1><nav aria-label="Parts of the page"><ul>'
        '<li><a href="#answer">Answer</a></li><li><a href="#sources">Sources</a></li></ul></nav></header><main>'
        '<section id="answer" aria-labelledby="answer-heading">'
        '<h2 id="answer-heading">Is each sentence backed by the sources?</h2>'
        f'<p class="note">{escape(MEANING, quote=False)}</p>'
        f'<ul class="counts">{counts}</ul><div class="answer-text">{_answer(checked)}</div>'
        f'<p class="note">Checked with {escape(checked.verifier)} ({escape(checked.goal)}). [1] marks a source '
        "sentence that supports something, (a) one that is only nearest to what is unsure or not supported.</p>"
        "</section>"
        '<section id="sources" aria-labelledby="sources-heading"><h2 id="sources-heading">Sources</h2>'
        f"{sources}</section></main>"
    )
    return whole_page(f"{title}: miv check", body, page_part("report.css") + page_part("check.css"))


def _answer(checked: CheckedAnswer) -> str:
    groups = groupby(checked.sentences, key=lambda one: one.paragraph)
    return "".join(_paragraph(list(paragraph), checked) for _, paragraph in groups)


def _paragraph(sentences: list[CheckedSentence], checked: CheckedAnswer) -> str:
    words, mark = " ".join(_sentence(one, checked) for one in sentences), sentences[0].item.strip()
    if mark.startswith("#"):
        return f"<p><b>{words}</b></p>"
    return f"<p>{escape(mark)} {words}</p>" if mark else f"<p>{words}</p>"


def _sentence(one: CheckedSentence, checked: CheckedAnswer) -> str:
    if one.probability is None:
        return escape(one.text)
    title = f"{one.outcome}, probability {one.probability:.2f}"
    links = "".join(
        f'<a class="cite" href="#c{number}" title="{escape(checked.citations[number - 1].place)}; alone {alone:.2f}">'
        f"{checked.mark(number)}</a>"
        for number, alone in zip(one.citations, one.probabilities, strict=True)
    )
    if one.outcome in _WORDS:
        nearest = f' <span class="nearest">nearest: {links}</span>' if links else ""
        links = f' <span class="mark {one.outcome}">{_WORDS[one.outcome]}</span>{nearest}'
    if one.remark:
        links += f' <span class="nearest">({one.remark})</span>'
    return f'<span class="said {one.outcome}" title="{title}">{escape(one.text)}</span>{links}'


def _source(source: Source, checked: CheckedAnswer, only_cited: bool) -> str:
    numbers = {one.sentence: one.number for one in checked.citations if one.source == source.name}
    paragraphs = []
    for _, group in groupby(source.sentences, key=lambda one: one.paragraph):
        pieces = [(one.text, numbers.get(one.number)) for one in group]
        if only_cited and not any(number for _, number in pieces):
            continue
        words = " ".join(escape(text) if number is None else _marked(number, checked) for text, number in pieces)
        paragraphs.append(f"<p>{words}</p>")
    shown = "".join(paragraphs) or '<p class="none">No sentence of it is cited.</p>'
    cut = '<p class="note">Only paragraphs with a citation are shown.</p>' if only_cited and paragraphs else ""
    return f'<article class="source"><h3>{escape(source.name)}</h3>{cut}{shown}</article>'


def _marked(number: int, checked: CheckedAnswer) -> str:
    citation = checked.citations[number - 1]
    words = f"<b>{checked.mark(number)}</b> {escape(citation.text)}"
    return f'<mark id="c{number}">{words}</mark> <small class="line">line {citation.line}</small>'
