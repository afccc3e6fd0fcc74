"""What differs between two scorings into one folder, in the words of the command."""

from typing import Any

_OPTIONS = {"rows": "--rows", "resize": "--resize", "witnesses": "--witnesses"}


def setting_words(before: dict[str, Any], now: dict[str, Any], models: tuple[str | None, str]) -> list[str]:
    """What differs, one clause each; see ``ScoreSettings.decisive`` for the names.

    Args:
        before: the settings of the verdicts in the folder.
        now: those of this call.
        models: names of the verifiers, before and now.

    >>> setting_words({"rows": 5, "resize": None}, {"rows": 6, "resize": "crop"}, ("a", "a"))
    ['--rows was 5 and is now 6', '--resize was not given and is now crop']
    >>> setting_words({}, {"by_instance": False}, ("a", "a"))
    ['_score.json has no by_instance']
    >>> setting_words({"scored_since": "0.2.0"}, {"scored_since": "0.3.0"}, ("a", "a"))
    ['they are as miv writes them since version 0.2.0, and it writes others since version 0.3.0']
    """
    other = [(name, value) for name, value in now.items() if before.get(name) != value]
    return [
        _words(name, before[name], value, models) if name in before else f"_score.json has no {name}"
        for name, value in other
    ]


def _words(name: str, before: Any, now: Any, models: tuple[str | None, str]) -> str:
    if name in _OPTIONS:
        return f"{_OPTIONS[name]} was {_given(before)} and is now {_given(now)}"
    if name == "scored_since":
        return f"they are as miv writes them since version {before}, and it writes others since version {now}"
    if name == "fingerprint":
        if models[0] == models[1]:
            return f"the verifier {models[1]} has changed since, in its weights, calibration or configuration"
        return f"the verifier was {models[0] or 'another one'} and is now {models[1]}"
    if name == "by_instance":
        return "--by-instance was not given and now is" if now else "--by-instance was given and now is not"
    if name == "instances_digest":
        if before is None or now is None:
            return f"--instances was {'not given and now is' if before is None else 'given and now is not'}"
        return "the table of --instances has other content"
    if name == "files_below":
        return f"paths in the tables began at {before or 'no folder'} and now begin at {now or 'no folder'}"
    if name == "kept":
        return f"the copied columns were {_listed(before)} and are now {_listed(now)}"
    return f"{name} was {before} and is now {now}"


def _given(value: Any) -> str:
    return "not given" if value is None else str(value)


def _listed(names: Any) -> str:
    return ", ".join(names) if names else "none"
