"""The data of a report: exemplars, the answers of each run, and the gallery that the script of the page draws."""

import base64
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from miv.backbones.cache import embed_exemplars
from miv.data import ExemplarSet, InstancePool, csr
from miv.errors import MIVError, unknown_name
from miv.evaluation.baselines import Baselines, Figures
from miv.evaluation.page import letter, style
from miv.evaluation.predicting import Predictions, withheld
from miv.evaluation.runs import RunFolder, refuse_unfinished, short_names
from miv.evaluation.verifier_audit import looked_right
from miv.files.arrays import Floats, Integers, Mask
from miv.files.cache import cache_folder, feature_folder
from miv.runtime import Progress, SilentProgress
from miv.tasks.opening import open_splits
from miv.verifier.decisions import ConformalRule, OperatingPoint
from miv.verifier.network import Verifier
from miv.verifier.out_of_distribution import LIMIT_NAME


@dataclass(frozen=True, eq=False)
class ReportModel:
    """One run's verifier and its answers."""

    name: str  # in the report
    answers: Predictions  # for every exemplar of the split
    point: OperatingPoint
    recipes: dict[str, Any] | None = None  # those that its training compared, if known
    reference: Mapping[str, Figures] = field(default_factory=dict)  # baselines on the same features
    withheld: Mask | None = None  # (E,) unsure because out of distribution; None if the verifier has no such check

    @property
    def probability(self) -> Floats:
        """``(E,)``, calibrated if the verifier is."""
        return self.point.probability(self.answers.logit)

    @property
    def _in_distribution(self) -> Mask:
        return np.ones(len(self.answers), bool) if self.withheld is None else ~self.withheld

    @property
    def verdict(self) -> Mask:
        """``(E,)`` where the decision is yes."""
        return self.point.verdict(self.probability) & self._in_distribution

    @property
    def rejected(self) -> Mask:
        """``(E,)`` where the decision is no; an unsure one is neither accepted nor rejected."""
        return self.point.rejected(self.probability) & self._in_distribution

    @property
    def can_be_unsure(self) -> bool:
        """Whether it has two thresholds, or an out-of-distribution check."""
        return self.point.lower_threshold is not None or self.withheld is not None

    @property
    def unsure(self) -> Mask:
        """``(E,)`` where the decision is unsure."""
        return ~self.verdict & ~self.rejected

    @property
    def wrong(self) -> Mask:
        """``(E,)`` where the decision is yes or no, and wrong."""
        return np.where(self.answers.label == 1, self.rejected, self.verdict)

    @property
    def witnesses(self) -> Mask | None:
        """Its witnesses ``(T,)`` by attention; ``None`` without attention, or if it uses other shares."""
        answers, rule = self.answers, self.point.witness_rule
        if answers.attention is None or (isinstance(rule, ConformalRule) and rule.by != "attention"):
            return None
        return self.point.witnesses(self.probability, answers.attention, answers.ptr)


@dataclass(frozen=True, eq=False)
class ReportSource:
    """The exemplars of a split, and the models that answered for all of them."""

    data: str
    split: str
    exemplars: ExemplarSet
    models: list[ReportModel]

    def __post_init__(self) -> None:
        if not self.models:
            raise MIVError("There are no models to report on. Expected at least one run.")
        for model in self.models:
            answers, exemplars = model.answers, self.exemplars
            if not np.array_equal(answers.ptr, exemplars.bag_ptr) or not np.array_equal(answers.label, exemplars.label):
                raise MIVError(
                    f"The answers of {model.name} are not for the exemplars of {self.data}, split "
                    f"{self.split}. Expected runs evaluated on the same data."
                )


def open_runs(
    paths: list[Path],
    *,
    split: str = "test",
    data: Path | None = None,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> ReportSource:
    """Open runs of ``miv train`` evaluated on the same split; ``data`` is by default what the first run recorded."""
    progress = progress or SilentProgress()
    runs = [RunFolder(path) for path in paths]
    for run in runs:
        run.require()
        refuse_unfinished(run.path)
        if not run.predictions(split).is_file():
            splits = [file.stem for file in run.predictions(split).parent.glob("*.parquet")]
            raise unknown_name(f"split with answers in {run.path}", split, splits)
    abouts = [run.read() for run in runs]
    recorded = abouts[0]["data"]
    for run, about in zip(runs, abouts, strict=True):
        if about["data"]["fingerprints"].get(split) != recorded["fingerprints"].get(split):
            raise MIVError(
                f"{run.path} and {runs[0].path} were evaluated on different data. Report on each separately."
            )
    exemplars = _find_exemplars(recorded, split, data, cache, progress)
    if exemplars.fingerprint != recorded["fingerprints"].get(split):
        raise MIVError(
            f"The split {split!r} of {data or recorded['name']} is not the data of {runs[0].path}; it was "
            "changed or rebuilt. Pass the folder of the original data: --data DIR."
        )
    models = [
        ReportModel(
            name,
            Predictions.load(run.predictions(split)),
            OperatingPoint.load(run.verifier),
            about.get("recipes"),
            Baselines.load(run.reference).splits.get(split, {}) if run.reference.is_file() else {},
            _withheld(run.verifier, exemplars, cache, progress),
        )
        for name, run, about in zip(short_names([str(path) for path in paths]), runs, abouts, strict=True)
    ]
    return ReportSource(Path(str(recorded["name"])).name or "data", split, exemplars, models)


def _withheld(folder: Path, exemplars: ExemplarSet, cache: Path | None, progress: Progress) -> Mask | None:
    """Computed here, because the answers of a run are older than the limit of its verifier."""
    if not (folder / LIMIT_NAME).is_file():
        return None
    verifier = Verifier.from_pretrained(folder)
    exemplars = verifier.backbone.paired(exemplars)
    features = embed_exemplars(verifier.backbone, exemplars, feature_folder(cache), progress)
    return withheld(verifier, exemplars, features, progress)


def _find_exemplars(
    recorded: dict[str, Any], split: str, data: Path | None, cache: Path | None, progress: Progress
) -> ExemplarSet:
    options = {} if data is not None else recorded.get("options") or {}
    options = {key: Path(value) if key == "raw" else value for key, value in options.items()}
    try:
        sets = open_splits(str(data or recorded["name"]), options, (cache or cache_folder()) / "sets", progress)
    except MIVError as error:
        raise MIVError(f"The data of the run cannot be opened: {error} Pass its folder: --data DIR.") from error
    if split not in sets:
        raise unknown_name(f"split in {data or recorded['name']}", split, sets)
    return sets[split]


# Choose the exemplars that a report shows, their order, and the members of a long bag.

SHOWN_MEMBERS = 32  # of one bag; a longer bag shows how many more there are
MOST_REFERENCES = 12  # of one query


def error_confidence(source: ReportSource) -> Floats:
    """Confidence ``(E,)`` of the most confident wrong model, from 0 to 1; below 0 if no model is wrong.

    Confidence is the distance from the nearer threshold as a share of the distance to the end of the scale. Among
    exemplars that all models get right, the one closest to an error has the highest value: it comes next.
    """
    sure = np.stack([_confidence(model) for model in source.models])  # (M, E)
    wrong = np.stack([model.wrong for model in source.models])
    return np.where(wrong.any(axis=0), np.where(wrong, sure, 0).max(axis=0), -1e-6 - sure.min(axis=0))


def _confidence(model: ReportModel) -> Floats:
    threshold, lower = model.point.threshold, model.point.lower_threshold
    lower = threshold if lower is None else lower
    above = (model.probability - threshold) / max(1 - threshold, 1e-12)
    below = (lower - model.probability) / max(lower, 1e-12)
    return np.where(model.verdict, above, below).clip(0, 1)  # 0 between two thresholds


def telling_exemplar(source: ReportSource) -> int:
    """An exemplar to explain the idea: positive, right by the first model if possible, with a bag of about six."""
    right = (source.exemplars.label == 1) & source.models[0].verdict
    sizes = np.abs(source.exemplars.bag_sizes - 6)
    return int(np.lexsort((sizes, source.exemplars.label == 0, ~right))[0])  # the last key is the primary one


def shown_members(source: ReportSource, exemplar: int) -> Integers:
    """The shown places in an exemplar's bag: where each model looks most, then witnesses, then other places.

    On ties, it is a place without a witness, so that the page can show why a reason is wrong.
    """
    start, end = source.exemplars.bag_ptr[exemplar : exemplar + 2]
    size = int(end - start)
    if size <= SHOWN_MEMBERS:
        return np.arange(size)
    witness = np.zeros(size, bool) if source.exemplars.witness is None else source.exemplars.witness[start:end]
    by_model = [m.answers.attention[start:end] for m in source.models if m.answers.attention is not None]
    tops = {int(np.lexsort((witness, -attention))[0]) for attention in by_model}
    looked = np.max([np.zeros(size), *by_model], axis=0)
    places = np.lexsort((-looked, ~witness, ~np.isin(np.arange(size), list(tops))))  # the last key is the primary one
    return np.sort(places[: max(SHOWN_MEMBERS, len(tops))])


# Combine many small pictures into a few large sheets, which a browser decodes on demand.

SHEET_SIDE = 1536  # pixels; a sheet is decoded in about 20 ms
MOST_PIXELS = 30_000_000  # in total; beyond this, pictures are scaled down
LARGEST_SIDE, LARGEST_SHARP = 192, 64  # pixels; pictures up to the second are kept exactly


def picture_sheets(pool: InstancePool, instances: Integers) -> dict[str, Any]:
    """Place the pictures of instances, all of one size, on sheets.

    Returns:
        ``width`` and ``height`` of a picture, the number ``across`` and ``down`` per sheet, and the ``sheets`` as
        image addresses. Picture ``i`` is on sheet ``i // (across * down)``, row by row.
    """
    height, width = pool.values.shape[1:3]
    scale = min(1.0, LARGEST_SIDE / max(height, width), math.sqrt(MOST_PIXELS / (height * width * len(instances))))
    width, height = max(1, round(scale * width)), max(1, round(scale * height))
    across, down = max(1, SHEET_SIDE // width), max(1, SHEET_SIDE // height)
    parts = [instances[start : start + across * down] for start in range(0, len(instances), across * down)]
    sheets = [_sheet(pool, part, width, height, across) for part in parts]
    return {"width": width, "height": height, "across": across, "down": down, "sheets": sheets}


def _sheet(pool: InstancePool, instances: Integers, width: int, height: int, across: int) -> str:
    colour = pool.values.ndim == 4
    sheet = Image.new("RGB" if colour else "L", (across * width, -(-len(instances) // across) * height))
    for number, instance in enumerate(instances):
        picture = Image.fromarray(np.ascontiguousarray(pool.values[instance]))
        if picture.size != (width, height):
            picture = picture.resize((width, height), Image.Resampling.LANCZOS)
        sheet.paste(picture, (number % across * width, number // across * height))
    file, kind = io.BytesIO(), "png" if max(width, height) <= LARGEST_SHARP and not colour else "jpeg"
    sheet.save(file, kind, quality=82)  # PNG ignores the quality
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode('ascii')}"


SHOWN_LETTERS = 600  # characters shown of one text
PARTS = 1000  # attention and probability are stored in thousandths, which keeps the file small


def gallery(source: ReportSource, most: int) -> dict[str, Any]:
    """Return plain values for JSON: the chosen exemplars, their shown instances, and each model's answers."""
    exemplars = source.exemplars
    chosen = np.argsort(-error_confidence(source), kind="stable")[:most]
    telling = telling_exemplar(source)
    if telling not in chosen:
        chosen = np.append(chosen[: max(0, most - 1)], telling)
    places = [shown_members(source, int(exemplar)) for exemplar in chosen]
    members = np.concatenate([exemplars.bag_ptr[e] + shown for e, shown in zip(chosen, places, strict=True)])
    references = [exemplars.references(int(exemplar))[:MOST_REFERENCES] for exemplar in chosen]
    # Each query's references, then the shown members of its bag, in order of first use, so that the first page needs
    # only the first sheet.
    bags = np.split(exemplars.bag_index[members], np.cumsum([len(shown) for shown in places])[:-1])
    parts = [part for pair in zip(references, bags, strict=True) for part in pair]
    in_bag = np.repeat(np.arange(len(parts)) % 2 == 1, [len(part) for part in parts])
    instances, first, row = np.unique(np.concatenate(parts), return_index=True, return_inverse=True)
    order = np.argsort(first)
    rows = np.argsort(order)[row]
    reference_ptr = csr.borders([len(part) for part in references])
    reference_rows = rows[~in_bag]
    groups = group = None
    if exemplars.group is not None:
        columns = np.unique(exemplars.group[chosen].astype(str), return_inverse=True)
        groups, group = (column.tolist() for column in columns)
    witness = exemplars.witness
    counts = None if witness is None else csr.bag_sums(witness, exemplars.bag_ptr)
    return {
        "kind": exemplars.pool.kind,
        "exemplar": chosen.tolist(),
        "telling": int(np.flatnonzero(chosen == telling)[0]),
        "error": np.round(error_confidence(source)[chosen], 4).tolist(),
        "label": exemplars.label[chosen].tolist(),
        "size": exemplars.bag_sizes[chosen].tolist(),
        "groups": groups,
        "group": group,
        "query": reference_rows[reference_ptr[:-1]].tolist(),
        "reference_ptr": reference_ptr.tolist() if exemplars.has_references else None,
        "reference": reference_rows.tolist() if exemplars.has_references else None,
        "query_id": None if exemplars.query_id is None else exemplars.query_id[chosen].tolist(),
        "ptr": csr.borders([len(shown) for shown in places]).tolist(),
        "place": np.concatenate(places).tolist(),
        "bag": rows[in_bag].tolist(),
        "witness": None if witness is None else witness[members].astype(int).tolist(),
        "witnesses": None if counts is None else counts[chosen].tolist(),  # in the whole bag, shown or not
        "models": [_answers(number, model, chosen, members) for number, model in enumerate(source.models)],
        **_instances(exemplars.pool, instances[order]),
    }


def _answers(number: int, model: ReportModel, chosen: Integers, members: Integers) -> dict[str, Any]:
    answers, witnesses = model.answers, model.witnesses
    attention, witness, looked = answers.attention, answers.witness, None
    if attention is not None and witness is not None:
        # Decided here from all members at full precision; the page has only some of them, in thousandths.
        informative, right = looked_right(answers.ptr, answers.label, witness, attention)
        looked = [int(right[e]) if informative[e] else None for e in chosen]
    return {
        "name": model.name,
        "letter": letter(number),
        "style": style(number),
        "looked_right": looked,
        "threshold": model.point.threshold,
        "lower_threshold": model.point.lower_threshold,
        "unsure": None if not model.can_be_unsure else model.unsure[chosen].astype(int).tolist(),
        "unlike": None if model.withheld is None else model.withheld[chosen].astype(int).tolist(),
        "probability": _parts(model.probability[chosen]),
        "verdict": model.verdict[chosen].astype(int).tolist(),
        "attention": None if attention is None else _parts(attention[members]),
        "found": None if witnesses is None else witnesses[members].astype(int).tolist(),
    }


def _parts(shares: Floats) -> list[int]:
    return (shares * PARTS).round().astype(int).tolist()


def _instances(pool: InstancePool, instances: Integers) -> dict[str, Any]:
    shown: dict[str, Any] = {"number": instances.tolist()}
    for name, column in (("classes", pool.classes), ("names", pool.names)):
        shown[name] = None if column is None else [str(column[i]) for i in instances]
    if pool.kind == "text":
        texts = [str(pool.values[i]) for i in instances]
        shown["texts"] = [t if len(t) <= SHOWN_LETTERS else t[:SHOWN_LETTERS] + "…" for t in texts]
    if pool.kind == "image":
        shown["pictures"] = picture_sheets(pool, instances)
    return shown
