import json
import zipfile
from pathlib import Path

import pytest

from miv.errors import MIVError
from miv.runtime import SilentProgress
from miv.tasks.fever import read_pages

SNOW = {"id": "Snow", "text": "Snow is white .", "lines": "0\tSnow is white .\tWhite\twhite\n1\t\n2\tIt melts ."}
ACCENTED = {"id": "Beyonce\u0301", "text": "", "lines": "0\tBeyoncé -LRB- born 1981 -RRB- sings ."}
EMPTY = {"id": "", "text": "", "lines": ""}


def write(path: Path, *pages: object, escape: bool = False) -> Path:
    path.write_text("".join(json.dumps(page, ensure_ascii=escape) + "\n" for page in pages), encoding="utf-8")
    return path


def read(dump: Path, *titles: str) -> dict[str, dict[int, str]]:
    return read_pages(dump, titles, SilentProgress())


def test_only_the_pages_asked_for(tmp_path: Path) -> None:
    write(tmp_path / "wiki-001.jsonl", EMPTY, SNOW)
    write(tmp_path / "wiki-002.jsonl", {**SNOW, "id": "Rain"})
    assert read(tmp_path, "Snow", "Hail") == {"Snow": {0: "Snow is white .", 2: "It melts ."}}


@pytest.mark.parametrize("escape", [True, False])
@pytest.mark.parametrize("title", ["Beyonc\u00e9", "Beyonce\u0301"])
def test_titles_match_in_any_unicode_form(tmp_path: Path, title: str, escape: bool) -> None:
    write(tmp_path / "wiki-001.jsonl", ACCENTED, escape=escape)
    assert read(tmp_path, title) == {title: {0: "Beyoncé ( born 1981 ) sings ."}}


def test_titles_with_quotes_and_backslashes(tmp_path: Path) -> None:
    titles = ['Say_"Yes"', "Back\\slash", 'End_with_"', "a\\"]
    write(tmp_path / "wiki-001.jsonl", *[{**SNOW, "id": title} for title in titles])
    assert sorted(read(tmp_path, *titles)) == sorted(titles)


def test_a_zip_archive_is_read_as_a_stream(tmp_path: Path) -> None:
    path = write(tmp_path / "wiki-001.jsonl", SNOW)
    with zipfile.ZipFile(tmp_path / "wiki-pages.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(path, "wiki-pages/wiki-001.jsonl")
        archive.writestr("__MACOSX/wiki-pages/._wiki-001.jsonl", b"\0\1\2")
    assert list(read(tmp_path / "wiki-pages.zip", "Snow")) == ["Snow"]


def test_the_first_of_two_pages_is_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path / "wiki-001.jsonl", SNOW, {**SNOW, "lines": "0\tAnother ."})
    assert read(tmp_path, "Snow")["Snow"][0] == "Snow is white ."
    assert "wiki-001.jsonl, line 2: a second page Snow; the first is kept" in caplog.text


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"id": "Hail", "lines": "0\\tHail', "line 3: broken JSON at character"),
        (b"[1, 2]", "line 3: expected one JSON object"),
        (b'{"lines": ""}', "line 3: not a page"),
        (b'{"id": "Snow", "lines": 5}', "line 3: not a page"),
        (b'{"id": "Snow", "lines": "\xff"}', "line 3: not UTF-8 text"),
        (b'{"id": "Snow", "lines": "0\\t\\ud800"}', "line 3: .*surrogate"),
        (b'{"id": "\\"}', "line 3: broken JSON"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, line: bytes, message: str) -> None:
    path = write(tmp_path / "wiki-001.jsonl", EMPTY, {**SNOW, "id": "Rain"})
    path.write_bytes(path.read_bytes() + line + b"\n")
    with pytest.raises(MIVError, match=f"wiki-001.jsonl, {message}"):
        read(tmp_path, "Snow")


def test_a_damaged_archive(tmp_path: Path) -> None:
    path = write(tmp_path / "wiki-001.jsonl", *[{**SNOW, "id": f"Snow {number}"} for number in range(2000)])
    dump = tmp_path / "wiki-pages.zip"
    with zipfile.ZipFile(dump, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(path, "wiki-001.jsonl")
    content = bytearray(dump.read_bytes())
    content[200:230] = bytes(30)
    dump.write_bytes(content)
    with pytest.raises(MIVError, match=r"wiki-pages\.zip"):
        read(dump, "Snow 1")
    dump.write_bytes(content[:1000])
    with pytest.raises(MIVError, match="not a readable zip"):
        read(dump, "Snow 1")


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(MIVError, match=r"holds no wiki-\*.jsonl"):
        read(tmp_path, "Snow")
    with pytest.raises(MIVError, match="There is no wiki dump"):
        read(tmp_path / "none", "Snow")
