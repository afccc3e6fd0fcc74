"""
Handwriting in five minutes
===========================

Does one of these digits come from the writer of the query? The digits are synthetic, so nothing is downloaded, and no
writer of the test split is in train.
"""

# %%
# A task builds its exemplars from a seed. Training with default settings compares plain and richer recipes on held-out
# bags and takes the simplest that is not clearly worse than the best.
from results import compare, picture

from miv.runtime import SilentProgress
from miv.tasks import create_task

sets = create_task("digits-twin", writers=30, held_out_writers=15).build(SilentProgress())
run = compare("handwriting", sets, verbose=False)

# %%
# The positive bag that the verifier is most sure of: attention in percent, and orange frames for the true witnesses.
picture("handwriting", run, sets["test"])
