"""Which of the kernels that were bred are worth measuring, and in which order."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray, Positions
from costmodel.records._candidate import Candidate
from costmodel.search.proposals._decisions import SKETCH
from costmodel.search.proposals._improvement import ImprovementModel

# Most promising candidates of each budget, and of each sketch at each budget, that the choice is made from.
_FINALISTS, _FINALISTS_OF_SKETCH = 64, 8
# Every how many proposals one explores. Every fourth, every sixth and never found kernels as fast; exploring
# is there for the model that is wrong, and for variety in what is measured.
_EXPLORE_EVERY = 6


def best_first(model: ImprovementModel, pool: Sequence[Candidate]) -> Iterator[Candidate]:
    """Candidates in the order in which to measure them; the model is conditioned on each before the next."""
    rows, sketches = model.rows(pool), np.array([str(c.config.decisions.get(SKETCH)) for c in pool])
    left = finalists(model.improvement(rows), sketches)
    turn = 0
    for place in range(1, len(left) + 1):
        improvement = model.improvement(rows[left])
        if place % _EXPLORE_EVERY:
            at = int(improvement[:, turn % improvement.shape[1]].argmax())
            turn += 1
        else:
            at = least_known(model.std(rows[left]), improvement.max(axis=1), sketches[left])
        model = model.condition_on(rows[[left[at]]])
        yield pool[left.pop(at)]


def finalists(improvement: FloatArray, sketches: NDArray[np.str_]) -> list[int]:
    """Rows with the largest improvements at any budget, and those of each sketch."""
    of_sketches = [np.flatnonzero(sketches == sketch) for sketch in np.unique(sketches)]
    found = [
        leaders(improvement, _FINALISTS),
        *(rows[leaders(improvement[rows], _FINALISTS_OF_SKETCH)] for rows in of_sketches),
    ]
    return [int(row) for row in np.unique(np.concatenate(found))]


def least_known(std: FloatArray, improvement: FloatArray, sketches: NDArray[np.str_]) -> int:
    """Position of the largest std among the most promising quarter of each sketch.

    A sketch of which little was measured so gets its chance, even if that little was slow.
    """
    promising = np.zeros(len(std), dtype=bool)
    for sketch in np.unique(sketches):
        same = sketches == sketch
        promising |= same & (improvement >= np.quantile(improvement[same], 0.75))
    return int(np.where(promising, std, -1.0).argmax())


def leaders(values: FloatArray, count: int) -> Positions:
    """Rows that hold one of the ``count`` largest values of any column."""
    return np.unique(np.argsort(-values, axis=0, kind="stable")[:count])
