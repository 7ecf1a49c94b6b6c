"""What learners say of tasks that were held out: by shape, by the distribution of their data, or by SMs."""

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from kit.held_out import predict_held_out
from numpy.typing import NDArray
from rich.progress import track

from costmodel.dataset import Dataset
from costmodel.dataset.splits._folds import Fold
from costmodel.records import Candidate, Workload
from costmodel.transfer import LearningRows, make_model

# What of a workload's dims is a shape; the others say what its data are like.
_SHAPES = {
    "cuda.sparse_linear_float16": "nk",
    "cuda.sparse_linear_float32": "nk",
    "cuda.spike_delivery": "nc",
    "cuda.lif_update": "n",
    "cuda.embedding_bag": "rd",
    "cuda.embedding_bag_backward": "rd",
}
# Families that compute alike, so that a shape of one is a twin of the other's.
_ALIKE = {
    "cuda.sparse_linear_float16": "sparse_linear",
    "cuda.sparse_linear_float32": "sparse_linear",
    "cuda.embedding_bag": "embedding_bag",
    "cuda.embedding_bag_backward": "embedding_bag",
}
# How much is in the arrays, which no distribution says.
_SIZES = {"sparse_linear": "m", "embedding_bag": "bl", "cuda.spike_delivery": "", "cuda.lif_update": ""}


def shape(workload: Workload, _: int) -> str:
    """The layer, network or table."""
    return _named(workload, _SHAPES[workload.kind])


def distribution(workload: Workload, _: int) -> str:
    """What the data are like, whatever the layer, network or table."""
    family = _ALIKE.get(workload.kind, workload.kind)
    others = set(workload.dims) - set(_SHAPES[workload.kind]) - set(_SIZES[family])
    return _named(workload, others)


def sms(_: Workload, granted: int) -> str:
    """The SM budget."""
    return str(granted)


def way(candidate: Candidate) -> str:
    """How a config computes: the call of PyTorch, or the kernel's variant."""
    chosen = candidate.config.decisions
    return f"PyTorch, {chosen['call']}" if "call" in chosen else str(chosen.get("variant", candidate.source))


def threads(candidate: Candidate) -> str:
    """The way, and how many threads take a spike or a neuron together."""
    chosen = candidate.config.decisions
    return f"{way(candidate)}, {chosen['group_size']}" if "group_size" in chosen else way(candidate)


def known(data: Dataset) -> pd.DataFrame:
    """Rows of a dataset with the way of their config, its threads, and what they may be held out by."""
    rows = data.rows
    at, platforms = rows["candidate"].to_numpy(), rows["sms_granted"].to_numpy()
    every = [data.candidates[i] for i in range(len(data.candidates))]
    groups = {group.__name__: group for group in (shape, distribution, sms)}
    named = {
        name: [group(every[i].workload, int(s)) for i, s in zip(at, platforms, strict=True)]
        for name, group in groups.items()
    }
    ways = {of.__name__: np.array([of(each) for each in every], dtype=object)[at] for of in (way, threads)}
    return rows.assign(**ways, family=[_ALIKE.get(k, k) for k in rows["kind"]], **named)


def predicted(
    learning: LearningRows, rows: pd.DataFrame, by: str, folds: int, learners: Sequence[str]
) -> pd.DataFrame:
    """What each learner says of every row, having learned from none of its fold's.

    Args:
        learning: Features and latencies of a dataset.
        rows: What ``known`` gives of it.
        by: The column whose values are held out together.
        folds: Number of folds; each holds out about as many of those values.
        learners: Names of learners.

    Returns:
        The rows with ``learner``, ``fold``, ``score`` and ``predicted_s`` (NaN where a learner ranks only),
        once a learner.
    """
    fold = _folds(rows, by, folds)
    split = [Fold.of(f"{by} {i}", fold == i) for i in np.unique(fold)]
    found = []
    for learner in track(learners, f"held out by {by}", disable=not sys.stderr.isatty()):
        said = predict_held_out(learning, split, partial(make_model, learner))
        seconds = np.nan if said.latency_s is None else said.latency_s
        found.append(rows.assign(learner=learner, fold=fold, score=said.score, predicted_s=seconds))
    return pd.concat(found, ignore_index=True)


def _folds(rows: pd.DataFrame, by: str, count: int) -> NDArray[np.int64]:
    """``(n,)`` fold of each row: values of one family are dealt in turn."""
    fold: dict[tuple[str, str], int] = {}
    for _, values in rows[["family", by]].drop_duplicates().sort_values([by]).groupby("family"):
        for i, (family, value) in enumerate(values.itertuples(index=False)):
            fold[family, value] = i % count
    return np.array([fold[key] for key in zip(rows["family"], rows[by], strict=True)])


def _named(workload: Workload, dims: Any) -> str:
    family = _ALIKE.get(workload.kind, workload.kind)
    sizes: Mapping[str, int] = workload.dims
    return "-".join([family, *(f"{dim}{sizes[dim]}" for dim in sizes if dim in dims)])
