"""What is kept of a screened space."""

import numpy as np
import pytest
from optuna.distributions import IntDistribution

from costmodel.arrays import FloatArray
from costmodel.records import Config
from costmodel.search import DeclaredSpace
from costmodel.search.samplers._prediction import JointPrediction
from costmodel.search.samplers._screening import screen

pytestmark = pytest.mark.white_box


class Gentle(DeclaredSpace):
    """A neighbour is one step to the left: of the best, it is among the best, as for a softmax."""

    def neighbours(self, config: Config, count: int, rng: np.random.Generator) -> list[Config]:
        x = int(config.decisions["x"])
        return [self.config({"x": max(1, x - 1)})]


class SmallIsGood:
    """Cannot predict nothing, like some learners."""

    def predict(self, X: FloatArray) -> JointPrediction:
        assert len(X)
        return JointPrediction(-X[:, 0, 0], None)


def test_neighbours_that_are_all_kept_already_add_nothing():
    space = Gentle("line", {"x": IntDistribution(1, 4000)})
    kept = screen(space, SmallIsGood(), 20_000, np.random.default_rng(0))
    assert len(set(kept.ids)) == len(kept) > 2048
    assert {"x": 1} in [config.decisions for config in kept.configs]
