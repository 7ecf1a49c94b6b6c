"""Proposals: the process against scikit-learn, improvement against chance, choice in real spaces."""

import math

import numpy as np
import pytest
from fake_records import fake_measurement, fake_measurements
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern

from costmodel.features._extract import COLUMNS
from costmodel.kernels import CudaSource, open_space, sample_candidates
from costmodel.learners import Prediction
from costmodel.learners._random import RandomLearner
from costmodel.records import Config, Device, Measurement, Outcome, Platform, Workload
from costmodel.search._gaussian_process import GaussianProcess
from costmodel.search._improvement import DecisionColumns, ImprovementModel
from costmodel.search._propose import finalists, least_known, propose_candidates
from costmodel.testing import LANDSCAPE_DEVICE

pytestmark = pytest.mark.white_box

WORKLOAD = Workload.parse("matmul-m64-n64-k64")
BUDGETS = (8, 132)


def data(seed, rows=30):
    """A smooth function of three columns; a fourth column never varies."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 4)) * [1.0, 10.0, 0.1, 0.0]
    return X, np.sin(X[:, 0]) + 0.1 * X[:, 1] + rng.normal(scale=0.1, size=rows)


def standardised(X):
    known, _ = data(0)
    return (X[:, :3] - known[:, :3].mean(axis=0)) / known[:, :3].std(axis=0)


def test_process_is_that_of_scikit_learn():
    (X, y), (asked, _) = data(0), data(1)
    process = GaussianProcess.fit(X, y)
    reference = GaussianProcessRegressor(Matern(math.sqrt(3.0), nu=1.5), alpha=0.03, optimizer=None)
    reference.fit(standardised(X), y - y.mean())
    mean, std = reference.predict(standardised(asked), return_std=True)
    np.testing.assert_allclose(process.predict(asked)[0], mean + y.mean())
    np.testing.assert_allclose(process.predict(asked)[1], std * math.sqrt(process.variance))


def test_variance_makes_the_rows_most_likely():
    X, y = data(0)
    covariance = Matern(math.sqrt(3.0), nu=1.5)(standardised(X)) + 0.03 * np.eye(len(X))

    def log_likelihood(variance):
        misfit = (y - y.mean()) @ np.linalg.solve(variance * covariance, y - y.mean())
        return -0.5 * (misfit + np.linalg.slogdet(variance * covariance)[1])

    variance = GaussianProcess.fit(X, y).variance
    assert log_likelihood(variance) > max(log_likelihood(0.95 * variance), log_likelihood(1.05 * variance))


def test_decisions_have_columns():
    """Tiles by level from the inside, numbers as they are, one column for each category."""
    configs = [
        Config({"sketch": 2, "tile.i": (3, 2, 8), "order": "row"}),
        Config({"sketch": 10, "unroll": 16, "order": "column"}),
    ]
    columns = DecisionColumns.of(configs)
    values = dict(zip(columns.names, columns.values(configs).T, strict=True))
    assert set(values) == {
        *(("sketch", sketch) for sketch in ("2", "10")),
        *(("order", order) for order in ("row", "column")),
        *(("tile.i", level) for level in (1, 2)),
        ("unroll", 0),
    }
    np.testing.assert_array_equal(values["tile.i", 1], [4.0, np.nan])
    np.testing.assert_array_equal(values["tile.i", 2], [3.0, np.nan])
    np.testing.assert_allclose(values["unroll", 0], [np.nan, math.asinh(16)])
    np.testing.assert_array_equal(values["sketch", "10"], [0.0, 1.0])
    np.testing.assert_array_equal(values["order", "row"], [1.0, 0.0])


def test_decisions_never_seen_have_no_column():
    columns = DecisionColumns.of([Config({"sketch": 0, "tile.i": (2, 2)})])
    np.testing.assert_array_equal(columns.values([Config({"sketch": 1, "tile.j": (2, 2)})]), [[0.0, np.nan]])
    assert columns.values([]).shape == (0, 2)


def test_prior_says_what_no_measurement_does():
    """What is learned is how far latency is above the prior, which must be a latency."""

    class Constant(RandomLearner):
        def predict(self, X):
            return Prediction(np.zeros(len(X)), np.full(len(X), 1e-3))

    measured = [fake_measurement(tile=tile, sms=sms) for tile in (1, 2, 3, 4) for sms in BUDGETS]
    model = ImprovementModel.fit(measured, Constant())
    rows = model.rows([m.candidate for m in measured[::2]])
    np.testing.assert_allclose(rows.bound, math.log(1e-3))
    above = np.log([m.latency_s for m in measured]) - math.log(1e-3)
    assert model.latency.mean == pytest.approx(above.mean())
    with pytest.raises(ValueError, match="scores only"):
        ImprovementModel.fit(
            measured, RandomLearner().fit(np.ones((1, len(COLUMNS))), np.ones(1), np.zeros(1))
        )


@settings(max_examples=25)
@given(st.integers(0, 1000), st.integers(1, 5))
def test_conditioning_on_the_mean_makes_surer_and_changes_no_mean(seed, count):
    (X, y), (asked, _) = data(seed), data(seed + 1)
    before = GaussianProcess.fit(X, y)
    after = before.condition_on(asked[:count])
    np.testing.assert_allclose(after.predict(asked)[0], before.predict(asked)[0], atol=1e-9)
    assert (after.predict(asked)[1] <= before.predict(asked)[1] + 1e-9).all()
    assert (after.predict(asked[:count])[1] < 0.3 * math.sqrt(before.variance)).all()


def test_rows_that_are_all_alike_are_no_error():
    process = GaussianProcess.fit(np.ones((3, 2)), np.full(3, 5.0))
    mean, std = process.predict(np.array([[1.0, np.nan]]))
    assert mean == pytest.approx(5.0)
    assert 0.0 < std[0] < 0.02


def test_improvement_is_its_mean_over_what_may_be():
    measured = [m for m in fake_measurements() if m.candidate.workload.kind == "matmul" and m.visit == 0]
    measured = [m for m in measured if m.outcome is Outcome.OK]
    model = ImprovementModel.fit(measured)
    rows = model.rows([fake_measurement(tile=tile).candidate for tile in (1, 3, 32)])
    above, std = model.latency.predict(rows.flat)
    may_be = np.random.default_rng(0).normal(rows.bound.ravel() + above, std, size=(200_000, above.size))
    best = [
        min(math.log(m.latency_s) for m in measured if m.platform == platform) for platform in model.platforms
    ]
    expected = np.maximum(0.0, np.tile(best, 3) - may_be).mean(axis=0).reshape(3, len(best))
    np.testing.assert_allclose(model.improvement(rows), expected, rtol=0.05, atol=1e-4)


def test_what_fails_promises_less_and_has_no_latency():
    """Failures of large tiles change what is expected of large tiles, and no predicted latency."""
    works = [fake_measurement(tile=tile, sms=sms) for tile in (1, 2, 3, 4) for sms in BUDGETS]
    fails = [
        fake_measurement(tile=tile, sms=sms, outcome=Outcome.COMPILE_ERROR)
        for tile in (32, 48, 64)
        for sms in BUDGETS
    ]
    naive, warned = ImprovementModel.fit(works), ImprovementModel.fit([*works, *fails])
    rows = naive.rows([fake_measurement(tile=tile).candidate for tile in (2, 40)])
    np.testing.assert_allclose(
        warned.latency.predict(rows.flat), naive.latency.predict(rows.flat), rtol=1e-12
    )
    share = warned.improvement(rows) / naive.improvement(rows)
    assert (share[0] > 0.9).all()
    assert (share[1] < 0.3).all()


def test_a_slow_sketch_of_which_little_is_known_gets_its_chance():
    improvement, std = np.r_[np.linspace(0.5, 0.1, 200), 0.001, 0.002], np.r_[np.full(200, 0.2), 0.9, 0.8]
    sketches = np.array(["known"] * 200 + ["new"] * 2)
    found = finalists(improvement[:, None], sketches)
    assert found == [*range(64), 200, 201]
    chosen = found[least_known(std[found], improvement[found], sketches[found])]
    assert chosen == 201  # not 200: of its own sketch it promises less than most


def test_each_sketch_has_its_own_finalists_at_each_budget():
    improvement = np.random.default_rng(0).random((300, 2)) + np.repeat([2.0, 1.0, 0.0], 100)[:, None]
    sketches = np.repeat(["a", "b", "c"], 100)
    expected = set()
    for budget in improvement.T:
        order = np.argsort(-budget)
        expected.update(order[:64], *(order[sketches[order] == sketch][:8] for sketch in "abc"))
    assert finalists(improvement, sketches) == sorted(expected)


def measure(candidates, kind="cuda"):
    """A formula of the launches that small and large parts of a GPU answer differently; big blocks fail."""
    isolation, device = "green_context", LANDSCAPE_DEVICE
    if kind == "cpu":
        isolation, device = "threads", Device("Test CPU", "cpu", "x86-64", sms=132, clock_mhz=2000.0)
    return [
        Measurement(
            candidate=candidate,
            platform=Platform(device, isolation, sms, sms),
            outcome=Outcome.LAUNCH_ERROR if fails(candidate) else Outcome.OK,
            latencies_s=() if fails(candidate) else (formula(candidate, sms),),
            measured_at="2026-11-21T10:00:00+00:00",
        )
        for candidate in candidates
        for sms in BUDGETS
    ]


def fails(candidate):
    return candidate.launches[0].threads_per_block > 256


def formula(candidate, sms):
    """Waves of blocks that are the slower, the farther the last two factors of each loop are from 2 and 4."""
    launch = candidate.launches[0]
    tiles = [value for value in candidate.config.decisions.values() if isinstance(value, tuple)]
    distance = sum(abs(math.log2(tile[-1]) - 2) + abs(math.log2(tile[-2]) - 1) for tile in tiles)
    return 1e-6 * math.ceil(launch.blocks / sms) / launch.blocks * (1 + distance)


def fastest(measured):
    return np.array([min(m.latency_s for m in measured if m.platform.sms_requested == s) for s in BUDGETS])


def propose(count, seed, measured, kind="cuda", *, workload=WORKLOAD, time_limit_s=math.inf):
    """Few draws for speed, and without a limit, so that slow machines choose the same."""
    return propose_candidates(
        workload,
        kind,
        count,
        seed,
        measured=measured,
        budgets=BUDGETS,
        time_limit_s=time_limit_s,
        generations=3,
        draws=24,
    )


@pytest.fixture(scope="module")
def first():
    pytest.importorskip("tvm")
    return measure(sample_candidates(WORKLOAD, "cuda", 12, 0))


@pytest.mark.tvm
def test_first_round_is_random():
    pytest.importorskip("tvm")
    assert propose(4, 3, []) == sample_candidates(WORKLOAD, "cuda", 4, 3)


@pytest.mark.tvm
def test_nothing_works_or_no_time_is_random_but_new(first):
    failed = [fake_measurement(outcome=Outcome.TIMEOUT)]
    assert len(propose(3, 0, failed)) == 3
    ids = {m.candidate.candidate_id for m in first}
    chosen = propose(4, 1, first, time_limit_s=0.0)
    assert len(chosen) == 4
    assert not ids & {candidate.candidate_id for candidate in chosen}


@pytest.mark.tvm
@pytest.mark.parametrize(("kind", "limit"), [("cuda", 0.7), ("cpu", 0.9)])
def test_proposals_beat_random_draws(kind, limit):
    """Over two campaigns: by chance, random draws win one at a budget."""
    pytest.importorskip("tvm")
    ratios = []
    for seed in (0, 1):
        start = sample_candidates(WORKLOAD, kind, 16, seed)
        by_model, at_random = measure(start, kind), measure(start, kind)
        for round_ in (1, 2):
            by_model += measure(propose(8, 10 * seed + round_, by_model, kind), kind)
            known = [m.candidate for m in at_random]
            draws = sample_candidates(WORKLOAD, kind, 8, 10 * seed + round_, known=known)
            at_random += measure(draws, kind)
        assert len({m.candidate.candidate_id for m in by_model}) == 32
        ratios.append(fastest(by_model) / fastest(at_random))
    assert np.prod(ratios) < limit


@pytest.mark.tvm
def test_proposals_are_distinct_and_deterministic(first):
    chosen = propose(12, 5, first)
    assert chosen == propose(12, 5, first)
    space = open_space(WORKLOAD, "cuda")
    assert len({space.program_hash(candidate.config) for candidate in chosen}) == 12


@pytest.mark.tvm
def test_a_small_space_ends():
    pytest.importorskip("tvm")
    workload = Workload.parse("softmax-m4-n4")  # some 40 programs
    known = sample_candidates(workload, "cuda", 10, 0)
    rest = propose(100, 0, measure(known), workload=workload)
    assert len({c.candidate_id for c in [*known, *rest]}) == 10 + len(rest)
    assert 20 <= len(rest) < 100


def test_the_first_round_begins_with_what_an_author_would_take():
    workload, source = Workload.parse("cuda.transpose-m64-n64"), CudaSource()
    proposed = propose_candidates(workload, "cuda", 3, 7, measured=[], budgets=(8,), source=source)
    assert proposed[0].config == source.space(workload, "cuda").default
    assert len({candidate.candidate_id for candidate in proposed}) == 3
