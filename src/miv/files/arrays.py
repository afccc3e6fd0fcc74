"""Types of NumPy arrays, apart from the readers of files so that these load without NumPy."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Vectors = NDArray[np.float32]  # (N, C)
Integers = NDArray[np.int64]
Labels = NDArray[np.int8]
Mask = NDArray[np.bool_]
