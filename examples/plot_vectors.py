"""
Vectors with scikit-learn
=========================

Features that you already have need no backbone: queries are vectors, and bags are arrays of vectors. Here both are
drawn at random; a positive bag holds one noisy copy of its query, in the first 8 of 32 channels.
"""

# %%
# The other 24 channels are noise, so that a plain cosine is misled and a fitted map is not.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score

from miv import MIVClassifier

random = np.random.default_rng(0)
labels = np.arange(1_000) % 2
queries, bags = random.normal(size=(1_000, 32)), random.normal(size=(1_000, 6, 32))
bags[labels == 1, 2, :8] = queries[labels == 1, :8] + 0.5 * random.normal(size=(500, 8))

model = MIVClassifier(random_state=0).fit(queries[:600], bags[:600], labels[:600])
logit = model.decision_function(queries[600:], bags[600:])

# %%
# Beside it, the largest cosine of each bag.
unit = [values / np.linalg.norm(values, axis=-1, keepdims=True) for values in (queries[600:], bags[600:])]
cosine = np.einsum("ec,enc->en", *unit).max(axis=1)
figure, axes = plt.subplots(1, 2, figsize=(8, 2.6), sharey=True)
for axis, name, score in zip(axes, ("largest cosine", "MIVClassifier"), (cosine, logit), strict=True):
    for label, colour in ((0, "lightgrey"), (1, "tab:orange")):
        axis.hist(score[labels[600:] == label], 25, color=colour, alpha=0.8, label=("no witness", "a witness")[label])
    axis.set_title(f"{name}: AUROC {roc_auc_score(labels[600:], score):.3f}")
axes[1].legend()

# %%
# The classifier also names the witnesses: the third target of each positive bag.
print(model.witnesses(queries[600:606], bags[600:606]))
