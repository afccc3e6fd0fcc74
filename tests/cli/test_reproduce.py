"""``miv reproduce``: what it computes, what it refuses, and what it writes where; no training here."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from miv.cli.app import app
from miv.errors import MIVError
from miv.reproduction import cells
from miv.reproduction.jobs import Job
from tests.reproduction.examples import answers_of, finish, job_of

ANSWERS = answers_of([1.0, -1.0, 1.0, -1.0], [1, 0, 0, 1], [True, False, True, False])


@pytest.fixture
def computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """The jobs that the command computes, which it only pretends to do; round 0 of CAP-VEMA is there."""
    monkeypatch.chdir(tmp_path)  # no raw files here
    monkeypatch.setenv("MIV_CACHE_DIR", str(tmp_path / "cache"))
    finish(job_of("cap_vema"), ANSWERS, Path("docs/results"))
    jobs: list[Job] = []

    def run_jobs(asked: list[Job], *_: object) -> list[object]:
        jobs.extend(asked)
        return []

    monkeypatch.setattr(cells, "run_jobs", run_jobs)
    return jobs


def run(*arguments: str) -> Result:
    done = CliRunner().invoke(app, ["reproduce", *arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "The task is missing"),
        ("qmnst", "Did you mean 'qmnist'"),
        ("qmnist ablaton", "Did you mean 'ablation'"),
        ("qmnist --tier gpu", "no tier 'gpu'"),
        ("qmnist --conclusions", "Remove qmnist"),
        ("qmnist --rounds x", "rounds is 'x'"),
        ("qmnist --rounds 0", "rounds is '0'"),
        ("signature --raw nowhere", "no folder nowhere"),
    ],
)
def test_mistakes_are_named(arguments: str, message: str, computed: list[Job]) -> None:
    with pytest.raises(MIVError, match=message):
        run(*arguments.split())
    assert computed == []


def test_what_is_missing_of_three_rounds_is_computed(computed: list[Job]) -> None:
    Path("data/qmnist").mkdir(parents=True)
    run("qmnist", "per_digit")
    assert [str(job) for job in computed] == [f"qmnist cap_vema round {number}" for number in range(3)]


def test_without_raw_files_the_two_ways_are_named(computed: list[Job]) -> None:
    with pytest.raises(MIVError, match=r"^2 cells are missing, .* no folder data/qmnist .*--raw .*--report-only"):
        run("qmnist", "per_digit")
    assert computed == []
    assert "1 of 3 cells are done" in " ".join(run("qmnist", "per_digit", "--report-only").stdout.split())
    run("qmnist", "per_digit", "--raw", "data/qmnist")  # named, so it may be downloaded into
    assert len(computed) == 3


def test_a_model_that_no_experiment_has_is_named(computed: list[Job]) -> None:
    with pytest.raises(MIVError, match=r"no pooling 'cap_vena'\. Did you mean 'cap_vema'"):
        run("qmnist", "--models", "cap_vena")
    with pytest.raises(MIVError, match="Expected names from `miv poolings`"):
        run("qmnist", "--models", " ,")


def test_json_draws_the_plots(computed: list[Job]) -> None:
    draw = ["qmnist", "per_digit", "--report-only", "--json", "--plots", "pictures"]
    run(*draw)
    assert list(Path("pictures").glob("*.svg"))
    with pytest.raises(MIVError, match=r"pictures/.*-qmnist-per_digit-figures\.png already exists.*--overwrite"):
        run(*draw)
    run(*draw, "--overwrite")
