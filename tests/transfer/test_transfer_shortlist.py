"""The list of which the best is expected to be best, and the belief that it is drawn from."""

import gzip
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from public_data import KERNEL_TUNER, needs_public_data
from scipy.stats import multivariate_normal

from costmodel.learners import Prediction
from costmodel.learners._source_rules import WeightedConsensus
from costmodel.transfer import shortlist
from costmodel.transfer._plan import Posterior
from costmodel.transfer.models._residual import Residual
from costmodel.transfer.models._source_mixture import SourceMixture

pytestmark = pytest.mark.white_box


@dataclass
class Known:
    """A belief that is given; column 0 of X is the candidate's number."""

    mean: np.ndarray
    covariance: np.ndarray

    def predict(self, X):
        return Prediction(-self.mean[X[:, 0].astype(int)])

    def std(self, X):
        return np.sqrt(np.diag(self.covariance))[X[:, 0].astype(int)]

    def posterior(self, X):
        at = X[:, 0].astype(int)
        return self.mean[at], self.covariance[np.ix_(at, at)]


def a_belief(n: int = 12) -> tuple[Known, np.ndarray]:
    rng = np.random.default_rng(3)
    root = rng.normal(size=(n, 4))
    belief = Known(0.3 * rng.normal(size=n), 0.2 * root @ root.T)
    return belief, np.column_stack([np.arange(n), rng.normal(size=n)]).astype(float)


def expected_score(drawn: np.ndarray, listed) -> float:
    """Expected best / best of those listed, over drawn log latencies."""
    return float(np.exp(drawn.min(axis=1) - drawn[:, list(listed)].min(axis=1)).mean())


def test_the_list_begins_with_the_best_score_and_nears_the_best_set_there_is() -> None:
    belief, X = a_belief()
    listed = shortlist(belief, X, 3)
    assert listed[0] == np.argmin(belief.mean)
    # Drawn by SciPy, not those that the list is made from.
    drawn = multivariate_normal(belief.mean, belief.covariance, allow_singular=True, seed=9).rvs(5_000)
    worth = expected_score(drawn, listed)
    assert worth > expected_score(drawn, np.argsort(belief.mean)[:3]) + 0.01
    best = max(expected_score(drawn, [listed[0], *two]) for two in combinations(range(12), 2))
    assert worth > 0.97 * best


def test_a_copy_comes_last_and_another_chance_first() -> None:
    # The second is nearly the first; the third is slower, and independent of it.
    belief = Known(np.array([0.0, 0.01, 0.1]), 0.04 * np.array([[1, 0.999, 0], [0.999, 1, 0], [0, 0, 1.0]]))
    X = np.arange(3.0)[:, None]
    assert shortlist(belief, X, 3).tolist() == [0, 2, 1]


def test_what_cannot_beat_the_best_measured_waits() -> None:
    # Number 0 is sure to be no better than what was measured; 1 may be.
    belief = Known(np.log([1.0, 1.2]), np.diag([1e-6, 0.09]))
    X = np.arange(2.0)[:, None]
    assert shortlist(belief, X, 2).tolist() == [0, 1]
    assert shortlist(belief, X, 2, best_s=0.98).tolist() == [1, 0]


def test_the_list_is_of_candidates_not_of_rows() -> None:
    belief, X = a_belief()
    order = np.random.default_rng(0).permutation(12)
    for k in (1, 5, 12, 40):
        listed = shortlist(belief, X, k)
        assert sorted(set(listed)) == sorted(listed)
        assert len(listed) == min(k, 12)
        np.testing.assert_array_equal(order[shortlist(belief, X[order], k)], listed)
        np.testing.assert_array_equal(shortlist(belief, X, k), listed)


def test_longer_lists_go_on_where_shorter_ones_end() -> None:
    belief, X = a_belief()
    np.testing.assert_array_equal(shortlist(belief, X, 8)[:4], shortlist(belief, X, 4))


def test_without_a_belief_the_best_scores_are_listed() -> None:
    class Sure:
        def predict(self, X):
            return Prediction(X[:, 0])

    X = np.array([[1.0, 2], [3, 1], [3, 0], [2, 0]])
    assert shortlist(Sure(), X, 3).tolist() == [2, 1, 3]
    with pytest.raises(ValueError, match="k must be at least 1"):
        shortlist(Sure(), X, 0)


def family(seed: int = 0):
    """Two architectures (column 1) of three devices each (column 0), which agree within and not across."""
    rng = np.random.default_rng(seed)
    config = np.array([[a, b, c] for a in range(5) for b in range(4) for c in range(3)], dtype=float)
    effects = rng.normal(size=(2, 60))
    rows = []
    for device in range(6):
        y = 1e-4 * np.exp(0.4 * effects[device % 2] + 0.02 * rng.normal(size=60))
        task = np.tile([device, device % 2], (60, 1))
        rows.append((np.column_stack([task, config]), y, np.full(60, device)))
    return tuple(np.concatenate(parts) for parts in zip(*rows, strict=True))


def without(X, y, tasks, task):
    known = tasks != task
    return (X[known], y[known], tasks[known]), (X[~known], y[~known])


def searched(model, X, y, *, near):
    """Positions of what a search by the best score measures until one is so near to the best."""
    seen: list[int] = []
    while not seen or y[seen].min() > near * y.min():
        left = np.setdiff1d(np.arange(len(y)), seen)
        if not left.size:
            break
        seen.append(int(left[np.argmax(model.propose(X[seen], y[seen]).predict(X[left]).score)]))
    return seen


def test_sources_of_the_same_architecture_are_believed() -> None:
    sources, (X, y) = without(*family(), 3)
    akin = SourceMixture((0, 1), (1,)).fit(*sources).predict(X).score
    everyone = SourceMixture((0, 1)).fit(*sources).predict(X).score
    assert np.corrcoef(akin, -np.log(y))[0, 1] > 0.98
    assert np.corrcoef(everyone, -np.log(y))[0, 1] < 0.9
    consensus = WeightedConsensus((0, 1)).fit(*sources).predict(X).score
    np.testing.assert_allclose(everyone, consensus)
    stranger = X.copy()
    stranger[:, 1] = 7.0
    model = SourceMixture((0, 1), (1,)).fit(*sources)
    known = WeightedConsensus((0, 1)).fit(*sources)
    np.testing.assert_allclose(model.predict(stranger).score, known.predict(stranger).score)


def test_the_covariance_is_the_one_described() -> None:
    sources, (X, _) = without(*family(), 3)
    model = SourceMixture((0, 1), mixing=0.7, deviation=0.3, length=0.5, bandwidth=np.inf).fit(*sources)
    mean, covariance = model.posterior(X)
    # Every source has measured every config, so that nothing is interpolated, and all weigh the same.
    score = np.array([-np.log(y) + np.log(y.min()) for y in np.split(sources[1], 5)])
    np.testing.assert_allclose(mean, -score.mean(axis=0), atol=1e-12)
    differing = (X[:, None, 2:] != X[None, :, 2:]).mean(axis=2)
    beyond = score - score.mean(axis=0)
    expected = 0.49 / 5 * beyond.T @ beyond + 0.09 * np.exp(-differing / 0.5)
    np.testing.assert_allclose(covariance, expected, atol=1e-10)
    std = model.std(X)
    np.testing.assert_allclose(std**2, np.diag(expected) + 0.02**2)


def test_measurements_find_the_architecture_that_no_column_tells() -> None:
    sources, (X, y) = without(*family(), 3)
    model = SourceMixture((0,), mixing=1.0).fit(*sources)
    first = shortlist(model, X, 8)
    adapted = model.adapt(X[first], y[first])
    before, after = (np.corrcoef(each.predict(X).score, -np.log(y))[0, 1] for each in (model, adapted))
    assert after > before + 0.05
    left = np.setdiff1d(np.arange(60), first)
    then = left[shortlist(adapted, X[left], 8, best_s=float(y[first].min()))]
    assert y[np.concatenate([first, then])].min() == y.min()


def test_measurements_tell_which_prior_is_right() -> None:
    sources, (X, y) = without(*family(), 3)
    adapted = SourceMixture((0,), mixing=0.0, bandwidth=np.inf).fit(*sources).adapt(X[::6], y[::6])
    # The mean of those akin, which are all here, the mean over all, and tasks 0, 1, 2, 4 and 5.
    assert adapted.informed.share.sum() == pytest.approx(1.0)
    assert adapted.informed.share[[3, 6]].sum() > 0.9
    assert adapted.weight > 0.9
    mean, covariance = adapted.posterior(X)
    np.testing.assert_allclose(adapted.predict(X).score, -mean)
    np.testing.assert_allclose(adapted.std(X) ** 2, np.diag(covariance) + 0.02**2)
    # After one measurement nobody is refuted, and where the sources disagree nobody is sure.
    unsure = SourceMixture((0,), mixing=0.0, bandwidth=np.inf).fit(*sources).adapt(X[:1], y[:1])
    np.testing.assert_allclose(unsure.informed.share, [0.25, 0.5, *[0.25 / 5] * 5])
    assert unsure.weight == pytest.approx(0.8)
    assert (unsure.std(X)[1:] > adapted.std(X)[1:]).mean() > 0.9


def test_a_search_begins_with_those_akin_and_then_the_mean_over_all() -> None:
    sources, (X, y) = without(*family(), 3)
    model = SourceMixture((0, 1), (1,)).fit(*sources)
    mean = np.mean([np.log(each.min() / each) for each in np.split(sources[1], 5)], axis=0)
    measured = searched(model, X, y, near=0.0)
    assert measured[0] == np.argmax(model.predict(X).score)
    assert set(measured) == set(range(60))
    best_first = np.argsort(-mean, kind="stable")
    assert measured[1:5] == best_first[~np.isin(best_first, measured[:1])][:4].tolist()


def test_a_search_leaves_sources_that_disappoint() -> None:
    (X_sources, y_sources, tasks), (X, y) = without(*family(), 3)
    noise = np.random.default_rng(0).permutation(y_sources)
    doubting = SourceMixture((0,)).fit(X_sources, noise, tasks)
    believing = SourceMixture((0,), doubt=1e-12).fit(X_sources, noise, tasks)
    adapted = [model.adapt(X[::3], y[::3]) for model in (doubting, believing)]
    assert adapted[0].weight < 0.2
    assert adapted[1].weight > 0.99
    unseen = np.arange(60) % 3 > 0
    told = [np.corrcoef(each.predict(X[unseen]).score, -np.log(y[unseen]))[0, 1] for each in adapted]
    assert told[0] > told[1]


def test_who_is_a_belief() -> None:
    sources, (X, y) = without(*family(), 3)
    plain = Residual(WeightedConsensus((0, 1))).fit(*sources)
    assert not isinstance(plain, Posterior)
    assert isinstance(plain.adapt(X[:2], y[:2]), Posterior)
    assert isinstance(SourceMixture((0, 1)), Posterior)


def convolution(device: str) -> tuple[np.ndarray, np.ndarray]:
    """Parameters and latencies of a kernel on one device."""
    path = KERNEL_TUNER / "single-team" / "convolution" / f"{device}.json.gz"
    cache = json.loads(gzip.decompress(path.read_bytes()))
    entries = cache["cache"].values()
    configs = [[float(entry[name]) for name in cache["tune_params_keys"]] for entry in entries]
    times = [entry["time"] for entry in entries]
    return np.array(configs), np.array([np.inf if isinstance(time, str) else 1e-3 * time for time in times])


@needs_public_data
def test_a_real_convolution_is_found_on_another_gpu_of_its_architecture() -> None:
    devices = {"RTX_3090": 86.0, "RTX_3060_laptop": 86.0, "RTX_2080_Ti": 75.0}
    rows = []
    for number, (device, architecture) in enumerate(devices.items()):
        configs, y = convolution(device)
        task = np.tile([number, architecture], (len(y), 1))
        rows.append((np.hstack([task, configs]), y, np.full(len(y), number)))
    sources, (X, y) = without(*(np.concatenate(parts) for parts in zip(*rows, strict=True)), 1)
    model, consensus = SourceMixture((0, 1), (1,)).fit(*sources), WeightedConsensus((0, 1)).fit(*sources)
    score_of = {each: y.min() / y[np.argmax(each.predict(X).score)] for each in (model, consensus)}
    assert score_of[model] > max(0.98, score_of[consensus])
    assert y.min() / y[shortlist(model, X, 10)].min() > 0.99


def test_of_no_candidates_there_is_no_list() -> None:
    belief, X = a_belief()
    for predictor in (belief, Residual(WeightedConsensus((0,))).fit(X, np.ones(len(X)), np.arange(len(X)))):
        assert shortlist(predictor, X[:0], 3).size == 0
        assert shortlist(predictor, X[:0], 1).size == 0


PARALLEL = """
from concurrent.futures import ThreadPoolExecutor
from threadpoolctl import threadpool_info
from test_transfer_shortlist import Known, a_belief
from costmodel.transfer import shortlist

def blas_threads():
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}

class Counting(Known):
    def posterior(self, X):
        seen.append(blas_threads())
        return super().posterior(X)

seen, before, (belief, X) = [], blas_threads(), a_belief()
belief = Counting(belief.mean, belief.covariance)
with ThreadPoolExecutor(4) as pool:
    listed = {tuple(found) for found in pool.map(lambda _: shortlist(belief, X, 3), range(24))}
print(before == blas_threads() == {2}, seen == 24 * [{1}], len(listed))
"""


def test_trials_that_are_proposed_at_once_share_no_threads_of_blas() -> None:
    paths = os.pathsep.join([*sys.path, str(Path(__file__).parent)])
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2", "PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, "-c", PARALLEL], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "True True 1\n"


def test_a_lone_source_of_another_device_is_followed_down_its_list() -> None:
    X, y, tasks = family()
    source, (target, latency_s) = [each[tasks == 0] for each in (X, y, tasks)], without(X, y, tasks, 3)[1]
    lone = SourceMixture((0, 1), device_columns=(0,)).fit(*source)
    listed = np.argsort(source[1], kind="stable").tolist()
    assert searched(lone, target, latency_s, near=0.0) == listed
    here = target.copy()  # on another part of the device that the source is of
    here[:, 0] = source[0][0, 0]
    assert searched(lone, here, latency_s, near=0.0) != listed
    several = without(X, y, tasks, 3)[0]
    told, untold = (SourceMixture((0, 1), device_columns=each).fit(*several) for each in ((0,), ()))
    assert searched(told, target, latency_s, near=0.0) == searched(untold, target, latency_s, near=0.0)
