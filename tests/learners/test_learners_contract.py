import numpy as np
import pytest

from costmodel.learners import (
    KernelRidge,
    Learner,
    MultitaskNetwork,
    Prediction,
    RandomForestLearner,
    RidgeLearner,
    XGBoostLearner,
)
from costmodel.learners._analytic import AnalyticPrior
from costmodel.learners._known_elsewhere import KnownElsewhere
from costmodel.learners._random import RandomLearner
from costmodel.learners._scaled_from_whole import ScaledFromWhole
from costmodel.learners._source_rules import NearestTask, WeightedConsensus
from costmodel.learners._stack import AboveAnalytic, Committee, Stack
from costmodel.learners.trees._boosted_trees import XGBoostRanker, XGBoostScorer
from costmodel.testing import LEARNER_CHECKS, contract_rows

pytestmark = pytest.mark.white_box

CHECKS = {check.__name__: check for check in LEARNER_CHECKS}

FACTORIES = {
    "random": RandomLearner,
    "nearest": lambda: NearestTask((0, 1)),
    "consensus": lambda: WeightedConsensus((0, 1)),
    "consensus without task columns": lambda: WeightedConsensus(()),
    "consensus with baseline": lambda: WeightedConsensus(
        (0, 1), config_columns=(2, 4), baseline_column=0, sources=2
    ),
    "nearest with baseline": lambda: NearestTask((0, 1), config_columns=(2, 3), baseline_column=0),
    "ridge": RidgeLearner,
    "analytic": lambda: AnalyticPrior(0, (2, 4), 1),
    "kernel ridge": lambda: KernelRidge(landmarks=30),
    "kernel ridge with baseline": lambda: KernelRidge(0),
    "scaled": lambda: ScaledFromWhole(RidgeLearner(), XGBoostLearner(rounds=20), (2, 3), 0),
    "scaled, nothing known": lambda: ScaledFromWhole(XGBoostLearner(rounds=20), KernelRidge(), (0, 2, 3), 0),
    "known elsewhere": lambda: KnownElsewhere(
        ScaledFromWhole(RidgeLearner(), XGBoostLearner(rounds=20), (2, 3), 0), (0, 1)
    ),
    "known elsewhere, one kernel": lambda: KnownElsewhere(
        ScaledFromWhole(KernelRidge(), XGBoostLearner(rounds=20), (), 0), (0, 1)
    ),
    "xgboost": lambda: XGBoostLearner(rounds=20),
    "xgboost with baseline": lambda: XGBoostLearner(0, rounds=20),
    "xgboost rank": lambda: XGBoostRanker(rounds=20),
    "xgboost score": lambda: XGBoostScorer(rounds=20, row_share=0.5, split_share=0.5),
    "random forest": lambda: RandomForestLearner(0, trees=5),
    "random forest on drawn rows": lambda: RandomForestLearner(trees=3, rows=50),
    "stack": lambda: Stack((RidgeLearner(), KernelRidge(0, landmarks=20))),
    "above analytic times": lambda: AboveAnalytic(
        AnalyticPrior(0, (2, 4), 1), Stack((RidgeLearner(), XGBoostLearner(5, rounds=20)))
    ),
    "stack of weighted learners": lambda: Stack(
        (RandomLearner(), XGBoostRanker(rounds=9), RidgeLearner()), (0,), folds=3
    ),
    "committee": lambda: Committee((KernelRidge(0, landmarks=20), XGBoostScorer(rounds=9))),
    "stack without latency": lambda: Stack((RandomLearner(), XGBoostRanker(rounds=9)), (0, 1), folds=2),
}

NETWORKS = {
    "network": lambda: MultitaskNetwork((0,), 0, width=8, embedding=2, steps=12),
    "network without platforms": lambda: MultitaskNetwork(width=8, layers=1, steps=5, members=1),
}


@pytest.mark.parametrize("check", LEARNER_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("make", FACTORIES.values(), ids=FACTORIES.keys())
def test_learner_keeps_the_contract(make, check) -> None:
    check(make)


@pytest.mark.parametrize("make", FACTORIES.values(), ids=FACTORIES.keys())
def test_a_feature_is_a_number_or_left_out_but_not_infinite(make) -> None:
    X, y, tasks = contract_rows()
    fitted, infinite = make().fit(X, y, tasks), X.copy()
    infinite[3, 1] = -np.inf
    with pytest.raises(ValueError, match=r"NaN where one does not apply, but got columns \[1\]"):
        make().fit(infinite, y, tasks)
    with pytest.raises(ValueError, match="features must be finite"):
        fitted.predict(infinite)


@pytest.mark.torch
@pytest.mark.parametrize("check", LEARNER_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("make", NETWORKS.values(), ids=NETWORKS.keys())
def test_network_keeps_the_contract(make, check) -> None:
    check(make)


class Hoarder(RandomLearner):
    """Remembers the first fit, and scores by the batch."""

    def fit(self, X, y, task_ids):
        if not hasattr(self, "first_"):
            self.first_ = float(X[0, 2])
        return super().fit(X, y, task_ids)

    def predict(self, X):
        prediction = super().predict(X)
        return type(prediction)(prediction.score + self.first_ + X[:, 2].max())


@pytest.mark.parametrize("check", ["check_fit_forgets", "check_ignores_batch_mates"])
def test_contract_catches_a_learner_that_breaks_it(check) -> None:
    with pytest.raises(AssertionError):
        CHECKS[check](Hoarder)


class Interval(RidgeLearner):
    """Gives an interval of these factors around its latency."""

    low, high = 0.5, 2.0

    def predict(self, X):
        prediction = super().predict(X)
        low = None if self.low is None else self.low * prediction.latency_s
        return Prediction(prediction.score, prediction.latency_s, low, self.high * prediction.latency_s)


@pytest.mark.parametrize("check", LEARNER_CHECKS, ids=lambda check: check.__name__)
def test_learner_with_an_interval_keeps_the_contract(check) -> None:
    check(Interval)


@pytest.mark.parametrize(("low", "high"), [(1.1, 2.0), (0.5, 0.9), (None, 2.0), (-1.0, 2.0)])
def test_contract_catches_an_interval_out_of_order(low, high) -> None:
    broken = type("Broken", (Interval,), {"low": low, "high": high})
    with pytest.raises(AssertionError):
        CHECKS["check_gives_a_finite_score_for_each_row"](broken)


def test_contract_rows_are_the_same_each_time() -> None:
    assert (contract_rows()[1] == contract_rows()[1]).all()
    assert issubclass(Hoarder, Learner)
