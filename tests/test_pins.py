"""The pinned versions: every package of the environment is pinned, and the lock has the same versions with hashes."""

import re
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PIN = re.compile(r"^([\w.-]+)==([^\s;]+)", re.MULTILINE)


def pins(name: str) -> dict[str, str]:
    return {canonicalize_name(one): version for one, version in PIN.findall((ROOT / name).read_text())}


def needed_packages(asked: str) -> set[str]:
    """All packages that a requirement brings into this environment, itself left out."""
    found: set[str] = set()
    open_ends = [Requirement(asked)]
    seen = set()
    while open_ends:
        one = open_ends.pop()
        name = canonicalize_name(one.name)
        if (name, frozenset(one.extras)) in seen:
            continue
        seen.add((name, frozenset(one.extras)))
        try:
            inner = [Requirement(line) for line in requires(name) or []]
        except PackageNotFoundError:
            continue
        found.add(name)
        extras = [{"extra": extra} for extra in one.extras] or [{"extra": ""}]
        open_ends += [two for two in inner if two.marker is None or any(two.marker.evaluate(extra) for extra in extras)]
    return found - {"miv"}


def test_every_package_is_pinned_those_of_others_included() -> None:
    needed = needed_packages("miv[dev]")
    assert len(needed) > 80
    assert sorted(needed - pins("constraints.txt").keys()) == []


def test_the_lock_has_the_same_versions_with_hashes() -> None:
    locked, constraints = pins("requirements.lock"), pins("constraints.txt")
    assert {name: constraints.get(name) for name in locked} == locked
    assert not {
        name for name in needed_packages("miv[dev]") - locked.keys() if not name.startswith(("torch", "triton"))
    }
    entries = re.split(r"\n(?=\S)", (ROOT / "requirements.lock").read_text().split("\n", 1)[1])
    assert [entry for entry in entries if "--hash=sha256:" not in entry] == []
