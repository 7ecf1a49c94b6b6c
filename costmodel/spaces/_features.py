"""Features of candidates on every platform of a space."""

from collections.abc import Sequence

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.features._extract import extract
from costmodel.features._in_columns import in_columns
from costmodel.records._candidate import Candidate
from costmodel.records._platform import Platform


def features_on(
    platforms: Sequence[Platform], candidates: Sequence[Candidate], columns: Sequence[str] | None
) -> FloatArray:
    """``(n, b, d)`` features of each candidate on each platform, as ``extract`` gives them.

    Args:
        platforms: The b platforms.
        candidates: The n candidates, of one kind of workload.
        columns: Names of the d columns; those that the candidates have if None.

    Raises:
        CostModelError: The columns are not of such kernels.
    """
    count = len(candidates)
    tables = [extract(candidates, [platform] * count) for platform in platforms]
    return np.stack([in_columns(table, columns) for table in tables], axis=1)
