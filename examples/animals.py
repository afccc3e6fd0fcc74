"""
The same chimpanzee? Individuals in photographs of faces
========================================================

Is the animal of the query among those that a camera trap saw today? The photographs show the faces of 24 chimpanzees
of a zoo; the animals of train, validation and test are different ones.

Get the photographs (620 MB; for non-commercial use, cite Freytag et al., GCPR 2016)::

    git clone --depth 1 https://github.com/cvjena/chimpanzee_faces

With EfficientNet (``pip install 'miv[photos]'``) test AUROC is 0.618 and i-AP 0.623, against 0.599 and 0.584 for the
best plain method on the same features. Without it, the colours of the photographs give 0.567 and 0.558.

.. image:: /images/examples/animals.png
"""

# sphinx_gallery_thumbnail_path = 'images/examples/animals.png'

# %%
# One folder per animal is all that ``from_folder`` needs.
import shutil
from pathlib import Path

from results import compare, picture

from miv.data.sources import splits_from_folder

faces = Path("chimpanzee_faces/datasets_cropped_chimpanzee_faces/data_CZoo")
for line in (faces / "annotations_czoo.txt").read_text().splitlines():
    fields = line.split()
    folder = Path("chimpanzees", fields[fields.index("Name") + 1])
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(faces / fields[fields.index("Filename") + 1], folder)

sets = splits_from_folder(Path("chimpanzees"), size="96x96", exemplars=2_000, bag_mean=8, validation=0.2, test=0.25)

# %%
# Trained with default settings, and beside it the plain methods on the same photographs.
run = compare("animals", sets)
picture("animals", run, sets["test"])
