"""Tell whether a text is in a script that the encoder of miv/evidence, which reads English, cannot read."""

import re
import warnings
from collections.abc import Iterable

from miv.backbones import Backbone
from miv.backbones.hf_names import MINILM
from miv.errors import MIVWarning

_LETTER = re.compile(r"[^\W\d_]")
_LATIN = re.compile("[A-Za-zªºÀ-ÖØ-öø-ʯḀ-ỿ]")
_READ = 20_000  # characters that tell the script of a text


def warn_of_other_scripts(backbone: Backbone, texts: Iterable[tuple[str, Iterable[str]]]) -> None:
    """Warn once if an English encoder gets texts whose letters are mostly not Latin.

    Args:
        backbone: the encoder of the verifier.
        texts: what each text is called, and its sentences.
    """
    if getattr(backbone, "name", "") != MINILM:
        return
    found = [called for called, sentences in texts if not _is_latin(" ".join(sentences)[:_READ])]
    if found:
        others = f" and {len(found) - 1:,} more" if len(found) > 1 else ""
        warnings.warn(
            f"Most letters of {found[0]}{others} are not Latin, but this verifier reads English only: its outcomes "
            "mean little here. Translate the texts, or use a verifier of their language.",
            MIVWarning,
            stacklevel=4,
        )


def _is_latin(text: str) -> bool:
    return 2 * len(_LATIN.findall(text)) >= len(_LETTER.findall(text))
