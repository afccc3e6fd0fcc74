"""Running cells: what is done stays done, what crashes ends alone, what another computes is waited for."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from filelock import FileLock

from miv.errors import StoppedByUser
from miv.reproduction import cells
from miv.reproduction.cells import run_jobs, source_commit
from miv.reproduction.grids import EXPERIMENTS, Cell, Setup
from miv.reproduction.jobs import Job, JobFolders
from miv.reproduction.results import find_result
from tests.reproduction.examples import answers_of, document_of, finish, job_of

ANSWERS = answers_of([1.0, -1.0, 1.0, -1.0], [1, 0, 0, 1], [True, False, True, False])


@pytest.fixture
def places(tmp_path: Path) -> JobFolders:
    return JobFolders(tmp_path / "results", tmp_path / "work", tmp_path / "cache")


def pretend(job: Job, places: JobFolders, folder: Path, monkeypatch: pytest.MonkeyPatch, **others: str) -> Path:
    """Let the processes write finished cells, or run other Python code; each start is noted in the file returned."""
    started = folder / "started"
    started.touch()

    def command(job: Job, places: JobFolders, threads: int) -> list[str]:
        ready, wanted = folder / f"{job.cell.setup.name}.jsonl", job.result_file(places.results)
        wanted.parent.mkdir(parents=True, exist_ok=True)
        line = {"cell": job.result_name, "result": document_of(job, ANSWERS, folder / "elsewhere")}
        ready.write_text(json.dumps(line) + "\n")
        code = others.get(job.cell.setup.name, f"open({str(wanted)!r}, 'a').write(open({str(ready)!r}).read())")
        note = f"open({str(started)!r}, 'a').write({job.cell.setup.name + ' '!r})"
        return [sys.executable, "-c", f"{note}\n{code}"]

    monkeypatch.setattr(cells, "command", command)
    monkeypatch.setattr(cells, "_LOOK_SECONDS", 0.01)
    return started


def test_a_crash_ends_no_other_cell_and_done_ones_are_not_run_again(
    places: JobFolders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [job_of(model) for model in ("baseline", "gabmil", "cap_vema")]
    code = "import sys; print('Error: no memory', file=sys.stderr); sys.exit(1)"
    started = pretend(jobs[0], places, tmp_path, monkeypatch, gabmil=code)
    said: list[str] = []
    failures = run_jobs(jobs, places, 2, said.append)
    assert failures == {jobs[1]: "Error: no memory"}
    assert "no memory" in jobs[1].log(places.work).read_text()
    assert sorted(started.read_text().split()) == ["baseline", "cap_vema", "gabmil"]
    assert said[0] == "0 of 3 cells are done; computing 3."
    assert any(line.startswith("Done    qmnist cap_vema round 0: auroc 0.500  i_auroc 0.500  in ") for line in said)
    pretend(jobs[0], places, tmp_path, monkeypatch)
    assert run_jobs(jobs, places, 2, said.append) == {}
    assert started.read_text().split()[3:] == ["gabmil"]
    assert run_jobs(jobs, places, 2, said.append) == {}
    assert len(started.read_text().split()) == 4


def test_a_process_that_is_killed_is_a_failure(
    places: JobFolders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_of()
    pretend(job, places, tmp_path, monkeypatch, baseline="import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert run_jobs([job], places, 1, print) == {job: "ended by signal 9"}


@pytest.mark.parametrize("code", [130, 143])
def test_a_cell_that_was_stopped_is_not_done_and_stops_the_others(
    places: JobFolders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    pretend(job_of(), places, tmp_path, monkeypatch, baseline=f"import sys; sys.exit({code})")
    with pytest.raises(StoppedByUser, match="Run the same command to resume") as stopped:
        run_jobs([job_of()], places, 1, print)
    assert stopped.value.exit_code == code
    assert find_result(job_of(), places.results) is None


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_worker_that_is_stopped_says_so_with_its_exit_code(
    places: JobFolders, monkeypatch: pytest.MonkeyPatch, number: int, code: int
) -> None:
    def stop(*_: object) -> None:
        os.kill(os.getpid(), number)
        time.sleep(10)

    monkeypatch.setattr(cells, "compute", stop)
    [document] = [json.loads(cells.command(job_of(), places, 1)[-1])]
    assert cells.main(document) == code


def test_ctrl_c_tells_the_cells_to_save_and_stop(
    places: JobFolders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready, saving, again, saved = (tmp_path / name for name in ("ready.txt", "saving", "again", "saved"))
    code = (
        "import pathlib, signal, sys, time\n"
        "def stop(*_):\n"
        f"    pathlib.Path({str(saving)!r}).touch()\n"
        f"    while not pathlib.Path({str(again)!r}).exists(): time.sleep(0.01)\n"
        f"    pathlib.Path({str(saved)!r}).touch()\n"
        "    sys.exit(130)\n"
        "signal.signal(signal.SIGTERM, stop)\n"
        f"pathlib.Path({str(ready)!r}).touch()\n"
        "time.sleep(60)"
    )
    pretend(job_of(), places, tmp_path, monkeypatch, baseline=code)

    def stop_when_ready() -> None:
        for reached in (ready, saving):  # twice, as `timeout` sends it: the second while the cell saves
            while not reached.exists():
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGTERM)
        again.touch()

    thread = threading.Thread(target=stop_when_ready)
    thread.start()
    with pytest.raises(StoppedByUser, match="Run the same command to resume") as stopped:
        run_jobs([job_of()], places, 1, print)
    thread.join()
    assert stopped.value.exit_code == 143
    assert saved.exists()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_the_process_of_a_cell_waits_for_one_under_way_and_leaves_one_that_is_done_alone(
    places: JobFolders, capsys: pytest.CaptureFixture[str]
) -> None:
    job = job_of(tier="smoke")
    document = json.loads(cells.command(job, places, 1)[-1])
    lock = job.lock(places.work)
    lock.parent.mkdir(parents=True)
    is_held = threading.Event()

    def another_command() -> None:
        with FileLock(lock):
            is_held.set()
            time.sleep(0.5)
            finish(job, ANSWERS, places.results)

    thread = threading.Thread(target=another_command)
    thread.start()
    is_held.wait()
    assert cells.main(document) == cells.DONE
    thread.join()
    assert not job.work_folder(places.work).exists()
    other = Job(Cell("qmnist", Setup("baseline", "baseline", {"heads": 7}), 0), "smoke")
    assert cells.main(json.loads(cells.command(other, places, 1)[-1])) == cells.FAILED
    assert "pooling_options was {} and is {'heads': 7}" in capsys.readouterr().err


def real_command(places: JobFolders) -> list[str]:
    command = [sys.executable, "-m", "miv", "reproduce", "qmnist", "key_instance", "--tier", "smoke", "--rounds", "1"]
    paths = ["--results", str(places.results), "--work", str(places.work)]
    return [*command, "--models", "cap_dba_l1", *paths]


@pytest.mark.slow
def test_a_cell_killed_at_any_moment_goes_on_and_ends_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIV_CACHE_DIR", str(tmp_path / "cache"))
    quiet, killed = (
        JobFolders(tmp_path / name, tmp_path / name / "work", tmp_path / "cache") for name in ("one", "two")
    )
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
    assert (one.document["twin"], one.document["description"]["data"]["task"]) == (True, "digits-twin")
    assert (len(one.document["test"]["groups"]), one.document["code"]) == (10, source_commit())
    assert str(tmp_path) not in json.dumps(one.document)
    assert not list(killed.results.rglob(".*.part"))


def _workers(work: Path) -> list[int]:
    """The processes that compute a cell in this folder, found by their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if "miv.reproduction.cells" in line and str(work) in line:
            found.append(int(path.parent.name))
    return found
