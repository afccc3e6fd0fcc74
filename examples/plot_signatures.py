"""
Signatures with forgeries, and a threshold to defend
====================================================

A bank keeps three signatures of each customer, the references. Is one of the signatures in a pile by the customer, and
not a forgery? This script **draws** its signatures, so its figures show the steps, not how good they are on real ones.
With yours, let ``read`` return those of one signer.
"""

# %%
# Of each signer, ten genuine signatures and five forgeries. A forger draws the same curve, less exactly.
import tempfile

import numpy as np
from PIL import Image, ImageDraw
from results import compare, picture

import miv

random, time = np.random.default_rng(0), np.linspace(0, 6, 150)[:, None] * np.arange(1, 7)


def sign(waves: np.ndarray, error: float) -> np.ndarray:  # white ink on black
    waves = waves * (1 + error * random.normal(size=(2, 6))) + error * random.normal(size=(2, 6)) / 6
    x, y = 8 + 15 * time[:, 0] + 4 * np.sin(time) @ waves[0], 24 + 7 * np.cos(time) @ waves[1]
    ImageDraw.Draw(image := Image.new("L", (112, 48))).line(list(zip(x, y, strict=True)), fill=255, width=2)
    return np.asarray(image.resize((56, 24)))


def read(signer: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Genuine and forged signatures; for CEDAR, read full_org/original_1_*.png and full_forg/forgeries_1_*.png."""
    waves = random.normal(size=(2, 6)) / 2
    return [sign(waves, 0.12) for _ in range(10)], [sign(waves, 0.3) for _ in range(5)]


# %%
# Every pile has a forgery and four signatures of others, and half of them a genuine one.
def draw(signers: list, count: int) -> miv.ExemplarSet:
    references, bags, witnesses, labels = [], [], [], np.arange(count) % 2
    for number, label in enumerate(labels):
        place = number // 2 % len(signers)
        *known, new = random.permutation(10)[:4]
        others = random.choice(np.delete(np.arange(len(signers)), place), 4, replace=False)
        references.append([signers[place][0][each] for each in known])
        forgery = signers[place][1][random.integers(5)]
        bags.append(np.stack([signers[place][0][new]] * label + [forgery, *(signers[each][0][0] for each in others)]))
        witnesses.append([each < label for each in range(5 + label)])
    return miv.ExemplarSet.from_arrays(None, bags, labels, witnesses, references=references)


signers, out = [read(number) for number in range(90)], tempfile.mkdtemp() + "/run"
splits = ("train", "validation", "test")  # a signer is in one of them only
sets = {split: draw(signers[30 * place :][:30], 300) for place, split in enumerate(splits)}
run = compare("signatures", sets, out=out, verbose=False)
picture("signatures", run, sets["test"])

# %%
# The threshold promises that at most 10 % of the piles without a genuine signature are accepted, for new signers.
miv.calibrate(out, sets, goal="far=0.1")
test = miv.evaluate(out, sets).operating_point
print("{false_accepts} of {negatives} forged accepted, {false_rejects} of {positives} genuine missed".format(**test))
