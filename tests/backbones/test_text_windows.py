"""Windows of whole words."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from miv import Verifier
from miv.backbones.hf_text import text_windows
from tests.training.test_fine_tuning import encoder


@pytest.mark.parametrize("count", [7, 8, 9, 20, 101])
@pytest.mark.parametrize("most", [1, 2, 5, 6])
def test_windows_hold_every_word_and_overlap(count: int, most: int) -> None:
    words = [f"w{number}" for number in range(count)]
    text, spans, start = " ".join(words), [], 0
    for word in words:
        spans.append((start, start + len(word)))
        start += len(word) + 1
    windows = [window.split() for window in text_windows(text, spans, most)]
    assert all(len(window) <= most for window in windows)
    assert set().union(*windows) == set(words)
    assert windows[-1][-1] == words[-1]
    for before, after in itertools.pairwise(windows):
        assert before[len(before) - most // 2 :] == after[: most // 2]


def test_a_word_with_too_many_tokens_is_cut() -> None:
    text = "go abcdefg on"
    spans = [(0, 2), *((place, place + 1) for place in range(3, 10)), (11, 13)]
    windows = text_windows(text, spans, 3)
    assert windows[0] == "go"
    assert "".join(windows).count("g on") == 1
    assert all(any(part in window for window in windows) for part in ("abc", "def", "on"))


def test_a_backbone_gives_the_windows_that_it_reads(tmp_path: Path) -> None:
    backbone = Verifier("baseline", encoder(tmp_path), backbone_options={"max_tokens": 4}).backbone
    texts = np.array(["red green", "red green blue brown thing", "\ud800 green blue brown thing"], dtype=object)
    windows = backbone.windows(texts)
    assert windows[:2] == [["red green"], ["red green blue brown", "blue brown thing"]]
    assert backbone.count_cut(np.array([one for part in windows for one in part], dtype=object)) == 0
