"""Sections, and the conclusions, as terminal text, Markdown, or one self-contained HTML file."""

import base64
import html
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from miv.experiments.conclusions import Conclusions
from miv.experiments.experiment_report import Section
from miv.experiments.text_tables import Table

Plots = Mapping[str, Sequence[Path]]  # SVG pictures by the key of the section
Part = Section | Conclusions


def print_terminal(sections: Sequence[Part], console: Any) -> None:
    """Print with Rich."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table as RichTable

    for section in sections:
        console.rule(f"[bold]{escape(section.title)}", align="left")
        for remark in section.remarks:
            console.print(f"[yellow]! {escape(remark)}")
        for table in section.tables:
            console.print(f"\n[bold]{escape(table.title)}")
            shown = RichTable(box=box.SIMPLE)
            for place, heading in enumerate(table.headings):
                shown.add_column(escape(heading), justify="left" if place == 0 else "right")
            for row in table.rows:
                shown.add_row(*(escape(cell) for cell in row))
            console.print(shown)
            if table.note:
                console.print(f"[dim]{escape(table.note)}\n")
        for sentence in section.sentences:
            console.print(escape(sentence))
        for claim in section.claims:
            colour = {"holds": "green", "does not hold": "red"}.get(claim.judgement, "yellow")
            console.print(
                f"\n[bold]{escape(claim.name)}[/]: [bold {colour}]{claim.judgement}[/]. {escape(claim.reason)}"
            )
            for number in claim.numbers:
                console.print(f"  [dim]{escape(number)}")
        console.print()


def markdown(sections: Sequence[Part], plots: Plots, folder: Path) -> str:
    """Markdown with links to the pictures, relative to the output folder."""
    parts = []
    for section in sections:
        parts.append(f"## {section.title}")
        parts += [f"> {remark}" for remark in section.remarks]
        for table in section.tables:
            parts.append(f"### {table.title}\n\n{_markdown_table(table)}" + (f"\n\n{table.note}" if table.note else ""))
        parts += section.sentences
        if section.claims:
            parts.append("### The paper's claims")
        for claim in section.claims:
            numbers = "".join(f"\n  - {number}" for number in claim.numbers)
            parts.append(f"- **{claim.name}: {claim.judgement}.** {claim.statement} {claim.reason}{numbers}")
        for path in plots.get(section.key, []):
            parts.append(f"![{path.stem.replace('_', ' ')}]({Path(os.path.relpath(path, folder)).as_posix()})")
    return "\n\n".join(parts) + "\n"


def html_page(sections: Sequence[Part], plots: Plots) -> str:
    """One page with embedded pictures."""
    body = []
    for section in sections:
        body.append(f"<h1>{html.escape(section.title)}</h1>")
        body += [f'<p class="remark">{html.escape(remark)}</p>' for remark in section.remarks]
        for table in section.tables:
            body.append(_html_table(table))
        body += [f"<p>{html.escape(sentence)}</p>" for sentence in section.sentences]
        if section.claims:
            body.append("<h2>The paper's claims</h2>")
        for claim in section.claims:
            numbers = "".join(f"<li>{html.escape(number)}</li>" for number in claim.numbers)
            style = claim.judgement.replace(" ", "-")
            body.append(
                f'<section class="claim"><p><b>{html.escape(claim.name)}</b> '
                f'<span class="{style}">{claim.judgement}</span></p><p>{html.escape(claim.statement)} '
                f"{html.escape(claim.reason)}</p><ul>{numbers}</ul></section>"
            )
        for path in plots.get(section.key, []):
            picture = base64.b64encode(path.read_bytes()).decode()
            words = html.escape(path.stem.replace("_", " "))
            body.append(f'<img alt="{words}" src="data:image/svg+xml;base64,{picture}">')
    title = html.escape(sections[0].title if sections else "Nothing to report")
    return _PAGE.format(title=title, style=_STYLE, body="\n".join(body))


def _markdown_table(table: Table) -> str:
    lines = [table.headings, ["---", *["---:"] * (len(table.headings) - 1)], *table.rows]
    return "\n".join(f"| {' | '.join(_markdown_cell(cell) for cell in line)} |" for line in lines)


def _markdown_cell(cell: str) -> str:
    return cell.replace("|", "\\|").replace("\n", "<br>")


def _html_table(table: Table) -> str:
    head = "".join(f"<th>{html.escape(heading)}</th>" for heading in table.headings)
    lines = []
    for row in table.rows:
        cells = "".join(f"<td>{html.escape(cell).replace(chr(10), '<br>')}</td>" for cell in row)
        lines.append(f"<tr>{cells}</tr>")
    note = f"<p class='note'>{html.escape(table.note)}</p>" if table.note else ""
    return f"<h2>{html.escape(table.title)}</h2><table><tr>{head}</tr>{''.join(lines)}</table>{note}"


_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; display: block; overflow-x: auto; }
th, td { padding: .3rem .8rem; text-align: right; border-bottom: 1px solid #8884; vertical-align: top; }
th:first-child, td:first-child { text-align: left; }
.remark { border-left: 4px solid #e69f00; padding-left: .8rem; }
.note { color: #777; font-size: .9em; }
.claim { border: 1px solid #8884; border-radius: .4rem; padding: 0 1rem; margin: 1rem 0; }
.holds { color: #009e73; } .does-not-hold { color: #d55e00; } .cannot-be-told { color: #e69f00; }
img { max-width: 100%; background: white; margin: 1rem 0; }
"""
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title><style>{style}</style></head>
<body>
{body}
</body></html>
"""
