from typing import Self

import numpy as np
import pytest

from costmodel.learners import Prediction
from costmodel.transfer import TransferModel


class Oracle(TransferModel):
    """Knows every latency of one pool, and notes what it is adapted to."""

    def __init__(self, pool, latencies):
        features = pool.features([candidate.config for candidate in pool.candidates])[:, 0]
        self.rows = {tuple(np.nan_to_num(row)): y for row, y in zip(features, latencies, strict=True)}
        self.adapted_to = []

    def fit(self, X, y, task_ids) -> Self:
        return self

    def predict(self, X):
        latency = np.array([self.rows[tuple(np.nan_to_num(row))] for row in X])
        return Prediction(score=-np.minimum(latency, 1.0), latency_s=latency)

    def adapt(self, X, y):
        self.adapted_to.append(y)
        return self


class Ignorant(TransferModel):
    """Knows nothing: all candidates are equal to it."""

    def fit(self, X, y, task_ids) -> Self:
        return self

    def predict(self, X):
        return Prediction(score=np.zeros(len(X)))

    def adapt(self, X, y):
        return self


@pytest.fixture(scope="session")
def latencies(records):
    return np.array([m.latency_s for m in records if m.platform.sms_granted == 32])


@pytest.fixture
def oracle(pool, latencies):
    return Oracle(pool, latencies)


@pytest.fixture
def ignorant():
    return Ignorant()
