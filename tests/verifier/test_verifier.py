"""The verifier through its public interface, and what it makes of files that are not its own."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings, strategies as st
from safetensors.torch import load_file, save_file

from miv import Bags, MIVError, Verifier


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verifier")
    torch.manual_seed(0)
    Verifier("cap_vema", channels=4).save_pretrained(folder)
    return folder


def exemplar() -> tuple[torch.Tensor, Bags]:
    generator = torch.Generator().manual_seed(0)
    bags = [torch.randn(3, 4, generator=generator), torch.randn(1, 4, generator=generator)]
    return torch.randn(2, 4, generator=generator), Bags.from_list(bags)


def test_one_call_gives_everything() -> None:
    answer = Verifier("cap_dba_l1", channels=4)(*exemplar())
    assert len(answer) == 2
    torch.testing.assert_close(answer.probability, torch.sigmoid(answer.logit))
    assert answer.attention is not None
    assert answer.attention_by_head is not None
    assert answer.attention_by_head.shape == (4, 2)
    torch.testing.assert_close(answer.attention, answer.attention_by_head.mean(1))
    assert answer.query_vector.shape == answer.bag_vector.shape == (2, 4)
    assert answer.attention_of(1).tolist() == [1.0]
    with pytest.raises(MIVError, match="Expected 0 to 1"):
        answer.attention_of(2)
    with pytest.raises(MIVError, match="has no attention"):
        Verifier("msa", channels=4)(*exemplar()).attention_of(0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pooling": "cap_vena", "channels": 4}, "Did you mean 'cap_vema'"),
        ({"backbone": "compact_cn"}, "Did you mean 'compact_cnn'"),
        ({}, "needs the length of a vector"),
        ({"backbone": "compact_cnn", "channels": 4}, "Omit channels"),
        ({"backbone": "compact_cnn", "backbone_options": {"sise": "small"}}, "Did you mean 'size'"),
        ({"backbone": "compact_cnn", "backbone_options": {"size": "smal"}}, "Did you mean 'small'"),
        ({"channels": 0}, "channels is 0"),
        ({"channels": float("nan")}, "channels is nan"),
        ({"channels": 4, "start": "similiar"}, "Did you mean 'similar'"),
    ],
)
def test_wrong_arguments_suggest_right_ones(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(MIVError, match=message):
        Verifier(**arguments)


def test_a_saved_folder_holds_json_and_safetensors_only(saved: Path) -> None:
    assert sorted(path.name for path in saved.iterdir()) == ["README.md", "config.json", "model.safetensors"]
    assert json.loads((saved / "config.json").read_text())["format"] == "miv-verifier"


def test_saving_again_keeps_the_card_and_replaces_the_rest(saved: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(saved, tmp_path / "copy")
    (folder / "README.md").write_text("my own card")
    Verifier("gabmil", channels=4).save_pretrained(folder)
    assert (folder / "README.md").read_text() == "my own card"
    assert Verifier.from_pretrained(folder)(*exemplar()).attention is not None
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "config.json", "model.safetensors"]


def test_a_folder_that_names_no_start_has_that_of_the_paper(tmp_path: Path) -> None:
    """Verifiers from before there was another one."""
    torch.manual_seed(0)
    verifier = Verifier("cap_dba_l2", channels=4, start="paper").eval()
    verifier.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config.pop("start") == "paper"
    (tmp_path / "config.json").write_text(json.dumps(config))
    loaded = Verifier.from_pretrained(tmp_path)
    assert isinstance(loaded.pooling.norm, torch.nn.LayerNorm)
    assert torch.equal(loaded(*exemplar()).logit, verifier(*exemplar()).logit)


def change_config(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))


def change_weights(folder: Path, name: str, value: torch.Tensor | None) -> None:
    weights = load_file(folder / "model.safetensors")
    if value is None:
        del weights[name]
    else:
        weights[name] = value
    save_file(weights, folder / "model.safetensors")


DAMAGES: dict[str, Any] = {
    "is missing": lambda f: (f / "config.json").unlink(),
    "never from pickle": lambda f: (f / "model.safetensors").rename(f / "pytorch_model.bin"),
    "is not JSON: Expecting value": lambda f: (f / "config.json").write_text('{"format": '),
    "another kind of model": lambda f: (f / "config.json").write_text('{"architectures": ["BertModel"]}'),
    "Expected 1. Update miv": lambda f: change_config(f, format_version=2),
    "Did you mean 'cap_vema'": lambda f: change_config(f, pooling="cap_vena"),
    "does not describe a verifier": lambda f: change_config(f, surprise=1),
    "as config.json says": lambda f: change_config(f, channels=8),
    "channels is '4'. Expected a whole number": lambda f: change_config(f, channels="4"),
    "is not a complete safetensors file": lambda f: (f / "model.safetensors").write_bytes(
        (f / "model.safetensors").read_bytes()[:-10]
    ),
    "missing ['similarity.weight']": lambda f: change_weights(f, "pooling.similarity.weight", None),
    "one dtype among": lambda f: change_weights(f, "pooling.similarity.weight", torch.zeros(4, dtype=torch.float64)),
    "torch.float8_e4m3fn": lambda f: change_weights(
        f, "pooling.similarity.weight", torch.zeros(4).to(torch.float8_e4m3fn)
    ),
    "projection is 'false'. Expected True or False": lambda f: change_config(
        f, pooling_options={"projection": "false"}
    ),
    "is not JSON: Exceeds": lambda f: (f / "config.json").write_text('{"channels": ' + "9" * 5000 + "}"),
    "'backbone_options' is 'small'": lambda f: change_config(f, backbone_options="small"),
    "['extra']": lambda f: change_weights(f, "extra", torch.zeros(1)),
    "NaN or infinite": lambda f: change_weights(f, "pooling.similarity.weight", torch.full((4,), torch.nan)),
    "Expected torch.float32 (4,)": lambda f: change_weights(f, "pooling.similarity.weight", torch.zeros(5)),
}


@pytest.mark.parametrize("message", DAMAGES)
def test_a_damaged_or_foreign_folder_is_refused(saved: Path, tmp_path: Path, message: str) -> None:
    folder = shutil.copytree(saved, tmp_path / "copy")
    DAMAGES[message](folder)
    with pytest.raises(MIVError) as caught:
        Verifier.from_pretrained(folder)
    assert message.replace("['sim", "['pooling.sim") in str(caught.value)


def test_a_huge_size_in_the_file_costs_no_memory(saved: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(saved, tmp_path / "copy")
    change_config(folder, channels=1_000_000)  # 8 TB of weights, were they believed
    with pytest.raises(MIVError, match="says"):
        Verifier.from_pretrained(folder)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(position=st.floats(0, 1), byte=st.integers(0, 255), cut=st.booleans(), name=st.sampled_from(["c", "w"]))
def test_random_damage_is_refused_or_harmless(
    saved: Path, tmp_path: Path, position: float, byte: int, cut: bool, name: str
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(saved, folder, dirs_exist_ok=True)
    path = folder / {"c": "config.json", "w": "model.safetensors"}[name]
    content = bytearray(path.read_bytes())
    place = min(int(position * len(content)), len(content) - 1)
    content[place] = byte
    path.write_bytes(content[:place] if cut else content)
    try:
        answer = Verifier.from_pretrained(folder)(*exemplar())
    except MIVError:
        return
    assert answer.logit.shape == (2,)
    if name == "w":  # the checksum finds every other weight
        assert torch.equal(answer.logit, Verifier.from_pretrained(saved)(*exemplar()).logit)


@pytest.mark.parametrize("name", ["./no-such-folder", "not a name", "", "long" * 999])
def test_a_name_that_is_nothing(name: str) -> None:
    with pytest.raises(MIVError, match="There is no folder"):
        Verifier.from_pretrained(name)


def test_a_folder_takes_no_options(saved: Path) -> None:
    with pytest.raises(MIVError, match="takes no option pooling"):
        Verifier.from_pretrained(saved, pooling="gabmil")


def test_a_file_is_not_saved_over(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(MIVError, match="is a file"):
        Verifier(channels=4).save_pretrained(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


def test_the_hub_gets_the_name_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pushed: list[str] = []
    monkeypatch.setattr(Verifier, "push_to_hub", lambda self, repo_id, **rest: pushed.append(repo_id))
    Verifier(channels=4).save_pretrained(tmp_path / "my-verifier", push_to_hub=True)
    assert pushed == ["my-verifier"]


def test_dtypes_must_agree() -> None:
    query, bags = exemplar()
    with pytest.raises(MIVError, match="Expected one dtype"):
        Verifier(channels=4)(query.double(), bags)
    with pytest.raises(MIVError, match="Convert one of them"):
        Verifier(channels=4)(query.double(), bags.with_values(bags.values.double()))


def test_the_folder_of_a_run_is_its_final_verifier(saved: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.json").write_text("{}")
    (run / "config.json").write_text('{"pooling": "cap_dba_l2"}')
    with pytest.raises(MIVError, match=r"run is an unfinished run.*--resume.*checkpoints"):
        Verifier.from_pretrained(run)
    shutil.copytree(saved, run / "verifier")
    query, bags = exemplar()
    expected = Verifier.from_pretrained(saved)(query, bags).logit
    assert torch.equal(Verifier.from_pretrained(run)(query, bags).logit, expected)


def test_a_name_beside_folders_that_exist_is_not_asked_for_on_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "cap").mkdir(parents=True)
    monkeypatch.setattr("huggingface_hub.HfApi.model_info", lambda *given, **options: pytest.fail("asked the hub"))
    with pytest.raises(MIVError, match=r"^There is no folder 'runs/nope'\..* runs holds: cap\.$"):
        Verifier.from_pretrained("runs/nope")


def test_the_hub_is_asked_once_and_in_silence(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    asked = []

    def no_network(self: object, name: str, **options: object) -> None:
        asked.append(name)
        raise ConnectionResetError

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", no_network)
    with pytest.raises(MIVError, match=r"no folder 'nobody/nothing', and the hub .* not in the local cache") as caught:
        Verifier.from_pretrained("nobody/nothing", cache_dir=tmp_path)
    assert "\n" not in str(caught.value)
    assert asked == ["nobody/nothing"]
    assert capfd.readouterr() == ("", "")


def test_whoever_may_read_the_folder_may_read_the_weights(tmp_path: Path) -> None:
    """A web server often runs as another user than the one who trained."""
    Verifier("baseline", channels=4).save_pretrained(tmp_path / "saved")
    modes = {file.name: oct(file.stat().st_mode & 0o777) for file in (tmp_path / "saved").iterdir()}
    assert modes["model.safetensors"] == modes["config.json"]
