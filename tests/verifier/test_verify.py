"""``Verifier.verify`` and ``verify_many``: every kind of instance, against the forward pass; how verdicts look."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from PIL import Image

from miv import Bags, MIVError, Verifier
from miv.errors import MIVWarning
from miv.verifier.decisions import ConformalRule, OperatingPoint
from miv.verifier.explain import explain_features
from miv.verifier.verdict import Verdict
from tests.verifier.test_unsure import even_verifier

FORM = {"kind": "image", "height": 8, "width": 8, "mode": "L"}


@pytest.fixture(scope="module")
def images() -> Verifier:
    torch.manual_seed(0)
    return Verifier("cap_dba_l2", "compact_cnn", instances=FORM).eval()


def vectors(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def pixels(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def test_the_verdict_is_that_of_the_forward_pass() -> None:
    verifier = Verifier("cap_vema", channels=6).eval()
    query, bag = vectors(6), vectors(4, 6, seed=1)
    verdict = verifier.verify(query, bag)
    with torch.no_grad():
        answer = verifier(torch.from_numpy(query)[None], Bags.from_list([torch.from_numpy(bag)]))
    assert verdict.probability == pytest.approx(float(answer.probability[0]), abs=1e-6)
    assert verdict.attention == pytest.approx(answer.attention_of(0).numpy(), abs=1e-6)
    assert bool(verdict) is verdict.verdict is (verdict.probability >= 0.5)
    assert verdict.threshold == 0.5


@settings(max_examples=25)
@given(st.lists(st.integers(1, 7), min_size=1, max_size=8), st.sampled_from(["cap_dba_l1", "baseline", "mi_net"]))
def test_many_are_as_one_by_one(sizes: list[int], pooling: str) -> None:
    verifier = Verifier(pooling, channels=4).eval()
    queries, bags = vectors(len(sizes), 4), [vectors(size, 4, seed=size) for size in sizes]
    together = verifier.verify_many(queries, bags)
    alone = [verifier.verify(query, bag) for query, bag in zip(queries, bags, strict=True)]
    assert len(together) == len(alone)
    with pytest.raises(IndexError):
        together[len(sizes)]
    for one, other in zip(together, alone, strict=True):
        assert one.probability == pytest.approx(other.probability, abs=1e-5)
        assert one.size == other.size
        assert one.shares == pytest.approx(other.shares, abs=2e-3)  # a share is of what may be a small fall
        assert one.witnesses_by == other.witnesses_by == ("leave_one_out" if pooling == "mi_net" else "attention")
        assert (one.attention is None) == (pooling == "mi_net")
        if one.attention is not None:
            assert one.attention == pytest.approx(other.attention, abs=1e-5)


def test_vectors_may_be_arrays_tensors_or_lists() -> None:
    verifier = Verifier("gabmil", channels=2).eval()
    query, bag = vectors(2), vectors(3, 2, seed=1)
    forms = [(query, bag), (query.tolist(), bag.tolist()), (torch.from_numpy(query), torch.from_numpy(bag))]
    forms += [(query.astype(np.float64), list(bag)), (query, [torch.from_numpy(row) for row in bag])]
    assert len({verifier.verify(*form).probability for form in forms}) == 1


def test_the_operating_point_decides() -> None:
    verifier = Verifier("cap_dba_l2", channels=4, start="paper").eval()
    query, bag = vectors(4), vectors(5, 4, seed=1)
    probability = verifier.verify(query, bag).probability
    verifier.operating_point = OperatingPoint(threshold=probability - 0.01)
    yes = verifier.verify(query, bag)
    verifier.operating_point = OperatingPoint(threshold=probability + 0.01)
    no = verifier.verify(query, bag)
    assert (yes.verdict, no.verdict) == (True, False)
    assert no.witnesses == ()  # an empty set is a possible answer
    assert yes.attention is not None
    expected = [place for place in np.argsort(-yes.attention) if yes.attention[place] * 5 >= 1.5]
    assert [witness.index for witness in yes.witnesses] == expected
    assert [witness.score for witness in yes.witnesses] == [yes.attention[place] for place in expected]


def test_a_verifier_in_training_stays_so_and_answers_as_one_that_is_not() -> None:
    verifier = Verifier("bi_lstm", channels=4).train()
    query, bag = vectors(4), vectors(5, 4, seed=1)
    in_training = verifier.verify(query, bag)
    assert verifier.training
    assert verifier.pooling.training
    assert in_training.probability == verifier.eval().verify(query, bag).probability


def test_files_pictures_and_arrays_of_the_same_image_are_the_same(images: Verifier, tmp_path: Path) -> None:
    stack = pixels(4, 8, 8)
    paths = [tmp_path / f"{number}.png" for number in range(4)]
    for path, image in zip(paths, stack, strict=True):
        Image.fromarray(image).save(path)
    pictures = [Image.open(path) for path in paths]
    colour = [Image.fromarray(image).convert("RGB") for image in stack]  # grey again, as the verifier's images are
    forms = [(stack[0], stack[1:]), (paths[0], paths[1:]), (str(paths[0]), [str(path) for path in paths[1:]])]
    forms += [(pictures[0], pictures[1:]), (colour[0], colour[1:]), (paths[0], [stack[1], pictures[2], paths[3]])]
    verdicts = [images.verify(*form) for form in forms]
    assert len({verdict.probability for verdict in verdicts}) == 1
    prepare = images.backbone.prepare
    with torch.no_grad():
        answer = images(prepare(stack[:1]), Bags.from_list([prepare(stack[1:])]))
    assert verdicts[0].probability == pytest.approx(float(answer.probability[0]), abs=1e-5)


def test_each_distinct_image_is_embedded_once(images: Verifier, monkeypatch: pytest.MonkeyPatch) -> None:
    stack = pixels(3, 8, 8)
    seen: list[int] = []
    prepare = images.backbone.prepare

    def counting(values: Any) -> Any:
        seen.append(len(values))
        return prepare(values)

    monkeypatch.setattr(images.backbone, "prepare", counting)
    images.verify_many([stack[0], stack[0].copy()], [stack[1:], [stack[2], stack[0]]])
    assert seen[-1] == 3  # the check of the pool asks for one first


def test_images_of_another_size_are_refused_unless_resized(images: Verifier, tmp_path: Path) -> None:
    right, wrong = pixels(8, 8), pixels(10, 12)
    Image.fromarray(wrong).save(tmp_path / "wrong.png")
    for given_image in (wrong, Image.fromarray(wrong), tmp_path / "wrong.png"):
        with pytest.raises(MIVError, match=r"The bag, instance 1.*10 × 12 grey.*trained on 8 × 8 grey.*resize="):
            images.verify(right, [right, given_image])
    found = [images.verify(right, [right, tmp_path / "wrong.png"], resize=how) for how in ("stretch", "crop", "pad")]
    assert len({verdict.probability for verdict in found}) == 3
    assert found[0].probability == images.verify(right, [right, wrong], resize="stretch").probability
    with pytest.raises(MIVError, match=r"'squash'.*stretch, crop or pad"):
        images.verify(right, [wrong], resize="squash")  # type: ignore[arg-type]


def test_a_verifier_that_does_not_know_its_images_takes_arrays_only(tmp_path: Path) -> None:
    verifier = Verifier("baseline", "compact_cnn").eval()
    Image.fromarray(pixels(8, 8)).save(tmp_path / "a.png")
    assert verifier.verify(pixels(8, 8), pixels(2, 8, 8)).size == 2
    with pytest.raises(MIVError, match=r"does not record the size of its images.*config\.json.*height"):
        verifier.verify(tmp_path / "a.png", [tmp_path / "a.png"])


@pytest.mark.parametrize(
    "instances",
    [{"kind": "image", "height": 0, "width": 8, "mode": "L"}, {"height": 8}, {**FORM, "mode": "P"}, [8, 8], "8x8"],
)
def test_a_form_that_is_none_is_refused(instances: Any) -> None:
    with pytest.raises(MIVError, match="Expected an image of mode L or RGB"):
        Verifier("baseline", "compact_cnn", instances=instances)


@pytest.mark.parametrize(
    ("query", "bag", "message"),
    [
        (vectors(3), vectors(2, 4), r"The query has the shape \(3,\). Expected \(4,\).*4 numbers"),
        (vectors(4), vectors(2, 3), r"The bag has the shape \(2, 3\)"),
        (vectors(4), np.zeros((0, 4), np.float32), "The bag is empty. Expected at least one instance.$"),
        (vectors(4), [[1.0, 2.0, 3.0, np.nan]], "contains NaN or infinity"),
        ([np.inf, 0, 0, 0], vectors(2, 4), "contains NaN or infinity"),
        (vectors(4), "abcd", "The bag is one feature vector .*or the path of an existing folder"),
        (vectors(4), [["a", "b", "c", "d"]], "The bag: got values that are not numbers"),
        (vectors(4), [vectors(4), vectors(3)], "^The bag: the vectors have different lengths \\(3 and 4\\)"),
        (vectors(4), (row for row in vectors(2, 4)), "The bag: got a generator. Expected a list"),
        (vectors(4), 3.0, "The bag: got a float"),
        (vectors(4), vectors(2, 4) + 1j, "The bag: .*complex"),
        (torch.ones(4) + 1j, vectors(2, 4), "The query: .*complex"),
    ],
)
def test_mistakes_with_vectors_are_named(query: Any, bag: Any, message: str) -> None:
    with pytest.raises(MIVError, match=message):
        Verifier("baseline", channels=4).verify(query, bag)


HUGE = [3e38, -3e38, 3e38]  # finite, but their distances are not


def test_an_answer_that_is_none_is_refused_with_its_exemplar() -> None:
    verifier = Verifier("baseline", channels=3, start="paper").eval()
    with pytest.raises(MIVError, match=r"logit for exemplar 1 .*NaN or infinite.*no verdict"):
        verifier.verify_many(vectors(3, 3), [vectors(2, 3), [[1.0, 2.0, 3.0], HUGE], vectors(1, 3)])
    with pytest.raises(MIVError, match="no verdict"):
        verifier.verify(HUGE, [HUGE])
    verifier.pooling.similarity.weight.data.fill_(torch.nan)
    with pytest.raises(MIVError, match="logit for this query and bag"):
        verifier.verify(vectors(3), vectors(2, 3))


def test_of_a_cosine_only_directions_matter_however_long_or_short_the_vectors_are() -> None:
    verifier = Verifier("nearest", channels=3).eval()
    query, bag = vectors(3), vectors(4, 3, seed=1)
    expected = verifier.verify(query, bag)
    for length in (1e38, 1e-30):  # whose squares are infinite, and 0
        found = verifier.verify(query / np.abs(query).max() * length, bag * np.float32(length / 3))
        assert found.probability == pytest.approx(expected.probability, abs=1e-5)
        assert found.shares == pytest.approx(expected.shares, abs=1e-5)


def test_other_mistakes_are_named(images: Verifier, tmp_path: Path) -> None:
    image = pixels(8, 8)
    with pytest.raises(MIVError, match="2 queries and 1 bags"):
        images.verify_many([image, image], [[image]])
    with pytest.raises(MIVError, match="no exemplar"):
        images.verify_many([], [])
    with pytest.raises(MIVError, match="Got a single instance"):
        images.verify_many("a.png", [["b.png"]])
    with pytest.raises(MIVError, match=r"The bag is one image .*a\.png.*or the path of an existing folder"):
        images.verify(image, tmp_path / "a.png")
    with pytest.raises(MIVError, match=r"nope\.png: this image does not exist"):
        images.verify(image, [tmp_path / "nope.png"])
    with pytest.raises(MIVError, match=r"The query: images must be uint8.*not float64"):
        images.verify(image / 255, [image])
    (tmp_path / "text.png").write_text("not an image")
    with pytest.raises(MIVError, match=r"text\.png: not a readable image"):
        images.verify(image, [tmp_path / "text.png"])


def test_many_are_counted_in_errors() -> None:
    verifier = Verifier("baseline", channels=4)
    with pytest.raises(MIVError, match=r"Bag 1 has the shape \(2, 3\)"):
        verifier.verify_many(vectors(2, 4), [vectors(2, 4), vectors(2, 3)])
    with pytest.raises(MIVError, match=r"The list of queries has the shape \(2, 3\)"):
        verifier.verify_many(vectors(2, 3), [vectors(2, 4), vectors(2, 4)])
    spoilt = vectors(2, 4)
    spoilt[1, 0] = np.nan
    with pytest.raises(MIVError, match="Query 1: the vector contains NaN"):
        verifier.verify_many(spoilt, [vectors(2, 4), vectors(3, 4)])
    with pytest.raises(MIVError, match="Bag 1: vector 1 of 2 contains NaN"):
        verifier.verify_many(vectors(2, 4), [vectors(2, 4), spoilt])


def test_an_array_in_colour_becomes_grey_as_a_file_does(images: Verifier, tmp_path: Path) -> None:
    grey, colour = pixels(8, 8), pixels(8, 8, 3, seed=1)
    Image.fromarray(colour).save(tmp_path / "colour.png")
    assert images.verify(grey, [colour]).probability == images.verify(grey, [tmp_path / "colour.png"]).probability
    with pytest.raises(MIVError, match=r"10 × 12 grey.*resize="):
        images.verify(grey, [pixels(10, 12, 3)])


def test_a_folder_is_a_bag(images: Verifier, tmp_path: Path) -> None:
    query, stack = pixels(8, 8), pixels(3, 8, 8, seed=1)
    (tmp_path / "refs").mkdir()
    for name, image in zip("bac", stack, strict=True):
        Image.fromarray(image).save(tmp_path / "refs" / f"{name}.png")
    expected = images.verify(query, stack[[1, 0, 2]])
    for folder in (tmp_path / "refs", str(tmp_path / "refs")):
        found = images.verify(query, folder)
        assert found.probability == expected.probability
        assert found.shares == pytest.approx(expected.shares)
    assert images.verify_many([query, query], [tmp_path / "refs", stack[:2]]).ptr.tolist() == [0, 3, 5]
    (tmp_path / "none").mkdir()
    with pytest.raises(MIVError, match="none contains no instances"):
        images.verify(query, tmp_path / "none")
    np.save(tmp_path / "none" / "two.npy", np.eye(2))
    assert Verifier("baseline", channels=2).verify([1.0, 0.0], tmp_path / "none").size == 2


def test_even_shares_and_candidates_are_called_so() -> None:
    query, bag = vectors(4), vectors(6, 4, seed=1)
    rule = ConformalRule(0.2, 0.1)
    rejected = even_verifier(threshold=0.9, witness_rule=rule).verify(query, bag)
    apart = "Attention does not separate the instances: each has about 1 / 6."
    lines = str(rejected).splitlines()
    assert lines[1] == f"Bag of 6, 6 candidates by attention, in case the no is wrong. {apart}"
    assert [line.split()[-1] for line in lines[3:]] == ["candidate"] * 6
    page = rejected._repr_html_()
    assert apart in page
    assert page.count("<b>candidate</b>") == 6
    assert "witness" not in page
    accepting = even_verifier(threshold=0.1, witness_rule=rule)
    accepted = accepting.verify(query, bag)
    assert str(accepted).splitlines()[1] == f"Bag of 6, 6 witnesses by attention. {apart}"
    assert "apart" not in str(accepting.verify(query, bag[:1]))  # there is nothing to tell apart
    assert "apart" not in str(Verifier("baseline", channels=4).verify(query, bag))  # one has all of it


def test_how_a_verdict_reads() -> None:
    torch.manual_seed(0)
    verdict = Verifier("cap_dba_l2", channels=4).eval().verify(vectors(4), vectors(30, 4, seed=1))
    lines = str(verdict).splitlines()
    assert (
        lines[0]
        == f"{'Match' if verdict else 'No match'} found (probability {verdict.probability:.3f}, threshold 0.500)."
    )
    assert lines[1].startswith("Bag of 30, ")
    assert lines[1].endswith("by attention:")
    assert len(lines) == 25  # with twenty rows of the bag
    assert lines[-2:] == ["  and 10 with smaller shares", *verdict.warnings]
    without = Verifier("mi_net", channels=4).eval().verify(vectors(4), vectors(3, 4, seed=1))
    assert str(without).splitlines()[1].endswith("by leave-one-out:")
    assert "by leave-one-out." in without._repr_html_()
    assert Verdict.document(without)["attention"] is None
    assert sum(Verdict.document(without)["shares"]) == pytest.approx(1)
    verdict_only = Verifier("mi_net", channels=4).eval().verify(vectors(4), vectors(3, 4, seed=1), witnesses="none")
    assert (verdict_only.witnesses, verdict_only.witnesses_by, verdict_only.shares) == ((), "none", None)
    assert str(verdict_only).splitlines()[1:-1] == ["Bag of 3, witnesses not requested."]
    assert "witnesses not requested." in verdict_only._repr_html_()


def test_witnesses_by_what_was_asked_for() -> None:
    torch.manual_seed(0)
    verifier = Verifier("msa", channels=4, start="paper").eval()
    query, bag = vectors(4), vectors(5, 4, seed=1)
    verdict = verifier.verify(query, bag, witnesses="leave_one_out")
    scores = explain_features(
        verifier, torch.from_numpy(query)[None], Bags.from_list([torch.from_numpy(bag)]), "leave_one_out"
    )
    positive = scores.double().clamp(min=0)
    assert verdict.shares == pytest.approx((positive / positive.sum()).numpy(), abs=1e-5)
    assert verdict.witnesses_by == verdict.document()["witnesses_by"] == "leave_one_out"


def test_equal_instances_share_evenly_though_roundings_differ() -> None:
    verifier = Verifier("bi_lstm", channels=4).eval()
    verifier.pooling.similarity.weight.data.zero_()  # every bag has the same logit
    assert verifier.verify(vectors(4), vectors(4, 4)).shares == pytest.approx([0.25] * 4)


def test_a_rule_is_used_for_the_shares_that_it_was_calibrated_on_and_not_for_others() -> None:
    verifier = Verifier("cap_dba_l2", channels=4).eval()
    query, bag = vectors(4), vectors(5, 4, seed=1)
    verifier.operating_point = OperatingPoint(witness_rule=ConformalRule(0.4, 0.1, by="leave_one_out"))
    assert verifier.verify(query, bag).witnesses_by == "leave_one_out"
    with pytest.warns(MIVWarning, match=r"calibrated on leave_one_out and is not applied to attention.*--witnesses"):
        other = verifier.verify(query, bag, witnesses="attention")
    uncalibrated = Verifier("cap_dba_l2", channels=4).eval()
    uncalibrated.load_state_dict(verifier.state_dict())
    assert other.document() == uncalibrated.verify(query, bag, witnesses="attention").document()
    assert verifier.verify(query, bag, witnesses="none").witnesses == ()


def test_a_notebook_shows_the_images_and_frames_the_witnesses(images: Verifier) -> None:
    images.operating_point = OperatingPoint(threshold=0.0)
    verdict = images.verify(pixels(8, 8), pixels(6, 8, 8, seed=1))
    images.operating_point = OperatingPoint.default()
    page = verdict._repr_html_()
    assert page.count("data:image/png;base64,") == 7
    assert page.count("border:3px solid #d97706") == len(verdict.witnesses)
    assert page.count(", witness, attention") == 2 * len(verdict.witnesses)  # alt and title
    assert "http" not in page


def test_a_notebook_and_a_terminal_name_the_files(images: Verifier, tmp_path: Path) -> None:
    for name in ("anna", "hugo"):
        (tmp_path / name).mkdir()
        Image.fromarray(pixels(8, 8, seed=len(name))).save(tmp_path / name / "<1>.png")
    files = [tmp_path / "anna" / "<1>.png", tmp_path / "hugo" / "<1>.png"]
    verdict = images.verify(files[0], [files[0], pixels(8, 8), files[1]])
    page = verdict._repr_html_()
    assert "<small>anna/&lt;1&gt;.png</small>" in page
    assert "<small>hugo/&lt;1&gt;.png</small>" in page
    assert "<small>query &lt;1&gt;.png</small>" in page
    assert page.count("<small>") == 6  # the query, three shares, two names
    assert "<1>" not in page
    assert [line.split()[-1] for line in str(verdict).splitlines() if ".png" in line] == [str(file) for file in files]
    together = images.verify_many([files[0], pixels(8, 8)], [[pixels(8, 8)], [files[1], files[0]]])
    assert "hugo/" in together[1]._repr_html_()
    assert "hugo/" not in together[0]._repr_html_()
