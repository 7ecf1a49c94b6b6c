"""How the threads of a block copy a box of elements together, as MetaSchedule's cooperative fetching does."""

from dataclasses import dataclass

import numpy as np

from costmodel.arrays import FloatArray


@dataclass(frozen=True)
class Staging:
    """One cooperative copy; both ``(n,)``.

    Attributes:
        elements: Elements that are copied, those of masked threads included.
        lanes: Elements of one vector access.
    """

    elements: FloatArray
    lanes: FloatArray


def staging_of(box: FloatArray, threads: FloatArray, width: FloatArray) -> Staging:
    """The copy of a box by these threads with vectors of this width.

    Vectors are given up where they do not divide the box, and the last round of a copy is masked
    (``RewriteCooperativeFetch`` of TVM, src/s_tir/meta_schedule/postproc/rewrite_cooperative_fetch.cc).
    """
    lanes = np.where(box % width == 0, width, 1.0)
    round_elements = threads * lanes
    return Staging(np.ceil(box / round_elements) * round_elements, lanes)
