"""A question: kernels that are known, and kernels whose latencies are asked for and kept apart.

What holds the question holds no answer, so that an entry cannot look. All that is drawn is drawn by a salted
hash of names: no seed, no order of rows and no version of a library enters.

Notations:
    n: rows, k of which are known, m measured and a asked; d: feature columns.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from costmodel.arrays import FloatArray, Positions
from costmodel.columns import Column

SALT = "costmodel-bench-1"
"""The salt of the published split. Another one makes another split of the same data."""

KNOWN, MEASURED, ASKED = "known", "measured", "asked"


def draw_names(names: Iterable[str], salt: str) -> FloatArray:
    """Return a number in [0, 1) for each name, from the SHA-256 of the salt and the name."""
    digests = b"".join(hashlib.sha256(f"{salt}/{name}".encode()).digest()[:8] for name in names)
    # 53 bits fit a float64.
    return (np.frombuffer(digests, dtype=">u8") >> 11) / 2**53


def short_ids(names: Iterable[str]) -> list[str]:
    """Return the first 16 hexadecimal digits of the SHA-256 of each name."""
    return [hashlib.sha256(name.encode()).hexdigest()[:16] for name in names]


@dataclass(frozen=True, eq=False)
class BenchQuestion:
    """What is known, and what is asked.

    Attributes:
        name: Name of the question.
        rows: A row for each kernel on a platform: ``id`` (16 hexadecimal digits of the SHA-256 of both),
            ``role`` (``known``: to learn from; ``measured``: one of the first measurements of an asked task;
            ``asked``), ``task``, ``workload``, ``kind``, ``device``, ``sms_granted``, ``config`` (the
            parameters as JSON) and ``latency_s`` (inf for a failure, NaN where it is asked).
        features: ``(n, d)`` what this package knows of a kernel before it runs; NaN where that is nothing.
        columns: The d columns.
    """

    name: str
    rows: pd.DataFrame
    features: FloatArray
    columns: tuple[Column, ...]

    @cached_property
    def known(self) -> Positions:
        """``(k,)`` positions of the rows to learn from."""
        return self._of(KNOWN)

    @cached_property
    def measured(self) -> Positions:
        """``(m,)`` positions of the first measurements of the asked tasks."""
        return self._of(MEASURED)

    @cached_property
    def asked(self) -> Positions:
        """``(a,)`` positions of the rows that an answer is about, in its order."""
        return self._of(ASKED)

    @cached_property
    def latency_s(self) -> FloatArray:
        """``(n,)`` latency of each row; NaN where it is asked."""
        return self.rows["latency_s"].to_numpy(dtype=np.float64)

    @cached_property
    def tasks(self) -> NDArray[np.str_]:
        """``(n,)`` task of each row: kernels of one task may be compared."""
        return self.rows["task"].to_numpy(dtype=np.str_)

    @cached_property
    def known_digest(self) -> str:
        """SHA-256 of what is known: questions with the same one are learned from once."""
        known = self.rows.iloc[self.known]
        text = "".join(known["id"]).encode() + self.latency_s[self.known].tobytes()
        return hashlib.sha256(text).hexdigest()

    def column(self, name: str) -> FloatArray:
        """Return ``(n,)`` values of the feature of this name; NaN in all rows if there is none.

        Numbers that span orders of magnitude are logarithms to the base 2, and so are their names.
        """
        names = [column.name for column in self.columns]
        return self.features[:, names.index(name)] if name in names else np.full(len(self.rows), np.nan)

    def asked_tasks(self) -> Iterator[tuple[Positions, Positions, Positions]]:
        """Yield for each asked task positions of its asked rows, in the answer and here, and its measured."""
        measured = pd.Series(self.measured).groupby(self.tasks[self.measured]).indices
        none = np.zeros(0, np.intp)
        for task, indices in pd.Series(self.asked).groupby(self.tasks[self.asked]).indices.items():
            places = np.asarray(indices, np.intp)
            yield places, self.asked[places], self.measured[measured.get(task, none)]

    def _of(self, role: str) -> Positions:
        return np.flatnonzero((self.rows["role"] == role).to_numpy())


@dataclass(frozen=True, eq=False)
class AnswerKey:
    """What the judge knows.

    Attributes:
        latency_s: ``(a,)`` latency of each asked row; inf for a failure.
        whole_s: ``(a,)`` latency of the same kernel on its whole device; inf where it was not measured.
    """

    latency_s: FloatArray
    whole_s: FloatArray


@dataclass(frozen=True, eq=False)
class Posed:
    """A question with its key.

    Attributes:
        question: What entries see.
        key: What they do not.
        data: SHA-256 of each dataset that it is made of, by name.
    """

    question: BenchQuestion
    key: AnswerKey
    data: dict[str, str]

    @property
    def digest(self) -> str:
        """SHA-256 of the ids that are asked, and of what is known."""
        rows = self.question.rows
        lines = (rows["id"] + " " + rows["role"]).sort_values()
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()
