from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from miv import MIVError
from miv.evaluation import Predictions, auroc, write_curves, write_learning_curves
from tests.evaluation.examples import example_predictions


def words(path: Path) -> list[str]:
    """The texts in an SVG picture."""
    tree = ElementTree.parse(path)
    return ["".join(node.itertext()).strip() for node in tree.iter("{http://www.w3.org/2000/svg}text")]


def assert_is_a_picture(path: Path) -> None:
    with Image.open(path) as image:
        grey = np.asarray(image.convert("L"))
    assert min(grey.shape) > 400
    assert grey.std() > 5  # something was drawn


def test_curves_of_one_model(tmp_path: Path) -> None:
    predictions = example_predictions()
    paths = write_curves(predictions, tmp_path / "curves")
    assert [path.name for path in paths] == ["roc.png", "roc.svg", "precision_recall.png", "precision_recall.svg"]
    assert sorted(paths) == sorted((tmp_path / "curves").iterdir())
    for path in paths[::2]:
        assert_is_a_picture(path)
    assert f"AUROC  {auroc(predictions.label, predictions.logit):.3f}" in words(paths[1])
    assert any(text.startswith("average precision") for text in words(paths[3]))


def test_curves_of_several_models_name_them(tmp_path: Path) -> None:
    models = {"cap_vema": example_predictions(), "gabmil": example_predictions(seed=1)}
    for path in write_curves(models, tmp_path)[1::2]:
        legend = " ".join(words(path))
        assert "cap_vema" in legend
        assert "gabmil" in legend


def test_the_same_curves_are_the_same_files(tmp_path: Path) -> None:
    one, other = (write_curves(example_predictions(), tmp_path / name) for name in ("one", "other"))
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in other]


def test_curves_need_both_labels(tmp_path: Path) -> None:
    with pytest.raises(MIVError, match="labels are all the same"):
        write_curves(Predictions([1.0, 2.0], [1, 1], [0, 1, 2]), tmp_path)
    with pytest.raises(MIVError, match="of 'a' are all the same"):
        write_curves({"a": Predictions([1.0], [0], [0, 1])}, tmp_path)
    with pytest.raises(MIVError, match="at least one model"):
        write_curves({}, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_learning_curves(tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text(
        "epoch,step,stage,train_loss,validation_loss,validation/auroc,learning_rate\n"
        "0,10,frozen,0.7,0.8,,1e-4\n1,20,frozen,0.6,,nan,1e-4\n1,20,frozen,,0.7,0.6,\n2,30,all,0.5,0.6,0.7,5e-5\n"
    )
    paths = write_learning_curves(tmp_path / "metrics.csv", tmp_path / "curves")
    assert [path.name for path in paths] == ["learning_curves.png", "learning_curves.svg"]
    assert_is_a_picture(paths[0])
    found = words(paths[1])
    assert {"loss", "AUROC", "train", "validation", "stage all"} <= set(found)
    assert not any("learning rate" in text for text in found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read"),
        ("", "has the columns none"),
        ("epoch,loss\n0,1\n", "has the columns epoch, loss"),
        ("step,train_loss\n0,1\n", "Expected epoch"),
        ("epoch,train_loss\n", "no figures yet"),
        ("epoch,train_loss\n0,much\n", "line 2: train_loss is 'much'"),
    ],
)
def test_a_file_without_metrics_is_refused(text: str | None, message: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "metrics.csv").write_text(text)
    with pytest.raises(MIVError, match=message):
        write_learning_curves(tmp_path / "metrics.csv", tmp_path)
