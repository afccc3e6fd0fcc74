from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from miv import MIVError
from miv.evaluation import Predictions, auroc, write_curves
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
