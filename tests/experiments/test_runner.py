"""Running cells: what is done stays done, what crashes ends alone, what another computes is waited for."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from filelock import FileLock

from miv.errors import MivError
from miv.experiments import runner, worker
from miv.experiments.grids import EXPERIMENTS, Cell, Setup
from miv.experiments.jobs import Job, Places
from miv.experiments.results import RESULT, find_result, write_result
from miv.experiments.runner import run_jobs
from tests.experiments.examples import answers_of, files_of, finish, job_of

ANSWERS = answers_of([1.0, -1.0, 1.0, -1.0], [1, 0, 0, 1], [True, False, True, False])


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path / "results", tmp_path / "work", tmp_path / "cache")


def pretend(job: Job, places: Places, folder: Path, monkeypatch: pytest.MonkeyPatch, **others: str) -> Path:
    """Let the processes copy finished cells, or run other Python code; each start is noted in the file returned."""
    for one in folder.glob("ready/*"):
        shutil.rmtree(one)
    started = folder / "started"
    started.touch()

    def command(job: Job, places: Places, threads: int) -> list[str]:
        ready, wanted = folder / "ready" / job.cell.setup.name, job.result_folder(places.results)
        if not ready.exists():
            ready.mkdir(parents=True)
            for name, content in files_of(job, ANSWERS, folder).items():
                (ready / name).write_bytes(content)
        code = others.get(job.cell.setup.name, f"import shutil; shutil.copytree({str(ready)!r}, {str(wanted)!r})")
        note = f"open({str(started)!r}, 'a').write({job.cell.setup.name + ' '!r})"
        return [sys.executable, "-c", f"{note}\n{code}"]

    monkeypatch.setattr(runner, "command", command)
    monkeypatch.setattr(runner, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(runner, "_BUSY_SECONDS", 0.05)
    return started


def test_a_crash_ends_no_other_cell_and_done_ones_are_not_run_again(
    places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [job_of(model) for model in ("baseline", "gabmil", "cap_vema")]
    code = "import sys; print('Error: no memory', file=sys.stderr); sys.exit(1)"
    started = pretend(jobs[0], places, tmp_path, monkeypatch, gabmil=code)
    said: list[str] = []
    failures = run_jobs(jobs, places, 2, said.append)
    assert [(one.job, one.reason) for one in failures] == [(jobs[1], "Error: no memory")]
    assert "no memory" in failures[0].log.read_text()
    assert sorted(started.read_text().split()) == ["baseline", "cap_vema", "gabmil"]
    assert said[0] == "0 of 3 cells are done; computing 3."
    assert any(line.startswith("Done    qmnist cap_vema round 0: auroc 0.500  i_auroc 0.500  in ") for line in said)
    pretend(jobs[0], places, tmp_path, monkeypatch)
    assert run_jobs(jobs, places, 2, said.append) == []
    assert started.read_text().split()[3:] == ["gabmil"]
    assert run_jobs(jobs, places, 2, said.append) == []
    assert len(started.read_text().split()) == 4


def test_a_process_that_is_killed_is_a_failure(places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = job_of()
    pretend(job, places, tmp_path, monkeypatch, baseline="import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    [failure] = run_jobs([job], places, 1, print)
    assert failure.reason == "ended by signal 9"


def test_ctrl_c_tells_the_cells_to_save_and_stop(
    places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = tmp_path / "saved"
    code = (
        "import signal, sys, time\n"
        f"def stop(*_): open({str(saved)!r}, 'w').close(); sys.exit(130)\n"
        "signal.signal(signal.SIGINT, stop)\n"
        f"open({str(tmp_path / 'ready.txt')!r}, 'w').close()\n"
        "time.sleep(60)"
    )
    pretend(job_of(), places, tmp_path, monkeypatch, baseline=code)

    def stop_when_ready() -> None:
        while not (tmp_path / "ready.txt").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=stop_when_ready)
    thread.start()
    with pytest.raises(runner.StoppedByUser, match="The same command goes on"):
        run_jobs([job_of()], places, 1, print)
    thread.join()
    assert saved.exists()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_cell_that_another_command_computes_is_waited_for(
    places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_of()
    started = pretend(job, places, tmp_path, monkeypatch)
    lock = FileLock(job.lock(places.work), thread_local=False)
    job.lock(places.work).parent.mkdir(parents=True)
    lock.acquire()

    def finish_elsewhere() -> None:
        time.sleep(0.3)
        finish(job, ANSWERS, places.results)
        lock.release()

    thread = threading.Thread(target=finish_elsewhere)
    thread.start()
    said: list[str] = []
    assert run_jobs([job], places, 1, said.append) == []
    thread.join()
    assert started.read_text() == ""
    assert said[-1] == f"Done by another command: {job}."


def test_the_process_of_a_cell_leaves_one_that_is_done_or_under_way_alone(
    places: Places, capsys: pytest.CaptureFixture[str]
) -> None:
    job = job_of(tier="smoke")
    document = json.loads(worker.command(job, places, 1)[-1])
    lock = job.lock(places.work)
    lock.parent.mkdir(parents=True)
    with FileLock(lock):
        assert worker.main(document) == worker.BUSY
    finish(job, ANSWERS, places.results)
    assert worker.main(document) == worker.DONE
    assert not job.work_folder(places.work).exists()
    other = Job(Cell("qmnist", Setup("baseline", "baseline", {"heads": 7}), 0), "smoke")
    assert worker.main(json.loads(worker.command(other, places, 1)[-1])) == worker.FAILED
    assert "pooling_options was {} and is {'heads': 7}" in capsys.readouterr().err


def test_a_result_that_was_computed_otherwise_is_refused_and_stays(places: Places) -> None:
    job = job_of()
    result = finish(job, ANSWERS, places.results)
    document = json.loads((result.folder / RESULT).read_text())
    document["description"]["config"]["max_epochs"] = 7
    (result.folder / RESULT).write_text(json.dumps(document))
    before = (result.folder / RESULT).read_bytes()
    with pytest.raises(MivError, match=r"max_epochs was 7 and is \d+\. It is neither used nor replaced"):
        find_result(job, places.results)
    with pytest.raises(MivError, match="computed otherwise"):
        write_result(job, places.results, files_of(job, ANSWERS, places.results))
    with pytest.raises(MivError, match="computed otherwise"):
        run_jobs([job], places, 1, print)
    assert (result.folder / RESULT).read_bytes() == before
    (result.folder / RESULT).write_text("{}")
    with pytest.raises(MivError, match="not a result"):
        find_result(job, places.results)


def test_a_setting_that_is_new_and_at_its_default_changes_nothing(places: Places) -> None:
    """A result from before a setting came stays one, as its absence means the default."""
    job = job_of()
    result = finish(job, ANSWERS, places.results)
    description = json.loads((result.folder / RESULT).read_text())["description"]
    assert "precision" not in description["config"]
    assert find_result(job, places.results) is not None


def real_command(places: Places, *more: str) -> list[str]:
    command = [sys.executable, "-m", "miv", "reproduce", "qmnist", "key_instance", "--tier", "smoke", "--rounds", "1"]
    paths = ["--results", str(places.results), "--work", str(places.work)]
    return [*command, "--models", "cap_dba_l1", *paths, *more]


@pytest.mark.slow
def test_a_cell_killed_at_any_moment_goes_on_and_ends_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIV_CACHE_DIR", str(tmp_path / "cache"))
    quiet, killed = (Places(tmp_path / name, tmp_path / name / "work", tmp_path / "cache") for name in ("one", "two"))
    subprocess.run(real_command(quiet), check=True)
    job = Job(EXPERIMENTS["qmnist"]["key_instance"].only(["cap_dba_l1"]).cells([0])[0], "smoke")
    for number in range(6):
        # The parent and its cell, at moments from the start of imports to the last answers.
        process = subprocess.Popen(real_command(killed), start_new_session=True, stderr=subprocess.PIPE, text=True)
        time.sleep(2 + 2.5 * number)
        process.kill()
        for child in _workers(killed.work):
            os.kill(child, signal.SIGKILL)
        process.communicate()
    subprocess.run(real_command(killed), check=True)
    one, other = (find_result(job, places.results) for places in (quiet, killed))
    assert one is not None
    assert other is not None
    assert one.metrics == other.metrics
    assert not list(killed.results.rglob(".*.part"))


@pytest.mark.slow
def test_each_cell_is_a_ray_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    monkeypatch.setenv("MIV_CACHE_DIR", str(tmp_path / "cache"))
    places = Places(tmp_path / "results", tmp_path / "work", tmp_path / "cache")
    done = subprocess.run(real_command(places, "--ray", "local"), check=True, capture_output=True, text=True)
    assert "1 go to Ray" in done.stderr
    assert "synthetic twin" in done.stdout
    again = subprocess.run(real_command(places, "--ray", "local"), check=True, capture_output=True, text=True)
    assert "Ray" not in again.stderr


def _workers(work: Path) -> list[int]:
    """The processes that compute a cell in this folder, found by their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if "miv.experiments.worker" in line and str(work) in line:
            found.append(int(path.parent.name))
    return found
