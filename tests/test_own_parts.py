"""Parts of one's own: imported by the user's word alone, found as entry points, and held to the contract."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import miv
from miv import MIVError, Verifier, registry
from miv.errors import MIVWarning
from miv.poolings import POOLINGS
from miv.testing import check_pooling
from tests.cli.running import run_command
from tests.poolings.naive import nearest

SOURCE = '''
import miv

@miv.register_pooling("{name}")
class MeanPooling(miv.Pooling):
    """The mean of the bag."""

    has_attention = False

    def forward(self, query, bags):
        return miv.PoolingOutput(query, bags.mean(bags.values), attention=None)
'''


@pytest.fixture(autouse=True)
def _as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("MIV_IMPORT", "")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(POOLINGS, "_entries", dict(POOLINGS._entries))
    monkeypatch.chdir(tmp_path)
    registry._plugins.cache_clear()
    yield
    registry._plugins.cache_clear()
    for name in ("own_parts", "own_package"):
        sys.modules.pop(name, None)


def forget(name: str) -> None:
    """As in a new process."""
    del POOLINGS._entries[name], sys.modules["own_parts"]


def install(folder: Path, source: str) -> None:
    """A package with an entry point, as pip leaves it."""
    (folder / "own_package.py").write_text(source)
    (folder / "own_package-1.0.dist-info").mkdir()
    (folder / "own_package-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: own-package\nVersion: 1.0\n"
    )
    (folder / "own_package-1.0.dist-info" / "entry_points.txt").write_text("[miv.poolings]\nplugged = own_package\n")
    sys.path.insert(0, str(folder))


@pytest.mark.parametrize("word", ["own_parts", "own_parts.py", "--import=own_parts"])
def test_import_works_with_every_command_and_wherever_it_stands(word: str) -> None:
    Path("own_parts.py").write_text(SOURCE.format(name="own_mean"))
    words = [word] if word.startswith("--") else ["--import", word]
    assert "own_mean" in run_command("poolings", *words)
    forget("own_mean")
    assert "own_mean" in miv.list_poolings()  # MIV_IMPORT is set, which worker processes inherit


def test_a_verifier_says_which_module_it_needs_and_imports_none(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("own_parts.py").write_text(SOURCE.format(name="own_mean") + "open('imported', 'w')\n")
    monkeypatch.setenv("MIV_IMPORT", "own_parts")
    Verifier("own_mean", channels=2).save_pretrained("verifier")
    forget("own_mean")
    Path("imported").unlink()
    monkeypatch.setenv("MIV_IMPORT", "")
    ask = ("verify", "verifier", "--query", "[1, 0]", "--bag", "[1, 0]")
    with pytest.raises(MIVError, match=r"in own_parts, which is not imported.*--import"):
        run_command(*ask)
    assert not Path("imported").exists()
    monkeypatch.setenv("MIV_IMPORT_RECORDED", "1")
    assert "probability" in run_command(*ask)
    forget("own_mean")
    monkeypatch.setenv("MIV_IMPORT_RECORDED", "")
    assert "probability" in run_command(*ask, "--import", "own_parts")


def test_entry_points_of_installed_packages_are_found(tmp_path: Path) -> None:
    install(tmp_path, SOURCE.format(name="plugged"))
    assert miv.create_pooling("plugged", channels=4).channels == 4
    assert "plugged" in miv.list_poolings()


@pytest.mark.parametrize(("source", "message"), [("1 / 0", "ZeroDivisionError"), ("pass", "registers no pooling")])
def test_a_broken_package_hides_no_other_part(source: str, message: str, tmp_path: Path) -> None:
    install(tmp_path, source)
    with pytest.warns(MIVWarning, match=message):
        assert "cap_vema" in miv.list_poolings()
    with pytest.raises(MIVError, match=message):
        miv.create_pooling("plugged", channels=4)


def test_a_file_may_have_the_name_of_another_module() -> None:
    Path("random.py").write_text(SOURCE.format(name="own_random"))
    assert "own_random" in run_command("poolings", "--import", "./random.py")
    assert sys.modules.pop(str(Path("random.py").absolute())) is not sys.modules["random"]


@pytest.mark.parametrize("name", ["no_such_module", "no_such_file.py", "broken.py"])
def test_a_module_that_cannot_be_imported_is_an_error(name: str) -> None:
    Path("broken.py").write_text("1 / 0")
    with pytest.raises(MIVError, match="Cannot import"):
        run_command("poolings", "--import", name)


def test_the_contract_accepts_a_right_pooling_and_its_naive_computation(tmp_path: Path) -> None:
    install(tmp_path, SOURCE.format(name="plugged"))
    check_pooling("plugged", naive=lambda weights, query, bag: (query, bag.mean(axis=0), None))
    with pytest.raises(AssertionError, match="differs from its naive computation"):
        check_pooling("plugged", naive=lambda weights, query, bag: (query, bag[0], None))


@pytest.mark.parametrize("make", [np.array, list])
def test_naive_attention_may_be_an_array_or_a_list(make: Callable[[Any], Any]) -> None:
    def naive(weights: dict[str, Any], query: Any, bag: Any) -> tuple[Any, Any, Any]:
        first, second, attention = nearest(weights, {}, query, bag)
        return first, second, make(attention)

    check_pooling("nearest", naive=naive)


def first_target(query: torch.Tensor, bags: miv.Bags) -> miv.PoolingOutput:
    return miv.PoolingOutput(query, bags.values[bags.ptr[:-1]], None)


def mean_of_batch(query: torch.Tensor, bags: miv.Bags) -> miv.PoolingOutput:
    return miv.PoolingOutput(query, bags.values.mean(dim=0).expand_as(query), None)


def detached(query: torch.Tensor, bags: miv.Bags) -> miv.PoolingOutput:
    return miv.PoolingOutput(query, bags.mean(bags.values).detach(), None)


def half_attention(query: torch.Tensor, bags: miv.Bags) -> miv.PoolingOutput:
    return miv.PoolingOutput(query, bags.mean(bags.values), 0.5 * bags.softmax(bags.values[:, :1]))


@pytest.mark.parametrize(
    ("forward", "message"),
    [
        (first_target, "another order of instances"),
        (mean_of_batch, "alone than in a batch"),
        (detached, "no gradient|differs from finite"),
        (half_attention, "does not sum to 1"),
    ],
)
def test_the_contract_says_what_is_wrong(forward: object, message: str) -> None:
    wrong = type("Wrong", (miv.Pooling,), {"forward": lambda self, query, bags: forward(query, bags)})  # type: ignore[operator]
    with pytest.raises(MIVError, match="not registered"):
        check_pooling(wrong)
    miv.register_pooling("wrong")(wrong)
    with pytest.raises(AssertionError, match=message):
        check_pooling(wrong)


def test_a_recorded_module_must_be_a_name(tmp_path: Path) -> None:
    Verifier("gabmil", channels=2).save_pretrained(tmp_path / "verifier")
    path = tmp_path / "verifier" / "config.json"
    path.write_text(path.read_text().replace("{", '{"modules": [1], ', 1))
    with pytest.raises(MIVError, match="Expected a list of names"):
        Verifier.from_pretrained(tmp_path / "verifier")
