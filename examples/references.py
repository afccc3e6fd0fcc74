"""
Several references, and a threshold to defend
=============================================

A bank keeps more than one signature of each customer. Here the characters of Omniglot stand in for signers: each query
is three drawings of one character, and no character of validation or test is in train.

Get the drawings (15 MB)::

    git clone --depth 1 https://github.com/brendenlake/omniglot && unzip -q 'omniglot/python/images_*.zip' -d omniglot

Test AUROC is 0.931 with one reference and 0.974 with three, against 0.885 and 0.948 for the best plain method. The
threshold that promises a false-accept rate of 5 % accepts 8 of 495 bags without the character and finds 395 of 495.

.. image:: /images/examples/references.png
"""

# sphinx_gallery_thumbnail_path = 'images/examples/references.png'

# %%
# One folder per character; three drawings of it are the query, and never in its bags.
from pathlib import Path

import matplotlib.pyplot as plt
from results import PICTURES, compare

import miv
from miv.data.sources import splits_from_folder

options = {"exemplars": 3_000, "bag_mean": 8, "validation": 0.34, "test": 0.33, "size": "28x28"}
root = Path("characters")
root.mkdir()
for folder in Path("omniglot").glob("images_*/*/*"):
    (root / f"{folder.parent.name}-{folder.name}").symlink_to(folder.resolve())

for count in (1, 3):
    sets = splits_from_folder(root, references_per_query=count, **options)
    run = compare(f"references {count}", sets, out=f"run-{count}")

# %%
# The threshold promises that at most 5 % of the bags without the character are accepted, for characters never seen.
point = miv.calibrate("run-3", sets, goal="far=0.05").point
test = miv.evaluate("run-3", sets).operating_point
assert test is not None
print("{false_accepts} of {negatives} others accepted, {false_rejects} of {positives} matches missed".format(**test))

figure, axis = plt.subplots(figsize=(6, 2.4))
probability, label = point.probability(run.predictions("test").logit), sets["test"].label
for value, colour, name in ((0, "lightgrey", "other characters"), (1, "tab:orange", "matches")):
    axis.hist(probability[label == value], 25, color=colour, alpha=0.8, label=name)
axis.axvline(point.threshold, color="black", linestyle="--", label="threshold")
axis.set(xlabel="probability, three references", ylabel="test exemplars")
axis.legend(fontsize=8)
figure.savefig(PICTURES / "references.png", dpi=90, bbox_inches="tight")
