import pytest

from costmodel.learners import (
    KernelRidge,
    Learner,
    NearestTask,
    RandomLearner,
    RidgeLearner,
    ScaledFromWhole,
    WeightedConsensus,
    XGBoostLearner,
)
from costmodel.testing import LEARNER_CHECKS, contract_rows
from costmodel.testing._learner_contract import LearnerFactory, check_fit_forgets, check_ignores_batch_mates

FACTORIES = {
    "random": RandomLearner,
    "nearest": lambda: NearestTask((0, 1)),
    "consensus": lambda: WeightedConsensus((0, 1)),
    "consensus without task columns": lambda: WeightedConsensus(()),
    "ridge": RidgeLearner,
    "kernel ridge": lambda: KernelRidge(landmarks=30),
    "kernel ridge with baseline": lambda: KernelRidge(0),
    "scaled": lambda: ScaledFromWhole(RidgeLearner(), XGBoostLearner(rounds=20), (2, 3), 0),
    "scaled, nothing known": lambda: ScaledFromWhole(XGBoostLearner(rounds=20), KernelRidge(), (0, 2, 3), 0),
    "xgboost": lambda: XGBoostLearner(rounds=20),
    "xgboost with baseline": lambda: XGBoostLearner(0, rounds=20),
}


@pytest.mark.parametrize("check", LEARNER_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("make", FACTORIES.values(), ids=FACTORIES.keys())
def test_learner_keeps_the_contract(make: LearnerFactory, check) -> None:
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


@pytest.mark.parametrize("check", [check_fit_forgets, check_ignores_batch_mates])
def test_contract_catches_a_learner_that_breaks_it(check) -> None:
    with pytest.raises(AssertionError):
        check(Hoarder)


def test_contract_rows_are_the_same_each_time() -> None:
    assert (contract_rows()[1] == contract_rows()[1]).all()
    assert issubclass(Hoarder, Learner)
