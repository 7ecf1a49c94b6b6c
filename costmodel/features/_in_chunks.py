"""Features of millions of rows, in little more memory than they take in the end."""

from collections.abc import Sequence

import numpy as np

from costmodel.features._extract import COLUMNS, extract
from costmodel.features._in_columns import in_columns
from costmodel.features._table import FeatureTable
from costmodel.records import Candidate, Platform

_ROWS = 2**17  # which take 0.1 GB, and several times that while they are made


def extract_in_chunks(
    candidates: Sequence[Candidate], platforms: Sequence[Platform], rows: int = _ROWS
) -> FeatureTable:
    """What ``extract`` gives, made of so many rows at once.

    Args:
        candidates: What would run.
        platforms: Where, one for each candidate.
        rows: How many rows at once.
    """
    starts = range(0, max(len(candidates), 1), rows)
    chunks = [extract(candidates[at : at + rows], platforms[at : at + rows]) for at in starts]
    if len(chunks) == 1:
        return chunks[0]
    own = {column for chunk in chunks for column in chunk.columns[len(COLUMNS) :]}
    columns = COLUMNS + tuple(sorted(own, key=lambda column: column.name))
    names = [column.name for column in columns]
    values = np.empty((len(candidates), len(columns)))
    for at in reversed(starts):  # each chunk goes before the next is copied
        values[at : at + rows] = in_columns(chunks.pop(), names)
    return FeatureTable(values, columns)
