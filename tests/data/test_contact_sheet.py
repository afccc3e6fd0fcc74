import base64
import io
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from miv import ExemplarSet, InstancePool, MIVError
from miv.data.sheet import write_contact_sheet
from tests.data.example_sets import example_set


def test_shows_pictures_with_witnesses_framed(tmp_path: Path) -> None:
    write_contact_sheet({"train": example_set("grey")}, tmp_path / "sheet.html")
    page = (tmp_path / "sheet.html").read_text("utf-8")
    assert "train: 3 of 3 exemplars" in page
    assert page.count("<section") == 3
    pictures = re.findall(r'<img class="instance (\w*)" title="([^"]*)".*?base64,([^"]*)"', page)
    assert len(pictures) == 3 + 6  # the queries and all bag members
    assert [title for mark, title, _ in pictures if mark == "witness"] == [
        "instance 1, class Zoë",
        "instance 4, class ",
        "instance 0, class Zoë",
    ]
    first = Image.open(io.BytesIO(base64.b64decode(pictures[0][2])))
    assert np.array_equal(np.asarray(first), example_set("grey").pool.values[0])


def test_the_page_needs_no_other_file_and_escapes_texts(tmp_path: Path) -> None:
    pool = InstancePool(
        "text", np.array(["<script>alert(1)</script>", "x" * 500, "a & b"], dtype=object), np.array(['"><b>'] * 3)
    )
    exemplars = ExemplarSet.from_lists(pool, [0], [[1, 2]], [1], [[False, True]], ["<i>"])
    write_contact_sheet({"set": exemplars}, tmp_path / "sheet.html")
    page = (tmp_path / "sheet.html").read_text("utf-8")
    assert "<script" not in page
    assert "<b>" not in page
    assert "<i>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "x" * 400 + "…" in page
    assert "x" * 401 not in page
    assert not re.search(r'(src|href)="(?!data:)', page)


def test_long_bags_keep_their_witnesses(tmp_path: Path) -> None:
    pool = InstancePool("text", np.array([f"sentence {number}." for number in range(100)], dtype=object))
    witness = [number == 99 for number in range(1, 100)]
    exemplars = ExemplarSet.from_lists(pool, [0], [list(range(1, 100))], [1], [witness])
    write_contact_sheet({"set": exemplars}, tmp_path / "sheet.html")
    page = (tmp_path / "sheet.html").read_text("utf-8")
    assert "sentence 99." in page
    assert "sentence 23." in page
    assert "sentence 24." not in page
    assert "and 75 more" in page


def test_refuses_what_it_cannot_write_and_leaves_the_older_sheet(tmp_path: Path) -> None:
    (tmp_path / "sheet.png").write_bytes(b"older")
    with pytest.raises(MIVError, match=r"ends in '.png'. Expected a name that ends in .html"):
        write_contact_sheet({"set": example_set("grey")}, tmp_path / "sheet.png")
    with pytest.raises(MIVError, match="exemplars is 0"):
        write_contact_sheet({"set": example_set("grey")}, tmp_path / "sheet.html", exemplars=0)
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(MIVError, match="Could not write"):
        write_contact_sheet({"set": example_set("features")}, tmp_path / "file" / "sheet.html")
    assert (tmp_path / "sheet.png").read_bytes() == b"older"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "sheet.png"]
