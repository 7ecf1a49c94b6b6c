"""Do records of other sources help? Models that learn with and without them, judged on the same tasks."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from budgets import with_rows
from held_out import Known, kernel_folds, of_source, shape_folds
from kit.held_out import predict_held_out
from kit.judging import judge_scores
from numpy.typing import NDArray

from costmodel.arrays import Positions
from costmodel.dataset import Dataset
from costmodel.dataset.splits._folds import Fold, draw_rows
from costmodel.evaluation._sides import join
from costmodel.learners._statistics import cluster_bootstrap_interval
from costmodel.transfer import LearningRows, make_model

OWN = "own records alone"

Mask = NDArray[np.bool_]


def like(data: Dataset, source: str, measured: Dataset, most: int) -> Dataset:
    """What a dataset has of a source on the parts of GPUs that another has, in few configs a workload."""
    own = of_source(data, source)
    places = set(zip(measured.rows["device"], measured.rows["sms_granted"], strict=True))
    shared = np.array([(each.device.name, each.sms_granted) in places for each in own.platforms])
    drawn = with_rows(own, shared[own.measurements["platform"]])
    draws = pd.Series(draw_rows(drawn, 0)).groupby(drawn.rows["candidate"].to_numpy()).min()
    workload = drawn.columns.workload_of[draws.index.to_numpy()]
    kept = draws.index[draws.groupby(workload).rank().to_numpy() <= most]
    return with_rows(drawn, drawn.measurements["candidate"].isin(kept).to_numpy())


def judge_sharing(
    sources: Mapping[str, Dataset], judged: Sequence[str], learners: Sequence[str], folds: int
) -> pd.DataFrame:
    """Score@1 of each learner on tasks of each judged source.

    With ``judged`` (source), ``held_out`` (shapes or kernels) and ``trained``: with what other source. Shapes
    that are held out are held out of all sources; a kernel only of its own source, but its shapes of all.

    Args:
        sources: What each source measured.
        judged: Names of those whose tasks are judged.
        learners: Names.
        folds: Groups of held-out shapes.
    """
    joined = join(sources.values())
    data, known = LearningRows.of(joined), Known.of(joined)
    found = []
    for source in judged:
        for held_out, test, left in _sides(known, source, folds):
            for trained, names in _choices(source, known):
                place = {"judged": source, "held_out": held_out, "trained": trained}
                fold = Fold(trained, np.flatnonzero(left & np.isin(known.source, names)), test)
                for learner in learners if fold.train.size else ():
                    score = predict_held_out(data, [fold], partial(make_model, learner)).score
                    found.append(judge_scores(data.rows, score, (1,)).assign(learner=learner, **place))
    return pd.concat(found, ignore_index=True)


def _sides(known: Known, source: str, folds: int) -> Iterator[tuple[str, Positions, Mask]]:
    """What is held out of a source: its name, what is judged, and ``(n,)`` what may be learned from."""
    own = np.flatnonzero(known.source == source)
    mine = Known(known.source[own], known.family[own], known.kernel[own], known.shape[own])
    for held_out, groups in (("shapes", shape_folds(mine, folds)), ("kernels", kernel_folds(mine))):
        for fold in groups:
            test = own[fold.test]
            left = ~np.isin(known.shape, known.shape[test])
            left[test] = False
            yield held_out, test, left


def _choices(source: str, known: Known) -> list[tuple[str, list[str]]]:
    """What is learned from: a source alone, and with each other."""
    others = sorted(set(known.source) - {source})
    return [(OWN, [source]), *((f"and {other}", [source, other]) for other in others)]


def differences(results: pd.DataFrame) -> list[dict[str, Any]]:
    """Paired differences of Score@1 from learning without others, with intervals that draw workloads."""
    found = []
    for (judged, held_out, learner), group in results.groupby(["judged", "held_out", "learner"], sort=False):
        of = {
            name: rows.set_index("task")["score_at_1"] for name, rows in group.groupby("trained", sort=False)
        }
        workload = group.groupby("task", observed=True)["workload"].first().astype(str)
        for trained, scores in of.items():
            own = of[OWN]
            difference = (scores - own).to_numpy()
            low, high = cluster_bootstrap_interval(difference, workload.reindex(scores.index).to_numpy())
            found.append(
                {
                    **{"judged": judged, "held_out": held_out, "learner": learner, "trained": trained},
                    **{"tasks": len(scores), "median": float(scores.median()), "mean": float(scores.mean())},
                    "difference": float(difference.mean()),
                    "ci95": [low, high],
                }
            )
    return found
