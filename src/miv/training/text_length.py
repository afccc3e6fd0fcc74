"""How many tokens of each text the default encoder reads, chosen from train within a budget of time."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from miv.backbones.hf_files import MINILM, find_model
from miv.backbones.hf_text import TOKENIZER_NAME, valid_text
from miv.backbones.precision import has_native_bfloat16
from miv.data import ExemplarSet
from miv.files.arrays import Integers
from miv.runtime import available_cores

SHORTEST, LONGEST = 96, 256  # default of the encoder, and its length in training
SHARE = 95  # percentile of the lengths of train texts
BUDGET = 600.0  # seconds of embedding
_STEP = 16
_SPECIAL = 2  # tokens before and after the text
_SAMPLE = 1_000
_TOKENS_A_SECOND = 3_000  # of one core with float32
_BY_BFLOAT16 = 1.8  # times as many


def choose_max_tokens(sets: Mapping[str, ExemplarSet]) -> tuple[int, str]:
    """The number of tokens to read, and words for the reason if not all of it goes without saying."""
    train = sets["train"]
    chosen = np.random.default_rng(0).permutation(train.used)[:_SAMPLE]
    texts = [str(train.pool.values[row]) for row in chosen.tolist()]
    # A token has a character or more, so most texts need no tokenizer here.
    if np.percentile([len(text) for text in texts], SHARE) <= SHORTEST - _SPECIAL:
        return SHORTEST, ""
    lengths = count_tokens(texts)
    needed = int(np.clip(np.ceil(np.percentile(lengths, SHARE) / _STEP) * _STEP, SHORTEST, LONGEST))
    if needed == SHORTEST:
        return SHORTEST, ""
    total = sum({id(one.pool): len(one.pool) for one in sets.values()}.values())
    speed = _TOKENS_A_SECOND * available_cores() * (_BY_BFLOAT16 if has_native_bfloat16() else 1.0)
    most = needed
    while most > SHORTEST and total * np.minimum(lengths, most).mean() / speed > BUDGET:
        most -= _STEP
    share = (lengths <= most).mean()
    words = f", reading at most {most} tokens of a text, which {share:.0%} of the train texts do not exceed"
    if most < needed:
        words += f"; {needed} would take more than {BUDGET / 60:.0f} minutes to embed (--backbone-options max_tokens=N)"
    return most, words


def count_tokens(texts: Sequence[str]) -> Integers:
    """The number of tokens of each text, special ones included; at most one more than ``LONGEST``."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(Path(find_model(MINILM)) / TOKENIZER_NAME))
    tokenizer.no_padding()
    tokenizer.enable_truncation(LONGEST + 1)
    encoded = tokenizer.encode_batch_fast([valid_text(text) for text in texts])
    return np.array([len(text.ids) for text in encoded], np.int64)
