"""WaveTune's form: the latency of each kernel is bilinear in its blocks and its turns, wave by wave."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.benchmark._entry import BenchEntry
from costmodel.benchmark._question import BenchQuestion
from costmodel.learners._base import Prediction

_MOST_WAVES = 4  # from which on waves are alike
_FEWEST = 8  # measurements that four weights are fitted to
_KERNEL = ("kind", "block_m", "block_n", "block_k", "stages", "warps", "splits", "algorithm")
_TILE = ("kind", "block_m", "block_n", "block_k")
# What weights are shared by, the first that has been measured often enough.
_SHARED_BY = (
    ("dtype", "regime", *_KERNEL),
    ("dtype", "regime", *_TILE),
    ("dtype", *_TILE),
    ("dtype", "regime"),
    ("dtype",),
    (),
)


class WaveTune(BenchEntry):
    """Weights of 1, waves, turns and waves x turns, for each kernel and number of waves."""

    name = "wavetune"
    about = (
        "Latency = a + b w + c t + d w t, with w the waves that blocks fill and t the turns of the main "
        "loop, fitted for each kernel and number of waves (WaveTune, arXiv:2604.10187). Blocks are waves "
        "of the granted SMs, since the paper has one number of SMs; weights are not negative, and shared by "
        "tile where a kernel was measured less than eight times."
    )

    def can_answer(self, question: BenchQuestion) -> bool:
        """Only where kernels were measured for other shapes."""
        return question.name == "products"

    def answer(self, question: BenchQuestion, seed: int = 0) -> Prediction:
        """Seconds by the weights of what was measured most alike."""
        terms, facts = _terms(question), _facts(question)
        latency_s = np.full(len(question.rows), np.nan)
        for names in _SHARED_BY:
            for fitted, asked in _groups(question, facts, names, np.isnan(latency_s)):
                weights = fit_bilinear(terms[fitted], question.latency_s[fitted])
                latency_s[asked] = terms[asked] @ weights
        found = np.maximum(latency_s[question.asked], np.nanmin(question.latency_s))
        return Prediction(-np.log(found), found)


def fit_bilinear(terms: FloatArray, latency_s: FloatArray) -> FloatArray:
    """Return ``(4,)`` weights that are not negative, of the least relative error.

    Args:
        terms: ``(n, 4)`` 1, waves, turns and their product.
        latency_s: ``(n,)`` what was measured.
    """
    from scipy.optimize import nnls

    relative = terms / latency_s[:, None]
    length = np.linalg.norm(relative, axis=0)  # columns of one length: waves may be thousands
    weights, _ = nnls(relative / length, np.ones(len(relative)))
    return np.asarray(weights / length)


def _terms(question: BenchQuestion) -> FloatArray:
    """``(n, 4)`` 1, waves as a fraction, turns, and their product."""
    programs, per_sm, slabs = (np.exp2(_column(question, name)) for name in ("programs", "per_sm", "slabs"))
    waves = programs / (per_sm * np.exp2(_column(question, "log_sms")))
    return np.stack([np.ones(len(waves)), waves, slabs, waves * slabs], axis=1)


def _facts(question: BenchQuestion) -> pd.DataFrame:
    facts = {name: _column(question, name) for name in ("dtype", *_KERNEL)}
    regime = np.minimum(np.exp2(_column(question, "waves")), _MOST_WAVES)
    return pd.DataFrame({**facts, "regime": regime})


def _column(question: BenchQuestion, name: str) -> FloatArray:
    return question.column(f"product/{name}")


def _groups(
    question: BenchQuestion, facts: pd.DataFrame, names: tuple[str, ...], open_rows: NDArray[np.bool_]
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Rows that are known, and asked ones without an answer, of each group that was measured often enough."""
    places = np.arange(len(facts))
    is_known, is_asked = np.isin(places, question.known), np.isin(places, question.asked)
    number = facts.groupby(list(names), sort=False).ngroup() if names else pd.Series(0, facts.index)
    for indices in number.groupby(number).indices.values():
        group = np.asarray(indices, np.intp)
        known, asked = group[is_known[group]], group[is_asked[group] & open_rows[group]]
        if len(known) >= _FEWEST and len(asked):
            yield known, asked


ENTRIES = (WaveTune(),)
