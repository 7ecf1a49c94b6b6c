import pytest

from costmodel.learners import KernelRidge, RidgeLearner, WeightedConsensus
from costmodel.testing import LEARNER_CHECKS, TRANSFER_CHECKS
from costmodel.transfer import (
    Conformal,
    FromScratch,
    Guarded,
    PooledMultitask,
    PredictedOptimum,
    Residual,
    RidgeOnSources,
    SimilarSources,
    SourceMixture,
)

TASK = (0, 1)
MODELS = {
    "residual": lambda: Residual(RidgeLearner()),
    "scratch": FromScratch,
    "ridge on sources": lambda: RidgeOnSources(TASK),
    "source mixture": lambda: SourceMixture(TASK, (0,)),
    "joined task": lambda: PooledMultitask(KernelRidge(landmarks=20), source_rows=60),
    "predicted optimum": lambda: Residual(PredictedOptimum(TASK)),
    "similar sources": lambda: SimilarSources(Residual(WeightedConsensus(TASK)), TASK, k=2),
    "guarded": lambda: Guarded(Residual(RidgeLearner()), FromScratch(), TASK, folds=2),
    "intervals": lambda: Conformal(Residual(RidgeLearner()), TASK, (0,), folds=2),
    "intervals without latency": lambda: Conformal(Residual(WeightedConsensus(TASK)), TASK, folds=2),
    "guarded intervals": lambda: Conformal(
        Guarded(Residual(RidgeLearner()), FromScratch(), TASK, folds=2), TASK, folds=2
    ),
}


@pytest.mark.parametrize("check", TRANSFER_CHECKS)
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS.keys())
def test_models_keep_the_contract(make, check) -> None:
    check(make)


@pytest.mark.parametrize("check", LEARNER_CHECKS)
def test_predicted_optimum_is_a_learner(check) -> None:
    check(lambda: PredictedOptimum(TASK))
