"""The report: one file whose data are those of the runs, and which no text in them can break out of."""

import base64
import hashlib
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.report.examples import HOSTILE, source
from tests.training.tiny import run_tiny, tiny_sets

from miv import MivError
from miv.evaluation import Predictions
from miv.operating_point import OperatingPoint
from miv.report import ReportModel, ReportSource, open_runs, write_report
from miv.report.choosing import SHOWN_MEMBERS, choose_exemplars, error_confidence, shown_members, telling_exemplar
from miv.report.gallery import gallery


class Page(HTMLParser):
    """What a browser would see: the elements, and what the scripts hold."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.content: dict[str, list[str]] = {"script": [], "style": []}
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag
        if tag in self.content:
            self.content[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside in self.content:
            self.content[self._inside][-1] += data


def written(given: ReportSource, folder: Path, **options: Any) -> Page:
    write_report(given, folder / "report.html", **options)
    return Page((folder / "report.html").read_text(encoding="utf-8"))


@pytest.mark.parametrize("kind", ["image", "text", "features"])
def test_hostile_texts_stay_texts(kind: str, tmp_path: Path) -> None:
    hostile, harmless = (written(source(kind, words), tmp_path) for words in (HOSTILE, "harmless"))
    assert [tag for tag, _ in hostile.tags] == [tag for tag, _ in harmless.tags]
    assert not any(name.startswith("on") for _, attributes in hostile.tags for name in attributes)
    data = json.loads(hostile.content["script"][0])
    assert data["classes"][0].endswith(HOSTILE)
    assert any(HOSTILE in group for group in data["groups"])


def test_nothing_but_its_own_style_and_script_may_run_and_nothing_is_fetched(tmp_path: Path) -> None:
    page = written(source(), tmp_path)
    policy = next(a["content"] for tag, a in page.tags if tag == "meta" and "http-equiv" in a) or ""
    assert policy.startswith("default-src 'none'; img-src data:;")
    assert "unsafe" not in policy
    for kind, text in (("style", page.content["style"][0]), ("script", page.content["script"][1])):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    addresses = [a[name] or "" for _, a in page.tags for name in ("src", "href", "data", "action") if name in a]
    assert all(address.startswith("#") for address in addresses)
    assert all("style" not in attributes for _, attributes in page.tags)  # the policy would refuse it


def test_every_part_can_be_reached_and_has_a_name(tmp_path: Path) -> None:
    page = written(source(), tmp_path)
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = {a["href"] or "" for tag, a in page.tags if tag == "a"}
    assert links == {"#results", "#exemplars", "#reasons", "#curves", "#calibration", "#training", "#runs"}
    assert {link[1:] for link in links} <= set(ids)
    assert next(a for tag, a in page.tags if tag == "html")["lang"] == "en"
    assert all(a.get("aria-label") for tag, a in page.tags if tag == "svg")
    assert [tag for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)][:2] == ["h1", "h2"]


def test_the_gallery_holds_what_the_models_said() -> None:
    data = gallery(source(), 10)
    shown = {number: place for place, number in enumerate(data["exemplar"])}
    first, second = data["models"]
    assert sorted(shown) == [0, 1, 2, 3]
    assert data["telling"] == shown[0]
    here = shown[0]
    rows = slice(data["ptr"][here], data["ptr"][here + 1])
    assert [data["number"][row] for row in data["bag"][rows]] == [1, 2]
    assert data["number"][data["query"][here]] == 0
    assert (data["witness"][rows], first["attention"][rows], first["found"][rows]) == ([1, 0], [900, 100], [1, 0])
    assert (first["verdict"][here], second["verdict"][here]) == (1, 0)
    assert first["probability"][here] == 881  # the sigmoid of 2, in thousandths
    assert (first["i_auroc"][here], first["i_ap"][shown[1]]) == (1000, None)
    assert second["attention"] is None
    assert data["number"][0] == data["number"][data["query"][0]]  # the first exemplar is on the first sheet


def test_the_sheet_shows_each_instance_once_as_it_is() -> None:
    given = source()
    data = gallery(given, 10)
    pictures = data["pictures"]
    assert (pictures["width"], pictures["height"], len(pictures["sheets"])) == (5, 4, 1)
    png = base64.b64decode(pictures["sheets"][0].removeprefix("data:image/png;base64,"))
    pixels = np.asarray(Image.open(io.BytesIO(png)))
    for place, instance in enumerate(data["number"]):
        np.testing.assert_array_equal(pixels[:4, 5 * place : 5 * place + 5], given.exemplars.pool.values[instance])


def test_most_confident_errors_come_first() -> None:
    given = source()
    # Wrong: exemplar 1 by the second model (0.98, so 0.96 of the way), 2 by the first (0.05), 3 by the first (0.73),
    # 0 by the second (0.27). The sigmoids of 4, -3, 1 and -1.
    assert error_confidence(given).round(2).tolist() == [0.46, 0.96, 0.91, 0.46]
    assert choose_exemplars(given, 3).tolist() == [1, 2, 0]
    one = source(models=1)
    assert error_confidence(one)[0] < 0  # its only model is right
    assert choose_exemplars(one, 4).tolist() == [2, 3, 1, 0]  # of the right ones, -1.0 is nearer to a mistake than 2.0


def test_of_a_long_bag_witnesses_and_the_highest_attention_are_shown() -> None:
    size = 3 * SHOWN_MEMBERS
    given = source("features")
    witness = np.zeros(size, bool)
    witness[-1] = True
    from miv.exemplars import ExemplarSet

    bag = ExemplarSet.from_lists(given.exemplars.pool, [0], [[1] * size], [1], [witness])
    attention = np.linspace(2, 0, size) / size
    model = ReportModel("one", Predictions.of(bag, [1.0], attention), OperatingPoint(), {}, {}, None)
    long = ReportSource("data", "test", bag, [model])
    assert shown_members(long, 0).tolist() == [*range(SHOWN_MEMBERS - 1), size - 1]
    assert gallery(long, 5)["size"] == [size]


def test_the_telling_exemplar_is_one_where_models_disagree() -> None:
    assert telling_exemplar(source()) == 0


@pytest.mark.parametrize("witnesses", [True, False])
@pytest.mark.parametrize("models", [1, 2])
def test_whatever_is_not_known_is_left_out(witnesses: bool, models: int, tmp_path: Path) -> None:
    page = written(source("text", witnesses=witnesses, models=models), tmp_path, exemplars=2)
    data = json.loads(page.content["script"][0])
    assert len(data["exemplar"]) == 2
    assert (data["witness"] is None) == (not witnesses)


def test_runs_are_reported_from_their_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from miv.exemplars import save_splits

    monkeypatch.chdir(tmp_path)
    for name, pooling in (("one", "cap_dba_l2"), ("two", "gabmil")):
        run_tiny("features", tmp_path / name, pooling=pooling, max_epochs=2)
    save_splits(tiny_sets("features"), tmp_path / "sets", builder="tiny", options={}, seed=0)
    runs = [tmp_path / "one", tmp_path / "two"]
    found = open_runs(runs, data=tmp_path / "sets")
    assert [model.name for model in found.models] == ["cap_dba_l2", "gabmil"]
    page = written(found, tmp_path)
    assert len(json.loads(page.content["script"][0])["exemplar"]) == 400
    with pytest.raises(MivError, match="--data DIR"):
        open_runs(runs)
    save_splits(tiny_sets("features", 30), tmp_path / "others", builder="tiny", options={}, seed=0)
    with pytest.raises(MivError, match="is not what"):
        open_runs(runs, data=tmp_path / "others")
    with pytest.raises(MivError, match="split with answers"):
        open_runs(runs, split="train", data=tmp_path / "sets")
    with pytest.raises(MivError, match="not a run"):
        open_runs([tmp_path / "sets"])


def test_what_cannot_be_written_is_refused_and_what_was_there_stays(tmp_path: Path) -> None:
    audit = tmp_path / "audit.json"
    audit.write_text('{"models": {"one": {}}}')
    (tmp_path / "report.html").write_text("older")
    with pytest.raises(MivError, match="is not an audit"):
        write_report(source(), tmp_path / "report.html", audit=audit)
    with pytest.raises(MivError, match=r"ends in \.html"):
        write_report(source(), tmp_path / "report.pdf")
    with pytest.raises(MivError, match="Expected 1 to 20,000"):
        write_report(source(), tmp_path / "report.html", exemplars=0)
    assert (tmp_path / "report.html").read_text() == "older"
