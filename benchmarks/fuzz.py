"""Damage files of every kind and read them: nothing but a ``MIVError`` may come out. The last line is one JSON object.

    python benchmarks/fuzz.py [--cases 20000] [--seed 0] [--folder DIR]
    python benchmarks/fuzz.py --case 1234       # repeat one case and show where it ends

Case N of a seed is always the same damage to the same file. With ``--folder``, a run that was stopped goes on where it
was. ``tracebacks`` counts cases that ended in any other exception, ran out of memory or killed the process;
``timeouts`` those that computed longer than ``--seconds`` or waited far longer; ``refused`` those that a ``MIVError``
ended, and ``read`` those whose damage did not matter. The cases run in a process of their own, which is started again
if one kills it.
"""

import argparse
import collections
import faulthandler
import json
import logging
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from types import FrameType
from typing import Any

MORE_BYTES = 3 << 30  # memory that a process may take beyond what the libraries hold: reading a small file needs none
HARNESS_FAILED = 3
ROOT = Path(__file__).parents[1]


class TookTooLong(BaseException):
    """Not an ``Exception``, so that no reader can take it for damage."""


def _too_long(number: int, frame: FrameType | None) -> None:
    raise TookTooLong


def run_case(number: int, seed: int, folder: Path, seconds: float) -> tuple[str, str, str]:
    """Run one case and return its target, how it ended, and the traceback if that is a failure."""
    from benchmarks.fuzz_targets import all_targets

    from miv import MIVError

    targets = all_targets()
    rng = random.Random(f"{seed} {number}")
    target = rng.choices(targets, [one.weight for one in targets])[0]
    place = folder / "case"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(folder / "specimens" / target.folder, place)
    target.damaged(place, rng)
    # The alarm counts the time of the processor, which other work on the machine does not change. The other limit is
    # for waiting, and for compiled code that never returns to see the alarm.
    faulthandler.dump_traceback_later(30 * seconds, exit=True)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        target.open(place)
    except MIVError:
        return target.name, "refused", ""
    except TookTooLong:
        return target.name, "timeouts", traceback.format_exc()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return target.name, "tracebacks", traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.cancel_dump_traceback_later()
    return target.name, "read", ""


def work(first: int, arguments: argparse.Namespace, folder: Path) -> None:
    """Run the cases from ``first`` on, with one line for each in the folder's results."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    import torch
    from benchmarks.fuzz_specimens import make_specimens

    torch.set_num_threads(1)
    if not (folder / "specimens").is_dir():
        shutil.rmtree(folder / "unfinished", ignore_errors=True)
        make_specimens(folder / "unfinished")
        (folder / "unfinished").rename(folder / "specimens")
    _limit_memory()
    signal.signal(signal.SIGPROF, _too_long)
    with (folder / "results.jsonl").open("a", encoding="utf-8") as results:
        for number in range(first, arguments.cases):
            name, end, trace = run_case(number, arguments.seed, folder, arguments.seconds)
            line = {"case": number, "target": name, "end": end, **({"trace": trace} if trace else {})}
            results.write(json.dumps(line) + "\n")
            results.flush()


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MORE_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def read_results(folder: Path) -> list[dict[str, Any]]:
    """The lines of all cases so far; a process killed while it writes leaves half a line."""
    path = folder / "results.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
    if lines and not lines[-1].endswith("\n"):
        path.write_text("".join(lines[:-1]), encoding="utf-8")
        lines = lines[:-1]
    return [json.loads(line) for line in lines]


def supervise(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run all cases in a process of their own, and start another where one dies."""
    said = {"seed": arguments.seed, "seconds": arguments.seconds}
    about = folder / "about.json"
    if about.exists() and json.loads(about.read_text()) != said:
        sys.exit(f"{folder} holds cases of {about.read_text()}. Choose another --folder.")
    about.write_text(json.dumps(said))
    while (first := len(read_results(folder))) < arguments.cases:
        words = [sys.executable, __file__, "--worker", str(first), "--folder", str(folder)]
        words += ["--cases", str(arguments.cases), "--seed", str(arguments.seed), "--seconds", str(arguments.seconds)]
        code = subprocess.run(words, check=False).returncode
        done = len(read_results(folder))
        if code == 0:
            continue
        if not (folder / "specimens").is_dir():
            sys.exit("The good files could not be made; see above.")
        if code == HARNESS_FAILED:
            sys.exit(f"Case {done} could not be made; see above.")
        end = "timeouts" if code == 1 else "tracebacks"  # faulthandler ends a process with 1
        line = {"case": done, "target": "", "end": end, "trace": f"The process ended with {code}."}
        with (folder / "results.jsonl").open("a", encoding="utf-8") as results:
            results.write(json.dumps(line) + "\n")
    results_so_far = read_results(folder)[: arguments.cases]
    ends = collections.Counter(line["end"] for line in results_so_far)
    for line in results_so_far:
        if "trace" in line:
            print(f"Case {line['case']} of seed {arguments.seed}, {line['target']}:\n{line['trace']}")
    names = ("tracebacks", "timeouts", "refused", "read")
    targets = len({line["target"] for line in results_so_far})
    return {"cases": len(results_so_far), **{name: ends[name] for name in names}, "targets": targets}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=10.0, help="longest computing time of a case")
    parser.add_argument("--folder", type=Path, help="where results are kept, so that a stopped run goes on")
    parser.add_argument("--case", type=int, help="repeat this one case")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    os.environ |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as temporary:
        folder = (arguments.folder or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        os.environ["MIV_CACHE_DIR"] = str(folder / "cache")
        if arguments.worker is not None:
            try:
                work(arguments.worker, arguments, folder)
            except Exception:  # of the fuzzer itself: readers' exceptions are results
                traceback.print_exc()
                sys.exit(HARNESS_FAILED)
        elif arguments.case is not None:
            arguments.cases = 0
            work(0, arguments, folder)
            print(*run_case(arguments.case, arguments.seed, folder, arguments.seconds), sep="\n")
        else:
            print(json.dumps(supervise(arguments, folder)))


if __name__ == "__main__":
    main()
