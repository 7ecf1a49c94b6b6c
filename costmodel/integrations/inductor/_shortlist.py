"""Which candidates are compiled and timed, and which of those that are alike is taken."""

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from costmodel.arrays import FloatArray

# Timings that differ by less than this are alike: two rounds of Inductor's timer differ as much.
NOISE = 0.01

_Key = TypeVar("_Key", bound=Hashable)


def choose_to_time(seconds: FloatArray, of_library: Sequence[bool], keep: int) -> list[int]:
    """Choose candidates to time, the most promising first.

    The library's are always among them. Ties go by the order of the candidates, so that processes that rank
    the same candidates choose the same.

    Args:
        seconds: Predicted latency of each candidate; nan where none is known.
        of_library: Whether each is a call of the library.
        keep: How many to time; with 0, the one to take without timing.

    Returns:
        Positions. One is returned for ``keep=0``; else ``keep``, or all of the library's if these are more.
    """
    order = np.argsort(seconds, kind="stable").tolist()  # nan comes last
    called = [i for i in order if of_library[i]]
    if not keep:
        best = order[0]
        return called[:1] if called and np.isnan(seconds[best]) else [best]
    others = [i for i in order if not of_library[i]]
    chosen = {*called, *others[: max(0, keep - len(called))]}
    return [i for i in order if i in chosen]


def even_out(timings: Mapping[_Key, float]) -> dict[_Key, float]:
    """Give candidates that are alike to the best the same time, so that the first of them is taken.

    Args:
        timings: Latency of each candidate, in the order in which those that are alike are to be taken.
    """
    best = min(timings.values(), default=np.inf)
    return {each: best if latency <= best * (1 + NOISE) else latency for each, latency in timings.items()}
