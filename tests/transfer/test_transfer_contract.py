import pytest

from costmodel.learners import RidgeLearner
from costmodel.learners._source_rules import WeightedConsensus
from costmodel.testing import TRANSFER_CHECKS
from costmodel.transfer.models._conformal import Conformal
from costmodel.transfer.models._guarded import Guarded
from costmodel.transfer.models._residual import FromScratch, Residual
from costmodel.transfer.models._ridge_on_sources import RidgeOnSources
from costmodel.transfer.models._source_mixture import SourceMixture

pytestmark = pytest.mark.white_box

TASK = (0, 1)
MODELS = {
    "residual": lambda: Residual(RidgeLearner()),
    "scratch": FromScratch,
    "ridge on sources": lambda: RidgeOnSources(TASK),
    "source mixture": lambda: SourceMixture(TASK, (0,)),
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
