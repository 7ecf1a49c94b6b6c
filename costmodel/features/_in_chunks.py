"""Features of millions of rows, in little more memory than what is known of them takes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from costmodel.arrays import FloatArray, Positions
from costmodel.columns import Column
from costmodel.features._extract import COLUMNS, extract
from costmodel.features._in_columns import in_columns
from costmodel.features._table import FeatureTable
from costmodel.records._candidate import Candidate
from costmodel.records._platform import Platform


@dataclass(frozen=True)
class KnownFeatures:
    """Features of n rows without the columns that are NaN in all of them: of kernels of other suites, most.

    Attributes:
        columns: The d columns, in order.
        size: n.
        known: Values of the other columns, each ``(n,)``, by position in ``columns``.
    """

    columns: tuple[Column, ...]
    size: int
    known: dict[int, FloatArray] = field(default_factory=dict)

    def __getitem__(self, rows: Positions) -> FloatArray:
        """``(m, d)`` features of the rows at m positions."""
        X = np.full((len(rows), len(self.columns)), np.nan)
        for i, values in self.known.items():
            X[:, i] = values[rows]
        return X

    @property
    def table(self) -> FeatureTable:
        """All rows with all columns."""
        return FeatureTable(self[np.arange(self.size)], self.columns)

    def write(self, start: int, X: FloatArray) -> None:
        """Write the ``(m, d)`` features of the m rows from ``start``."""
        for i, values in enumerate(X.T):
            if not np.isnan(values).all():
                column = self.known.setdefault(i, np.full(self.size, np.nan))
                column[start : start + len(X)] = values


def extract_in_chunks(chunks: Iterable[tuple[Sequence[Candidate], Sequence[Platform]]]) -> KnownFeatures:
    """What ``extract`` gives of all rows, made of the candidates and platforms of some at once."""
    parts = [_known(extract(candidates, platforms)) for candidates, platforms in chunks]
    own = {column for part in parts for column in part.columns[len(COLUMNS) :]}
    columns = COLUMNS + tuple(sorted(own, key=lambda column: column.name))
    found = KnownFeatures(columns, sum(part.size for part in parts))
    start = 0
    while parts:  # each goes before the next is copied
        part = parts.pop(0)
        found.write(start, in_columns(part.table, [column.name for column in columns]))
        start += part.size
    return found


def _known(table: FeatureTable) -> KnownFeatures:
    found = KnownFeatures(table.columns, len(table.values))
    found.write(0, table.values)
    return found
