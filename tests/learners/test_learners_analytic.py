import numpy as np
import pytest
from scipy.optimize import lsq_linear

from costmodel.learners._analytic import AnalyticPrior

pytestmark = pytest.mark.white_box

BOUND, COMPONENTS, LAUNCHES = 0, (1, 2, 3), 4


@pytest.fixture
def kernels():
    """200 kernels: log2 of a bound, of three times over it, and launches."""
    rng = np.random.default_rng(0)
    bound = rng.uniform(-20, -14, size=200)
    over = rng.uniform(-1, 3, size=(200, 3))
    return np.column_stack([bound, over, rng.integers(1, 4, size=200)]).astype(np.float64)


def seconds(X):
    """Component times, bound and launches."""
    return np.column_stack([2.0 ** (X[:, 1:4] + X[:, :1]), 2.0 ** X[:, 0], X[:, 4]])


def test_weights_of_a_true_combination_are_found(kernels) -> None:
    truth = np.array([0.7, 0.2, 0.5, 1.0, 3e-6])
    y = seconds(kernels) @ truth
    learner = AnalyticPrior(BOUND, COMPONENTS, LAUNCHES).fit(kernels, y, np.zeros(200))
    np.testing.assert_allclose(learner.weights_, truth, rtol=1e-6)
    np.testing.assert_allclose(learner.predict(kernels).latency_s, y, rtol=1e-6)


def test_fit_is_the_bounded_least_squares_of_relative_errors(kernels) -> None:
    rng = np.random.default_rng(1)
    # The second component speeds kernels up, which no weight may say.
    y = seconds(kernels) @ np.array([0.7, 0.0, 0.5, 1.0, 3e-6]) * rng.lognormal(0.0, 0.2, size=200)
    y /= 2.0 ** (0.3 * kernels[:, 2])
    learner = AnalyticPrior(BOUND, COMPONENTS, LAUNCHES).fit(kernels, y, np.zeros(200))
    scale = np.array([1.0, 1.0, 1.0, 1.0, 1e-6])
    relative = seconds(kernels) * scale / y[:, None]
    reference = lsq_linear(relative, np.ones(200), bounds=(0.0, np.inf), tol=1e-14)
    residual = np.linalg.norm(relative @ (learner.weights_ / scale) - 1.0)
    assert (learner.weights_ >= 0.0).all()
    assert residual <= np.linalg.norm(relative @ reference.x - 1.0) * (1.0 + 1e-9)


def test_without_fit_all_times_add_up_and_never_undercut_the_bound(kernels) -> None:
    learner = AnalyticPrior(BOUND, COMPONENTS, LAUNCHES, launch_s=1e-6)
    expected = seconds(kernels) @ np.array([1.0, 1.0, 1.0, 1.0, 1e-6])
    np.testing.assert_allclose(learner.predict(kernels).latency_s, expected, rtol=1e-12)
    unknown = kernels.copy()
    unknown[:, 1:] = np.nan
    np.testing.assert_allclose(learner.predict(unknown).latency_s, 2.0 ** kernels[:, 0], rtol=1e-12)
    assert AnalyticPrior(BOUND, COMPONENTS).load_state(learner.state()).weights_ is None


def test_a_component_that_takes_longer_never_makes_a_kernel_faster(kernels) -> None:
    rng = np.random.default_rng(2)
    y = rng.lognormal(-11.0, 1.0, size=200)
    learner = AnalyticPrior(BOUND, COMPONENTS, LAUNCHES).fit(kernels, y, np.zeros(200))
    before = learner.predict(kernels).latency_s
    for column in (BOUND, *COMPONENTS, LAUNCHES):
        slower = kernels.copy()
        slower[:, column] += 1.0
        assert (learner.predict(slower).latency_s >= before).all()
