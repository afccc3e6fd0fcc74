"""The report: one file whose data are those of the runs, and which no text in them can break out of."""

import base64
import hashlib
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from miv.data import ExemplarSet, InstancePool
from miv.evaluation import Predictions, ReportModel, ReportSource, write_report
from miv.evaluation.report import calibration, results
from miv.evaluation.report_data import (
    SHOWN_MEMBERS,
    error_confidence,
    gallery,
)
from miv.verifier.decisions import OperatingPoint
from tests.evaluation.report_examples import HOSTILE, source


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
    assert all(address.startswith(("#", "data:image/svg+xml;base64,")) for address in addresses)
    assert all("style" not in attributes for _, attributes in page.tags)  # the policy would refuse it


def test_every_part_can_be_reached_and_has_a_name(tmp_path: Path) -> None:
    page = written(source(), tmp_path)
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = {a["href"] or "" for tag, a in page.tags if tag == "a"}
    assert links == {"#results", "#exemplars", "#curves", "#calibration", "#recipes"}
    assert {link[1:] for link in links} <= set(ids)
    assert next(a for tag, a in page.tags if tag == "html")["lang"] == "en"
    assert all(a.get("alt") for tag, a in page.tags if tag == "img")
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
    assert gallery(given, 3)["exemplar"] == [1, 2, 0]
    one = source(models=1)
    assert error_confidence(one)[0] < 0  # its only model is right
    assert gallery(one, 4)["exemplar"] == [2, 3, 1, 0]  # of the right ones, -1.0 is nearer to a mistake than 2.0


def test_a_page_that_cannot_show_all_witnesses_still_knows_them_and_where_each_model_looked() -> None:
    """Forty witnesses of fifty, and two models that look most at two others, which stand last."""
    given = source("features")
    witness = np.arange(50) < 40
    bag = ExemplarSet.from_lists(given.exemplars.pool, [0], [[1] * 50], [1], [witness])
    models = []
    for top in (48, 49):
        attention = np.full(50, 0.9 / 49)
        attention[top] = 0.1
        models.append(ReportModel(str(top), Predictions.of(bag, [1.0], attention), OperatingPoint()))
    data = gallery(ReportSource("data", "test", bag, models), 5)
    assert data["place"] == [*range(SHOWN_MEMBERS - 2), 48, 49]
    assert (data["witnesses"], sum(data["witness"])) == ([40], SHOWN_MEMBERS - 2)
    assert [model["looked_right"] for model in data["models"]] == [[0], [0]]


@pytest.mark.parametrize(("logits", "threshold"), [([2.0, -1.0, -3.0, 1.0], 0.8), ([0.0, -1.0, -3.0, -1.0], 0.5)])
def test_one_page_has_one_decision_rule(logits: list[float], threshold: float) -> None:
    """Only the first of the labels 1, 0, 1, 0 gets a yes: one false reject, so three of four are right."""
    exemplars = source().exemplars
    answers = Predictions.of(exemplars, logits)
    model = ReportModel("one", answers, OperatingPoint(threshold=threshold))
    page = results(ReportSource("data", "test", exemplars, [model]))
    cells = [re.sub("<.*?>", "", cell) for cell in re.findall("<td>(.*?)</td>", page)]
    assert cells[1:] == ["0.750", "0.733", "0.0% (0 of 2)", "50.0% (1 of 2)"]  # accuracy, F1 and the errors


TWO_THRESHOLDS = OperatingPoint(threshold=0.8, lower_threshold=0.2, goal="two rates")


@pytest.mark.parametrize(
    ("change", "shares", "unsure"),
    [
        ({"point": TWO_THRESHOLDS}, ["0.0% (0 of 2)", "50.0% (1 of 2)", "50.0% (2 of 4)"], [0, 1, 0, 1]),
        # The last, a false accept, is out of distribution.
        ({"withheld": np.arange(4) == 3}, ["0.0% (0 of 2)", "50.0% (1 of 2)", "25.0% (1 of 4)"], [0, 0, 0, 1]),
    ],
)
def test_unsure_is_neither_right_nor_wrong(
    change: dict[str, Any], shares: list[str], unsure: list[int], tmp_path: Path
) -> None:
    """Probabilities 0.88, 0.27, 0.05, 0.73 of the labels 1, 0, 1, 0."""
    given = source(models=1)
    given = replace(given, models=[replace(given.models[0], **change)])
    shown = results(given)
    cells = [re.sub("<.*?>", "", cell) for cell in re.findall("<td>(.*?)</td>", shown)]
    assert [cell for cell in cells if " of " in cell] == shares
    data = json.loads(written(given, tmp_path).content["script"][0])
    model = data["models"][0]
    assert [model["unsure"][data["exemplar"].index(e)] for e in range(4)] == unsure
    assert data["exemplar"][0] == 2  # the only error
    withheld = "withheld" in change
    assert ("unsure on 1 out-of-distribution exemplar." in shown) == withheld
    assert model["unlike"] == (model["unsure"] if withheld else None)
    assert ("0.2 and 0.8" in calibration(given)) == (not withheld)


def test_a_page_says_whether_promised_rates_hold() -> None:
    """At 0.7, the negatives with probabilities 0.27 and 0.73 have one false accept."""
    given = source(models=1)
    goal = "false-accept rate <= 0.1, false-reject rate <= 0.9"
    promised = replace(given.models[0], point=OperatingPoint(threshold=0.7, goal=goal))
    page = calibration(replace(given, models=[promised]))
    flagged = re.findall('<span class="wrong">(.*?)</span>', page)
    assert len(flagged) == 1
    assert flagged[0].startswith("goal far &lt;= 0.1 missed: 0.500 [")
    assert "goal frr &lt;= 0.9 met: 0.500" in page
    assert "2 classes" in flagged[0]
    assert "missed" not in calibration(given)


@pytest.mark.parametrize("witnesses", [True, False])
@pytest.mark.parametrize("models", [1, 2])
def test_whatever_is_not_known_is_left_out(witnesses: bool, models: int, tmp_path: Path) -> None:
    page = written(source("text", witnesses=witnesses, models=models), tmp_path, exemplars=2)
    data = json.loads(page.content["script"][0])
    assert len(data["exemplar"]) == 2
    assert (data["witness"] is None) == (not witnesses)


def test_the_gallery_has_the_references() -> None:
    names = np.array([f"photos/{number}.png" for number in range(8)], dtype=object)
    pool = InstancePool("features", np.eye(8, dtype=np.float32), names=names)
    exemplars = ExemplarSet.from_lists(
        pool, [0, 1], [[3, 4, 5], [6, 7]], [1, 0], references=[[1, 2], []], query_ids=["anna", "bo"]
    )
    model = ReportModel("one", Predictions.of(exemplars, [1.0, -1.0]), OperatingPoint())
    of_references = ReportSource("data", "test", exemplars, [model])
    found = gallery(of_references, 10)
    order = found["exemplar"].index(0), found["exemplar"].index(1)
    rows = found["reference"][found["reference_ptr"][order[0]] : found["reference_ptr"][order[0] + 1]]
    assert [found["number"][row] for row in rows] == [0, 1, 2]
    assert [found["names"][row] for row in rows] == ["photos/0.png", "photos/1.png", "photos/2.png"]
    assert found["number"][found["query"][order[0]]] == 0
    bag = found["bag"][found["ptr"][order[0]] : found["ptr"][order[0] + 1]]
    assert [found["number"][row] for row in bag] == [3, 4, 5]
    assert found["query_id"][order[1]] == "bo"
    single = replace(of_references, exemplars=of_references.exemplars.with_first_reference())
    assert gallery(single, 10)["reference"] is None
