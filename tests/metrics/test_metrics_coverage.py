import math

import numpy as np
import pytest

from costmodel.metrics import coverage_score, log_width_error


def test_coverage_counts_what_ran_and_includes_the_ends() -> None:
    low, high = np.full(5, 1.0), np.full(5, 2.0)
    assert coverage_score(low, high, np.array([1.0, 2.0, 1.5, 2.1, np.inf])) == 0.75
    assert math.isnan(coverage_score(low, high, np.full(5, np.inf)))


def test_width_is_that_of_the_logarithm() -> None:
    assert log_width_error(np.array([1.0, 2.0]), np.array([math.e, 2.0])) == pytest.approx(0.5)
    assert math.isnan(log_width_error(np.array([]), np.array([])))


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match="must have one shape"):
        coverage_score(np.ones(2), np.ones(3), np.ones(2))
