"""What sparse Tensor Cores are told of a matrix with two of four."""

import numpy as np
from numpy.typing import NDArray

from costmodel.errors import CostModelError
from costmodel.irregular.balanced._matrix import BalancedMatrix

_ROWS, _COLUMNS = 16, 32  # of the left side of mma.sp.m16n8k32
_HALVES = 2  # of the rows, and of the columns
_PLACES = 8  # kept weights that share 16 bits of metadata


def two_of_four_metadata(matrix: BalancedMatrix) -> NDArray[np.uint32]:
    """``(n k / 32,)`` words: for 16 rows, every 32 columns, row r of 8 and half h of the columns one word.

    A word has two bits for each of the eight kept weights of row r in these 16 columns, the first one
    lowest, and above them those of row r + 8: what lane 4 r + h brings to ``mma.sp.m16n8k32`` with sparsity
    selector 0 (PTX ISA, "Sparse matrix storage"; CUTLASS, ``reorder_meta``).

    Raises:
        CostModelError: The matrix is not two of four, or its sides are no multiples of 16 and 32.
    """
    rows, columns = matrix.shape
    if not matrix.pattern.is_two_of_four or rows % _ROWS or columns % _COLUMNS:
        raise CostModelError(
            f"Metadata are of two of four, with a multiple of {_ROWS} rows and of {_COLUMNS} columns, but "
            f"got {matrix.pattern} and the shape {matrix.shape}."
        )
    places = matrix.indices.reshape(rows // _ROWS, _HALVES, 8, columns // _COLUMNS, _HALVES, _PLACES)
    sixteen = (places.astype(np.uint32) << np.arange(0, 16, 2, dtype=np.uint32)).sum(axis=-1, dtype=np.uint32)
    words = sixteen[:, 0] | sixteen[:, 1] << np.uint32(16)  # (16 rows, r, 32 columns, h)
    return np.ascontiguousarray(words.transpose(0, 2, 1, 3)).ravel()
