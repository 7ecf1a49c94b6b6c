import numpy as np
import pytest
from scipy.special import logit
from scipy.stats import norm, spearmanr
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from costmodel.errors import CostModelError
from costmodel.learners import KernelRidge
from costmodel.learners._source_rules import WeightedConsensus
from costmodel.transfer._plan import choose_first, rank_correlation
from costmodel.transfer.models._alone import Alone, transfer_turns
from costmodel.transfer.models._calibrated import Calibrated
from costmodel.transfer.models._guarded import Guarded, in_common_unit
from costmodel.transfer.models._residual import FromScratch, Residual

pytestmark = pytest.mark.white_box


def family(seed: int = 0, tasks: int = 12):
    """Tasks whose best config moves with the task's descriptor; X, y and task ids.

    Column 0 describes the task, columns 1 and 2 the config: log latency is a squared distance to t (0.5, -1).
    """
    rng = np.random.default_rng(seed)
    t = np.repeat(np.linspace(-1, 1, tasks), 60)
    config = np.tile(rng.uniform(-1.5, 1.5, size=(60, 2)), (tasks, 1))
    distance = (config[:, 0] - 0.5 * t) ** 2 + (config[:, 1] + t) ** 2
    number = np.repeat(np.arange(tasks), 60)
    y = 1e-5 * np.exp(distance + 0.02 * rng.normal(size=len(t)))
    return np.column_stack([t, config]), y, number


def without(X, y, tasks, task):
    known = tasks != task
    return (X[known], y[known], tasks[known]), (X[~known], y[~known])


def test_posterior_is_that_of_scikit_learns_gaussian_process() -> None:
    rng = np.random.default_rng(1)
    X, queries = rng.normal(size=(9, 2)), rng.normal(size=(5, 2))
    y = np.exp(rng.normal(size=9))
    kernel = ConstantKernel(0.09, "fixed") * RBF(0.7, "fixed")
    ours = Calibrated(lambda rows: rows[:, 0], kernel, X, y, noise=0.2, scale=0.5)
    reference = GaussianProcessRegressor(kernel + ConstantKernel(0.25, "fixed"), alpha=0.04, optimizer=None)
    reference.fit(X, np.log(y) - X[:, 0])
    mean, covariance = reference.predict(queries, return_cov=True)
    np.testing.assert_allclose(ours.posterior(queries)[0], queries[:, 0] + mean)
    np.testing.assert_allclose(ours.posterior(queries)[1], covariance, atol=1e-12)
    np.testing.assert_allclose(ours.std(queries), np.sqrt(np.diag(covariance) + 0.04))
    many = rng.normal(size=(300, 2))
    np.testing.assert_allclose(ours.std(many)[::7], ours.std(many[::7]))


def test_evidence_prefers_the_prior_that_orders_right_at_any_level_and_ignores_overconfidence() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 1))
    y = 1e-4 * np.exp(X[:, 0] + 0.3 * rng.normal(size=12))

    def independent(a, b):
        return np.zeros((len(a), len(b)))

    def evidence(slope: float, noise: float, factor: float = 1.0) -> float:
        adapted = Calibrated(
            lambda rows: slope * rows[:, 0],
            independent,
            X,
            factor * y,
            noise=noise,
        )
        return adapted.log_evidence()

    assert evidence(1.0, 0.05) > evidence(0.0, 0.05) + 2 > evidence(-1.0, 0.05) + 4
    assert evidence(1.0, 0.05) == pytest.approx(evidence(1.0, 0.05, factor=1e3))
    assert abs(evidence(1.0, 0.05) - evidence(1.0, 0.3)) < 12


def test_like_candidates_without_noise_are_refused_in_one_sentence() -> None:
    X = np.zeros((2, 1))
    for noise in (0.0, 1e-12):
        with pytest.raises(CostModelError, match="must tell measurements of like candidates apart"):
            Calibrated(
                lambda rows: np.zeros(len(rows)),
                lambda a, b: np.ones((len(a), len(b))),
                X,
                np.array([1e-5, 2e-5]),
                noise=noise,
            )


def test_level_surprise_counts_standard_deviations() -> None:
    X, zero = np.zeros((1, 1)), (lambda rows: np.zeros(len(rows)), lambda a, b: np.zeros((len(a), len(b))))
    adapted = Calibrated(*zero, X, np.exp([1.3]), noise=0.3, scale=0.4)
    assert adapted.level_surprise() == pytest.approx(1.3 / 0.5)
    assert Calibrated(*zero, X, np.exp([1.3]), noise=0.3).level_surprise() == 0.0


@pytest.mark.parametrize("values", [([1.0, 2, 3], [1.0, 3, 2]), ([1.0, 1, 2, 5], [4.0, 3, 3, 1])])
def test_rank_correlation_is_scipys(values) -> None:
    a, b = map(np.array, values)
    assert rank_correlation(a, b) == pytest.approx(spearmanr(a, b).statistic)
    assert rank_correlation(a, np.ones(len(a))) == 0.0
    assert rank_correlation(a, np.where(a == a.max(), np.inf, b)) <= 1.0


def test_what_is_measured_first_is_good_and_no_two_are_alike() -> None:
    X, y, tasks = family()
    sources, (target_X, target_y) = without(X, y, tasks, 6)
    model = Residual(WeightedConsensus((0,))).fit(*sources)
    twins = np.vstack([target_X, target_X + 1e-9])
    greedy, std = choose_first(model, twins, 8, optimism=0.0), choose_first(model, twins, 8, optimism=5.0)
    assert len(set(greedy % 60)) == 4
    assert len(set(std % 60)) >= 7
    worth = -np.log(np.tile(target_y, 2))
    assert worth[std].mean() > np.quantile(worth, 0.6)
    assert sorted(choose_first(model, target_X[:3], 8)) == [0, 1, 2]
    with pytest.raises(ValueError, match="m must be at least 1"):
        choose_first(model, target_X, 0)


def test_the_guard_trusts_sources_that_foretell_and_refuses_those_that_do_not() -> None:
    X, y, tasks = family()
    make = lambda: Guarded(Residual(WeightedConsensus((0,))), FromScratch(), (0,))  # noqa: E731
    honest = make().fit(X, y, tasks)
    assert honest.prior_trust_ == 0.9
    assert honest.predict(X).score.std() > 0
    shuffled = y.copy()
    for task in range(12):
        shuffled[tasks == task] = np.random.default_rng(task).permutation(y[tasks == task])
    misled = make().fit(X, shuffled, tasks)
    assert misled.refuses
    np.testing.assert_array_equal(misled.predict(X).score, 0.0)
    scratch = FromScratch().fit(X, y, tasks).adapt(X[:5], y[:5]).predict(X[:60]).score
    np.testing.assert_allclose(misled.adapt(X[:5], y[:5]).predict(X[:60]).score, scratch)


def test_tasks_in_which_nothing_can_be_ranked_say_nothing_against_the_sources() -> None:
    X, y, tasks = family()
    make = lambda: Guarded(Residual(KernelRidge()), FromScratch(), (0,))  # noqa: E731
    alone = X[:6] + np.array([0.0, 1.0, 1.0])  # one config of each of six tasks, one of which failed
    single = np.append(np.full(5, y[0]), np.inf)
    beside = np.vstack([X, alone]), np.append(y, single), np.append(tasks, 100 + np.arange(6))
    assert make().fit(*beside).prior_trust_ == pytest.approx(make().fit(X, y, tasks).prior_trust_)


def test_the_guard_gives_way_to_measurements_that_contradict() -> None:
    X, y, tasks = family()
    sources, (target_X, target_y) = without(X, y, tasks, 6)
    model = Guarded(Residual(KernelRidge()), FromScratch(), (0,)).fit(*sources)
    upside_down = target_y.max() * target_y.min() / target_y
    assert model.weight(target_X[:16], target_y[:16]) > 0.5
    assert spearmanr(model.predict(target_X).score, -upside_down).statistic < -0.9
    corrected = model.adapt(target_X[:16], upside_down[:16]).predict(target_X).score
    assert spearmanr(corrected, -upside_down).statistic > 0.6
    assert model.weight(target_X[:1], 1000 * target_y[:1]) < 0.05
    later = model.adapt(target_X[:9], 1000 * target_y[:9]).predict(target_X).score
    alone = model.fallback.adapt(target_X[:9], 1000 * target_y[:9]).predict(target_X).score
    assert np.abs(later - alone).max() < 0.05 * np.ptp(alone)


def test_a_level_speaks_by_how_likely_it_is_if_the_model_is_right_and_if_it_is_wrong() -> None:
    X, y, tasks = family()
    sources, (target_X, target_y) = without(X, y, tasks, 6)
    model = Guarded(Residual(KernelRidge()), FromScratch(), (0,), level_doubt=3.0).fit(*sources)
    measured = target_X[:3], 3.0 * target_y[:3]
    surprise = model.model.adapt(*measured).level_surprise()
    assert abs(surprise) > 1.0
    doubtful = logit(model.weight(*measured))
    model.level_doubt = 1.0  # right or wrong, a level is as likely: only the order counts
    spoken = doubtful - logit(model.weight(*measured))
    assert spoken == pytest.approx(norm.logpdf(surprise) - norm.logpdf(surprise, scale=3.0))


def test_what_is_unfamiliar_lowers_the_guards_trust() -> None:
    X, y, tasks = family()
    model = Guarded(Residual(KernelRidge()), FromScratch(), (0,)).fit(X, y, tasks)
    far = X[:1] + np.array([30.0, 0.0, 0.0])
    assert model.unfamiliarity(far)[0] > 3.0
    inf = np.array([np.inf])
    assert model.weight(far, inf) < model.weight(X[:1], inf) == pytest.approx(0.9)


def search(model, X, y, *, order: int = 0, until: float = 1.05) -> list[int]:
    """Positions in the order in which they are measured, until one is so near to the best, or to the end."""
    ties, seen = np.random.default_rng(order).random(len(y)), []
    while len(seen) < len(y) and (not seen or y[seen].min() > until * y.min()):
        score = model.propose(X[seen], y[seen]).predict(X).score.copy()
        score[seen] = -np.inf
        seen.append(int(np.lexsort([ties, -score])[0]))
    return seen


@pytest.mark.parametrize("allowed", [1.1, 1.25, 2.0, 3.5])
def test_the_guard_gives_away_all_that_it_may_and_no_more(allowed: float) -> None:
    transferred = transfer_turns(400, allowed)
    own = np.flatnonzero(~transferred) + 1  # measurements until each of the fallback's choices
    of_own = np.arange(1, len(own) + 1)
    assert (own <= allowed * of_own + 1e-9).all()
    assert (own + 1 > allowed * of_own + 1e-9).all()


def test_who_is_allowed_a_quarter_begins_with_three_of_its_own() -> None:
    assert np.flatnonzero(transfer_turns(14, 1.25)).tolist() == [3, 8, 13]
    assert np.flatnonzero(transfer_turns(4, 2.0)).tolist() == [0, 2]


def upside_down(target: int, **settings: float):
    """The guard after learning from tasks whose order is reversed, and the task to search."""
    X, y, tasks = family()
    sources, (target_X, _) = without(X, y.max() * y.min() / y, tasks, target)
    model = Guarded(Residual(KernelRidge()), FromScratch(), (0,), **settings).fit(*sources)
    assert not model.refuses
    return model, target_X, y[tasks == target]


@pytest.mark.parametrize("target", [0, 4, 8])
@pytest.mark.parametrize("allowed", [1.25, 2.0])
def test_no_search_takes_longer_than_allowed_with_sources_upside_down(target: int, allowed: float) -> None:
    model, X, y = upside_down(target, allowed=allowed)
    for order in range(4):
        own = len(search(model.fallback, X, y, order=order))
        assert len(search(model, X, y, order=order)) <= allowed * own


@pytest.mark.parametrize("target", [6, 8])
def test_a_guarded_search_is_that_of_the_fallback_with_others_in_between(target: int) -> None:
    model, X, y = upside_down(target)
    X, y = X[:20], y[:20]
    alone = search(model.fallback, X, y, until=0.0)
    guarded = search(model, X, y, until=0.0)
    by_others = set(np.array(guarded)[transfer_turns(len(y), model.allowed)])
    own = [at for at in guarded if at not in by_others]
    assert own == [at for at in alone if at not in by_others]
    assert any(at in by_others for at in alone[: alone.index(own[-1])])  # some were taken over


def test_a_search_alone_takes_over_what_it_would_measure_next() -> None:
    model, X, y = upside_down(6)
    X, y = X[:20], y[:20]
    alone = search(model.fallback, X, y, until=0.0)
    by_others = np.arange(5) == 4

    def next_after(measured: list[int]) -> int:
        score = Alone.after(model.fallback, X[measured], y[measured], by_others).predict(X).score.copy()
        score[measured] = -np.inf
        return int(np.argmax(score))

    assert next_after(alone[:5]) == alone[5]
    # What it would come to much later changes nothing.
    assert next_after([*alone[:4], alone[-1]]) == alone[4]


def test_the_fallback_is_the_same_search_beside_sources_in_another_unit() -> None:
    X, y, tasks = family()
    bound = np.log2(1e-5) + np.zeros(len(X))
    with_bound = np.column_stack([X, bound])
    mixed = np.where(tasks < 4, 1e3 * y, y)
    guard = Guarded(Residual(KernelRidge()), FromScratch(), (0,), 3).fit(with_bound, mixed, tasks)
    alone = FromScratch().fit(with_bound, mixed, tasks)
    measured = with_bound[:5], y[:5]
    np.testing.assert_allclose(
        guard.fallback.adapt(*measured).predict(with_bound).score,
        alone.adapt(*measured).predict(with_bound).score,
        rtol=1e-9,
    )


def test_before_anything_is_measured_the_guard_proposes_as_the_fallback_and_predicts_as_the_sources() -> None:
    model, X, _ = upside_down(6)
    nothing = X[:0], np.ones(0)
    proposed = model.propose(*nothing).predict(X)
    np.testing.assert_array_equal(proposed.score, 0.0)
    np.testing.assert_array_equal(proposed.latency_s, model.predict(X).latency_s)
    model.allowed = 2.0
    np.testing.assert_array_equal(model.propose(*nothing).predict(X).score, model.model.predict(X).score)


def test_the_guard_finds_the_best_at_once_where_the_sources_are_right() -> None:
    X, y, tasks = family()
    sources, (target_X, target_y) = without(X, y, tasks, 6)
    model = Guarded(Residual(KernelRidge()), FromScratch(), (0,)).fit(*sources)
    assert len(search(model, target_X, target_y)) < len(search(model.fallback, target_X, target_y))


def test_proposals_carry_the_predicted_latency() -> None:
    X, y, tasks = family()
    sources, (target_X, target_y) = without(X, y, tasks, 6)
    model = Guarded(Residual(KernelRidge()), FromScratch(), (0,)).fit(*sources)
    adapted, proposed = (way(target_X[:3], target_y[:3]) for way in (model.adapt, model.propose))
    np.testing.assert_array_equal(proposed.predict(target_X).latency_s, adapted.predict(target_X).latency_s)
    np.testing.assert_array_equal(proposed.std(target_X), adapted.std(target_X))
    np.testing.assert_array_equal(
        model.model.propose(target_X[:3], target_y[:3]).predict(target_X).score,
        model.model.adapt(target_X[:3], target_y[:3]).predict(target_X).score,
    )


def test_tasks_in_another_unit_are_told_by_the_lower_bound_and_left_out() -> None:
    X, y, tasks = family()
    bound = np.full((len(y), 1), np.log2(1e-6))
    mixed = np.where(np.isin(tasks, (1, 4, 8, 9)), 1000.0 * y, y)
    with_bound = np.hstack([X, bound])
    kept = in_common_unit(with_bound, mixed, tasks, 3)
    np.testing.assert_array_equal(kept, ~np.isin(tasks, (1, 4, 8, 9)))
    assert in_common_unit(with_bound, mixed, tasks, None).all()
    assert in_common_unit(np.full_like(bound, np.nan), mixed, tasks, 0).all()
    two = tasks < 2
    assert in_common_unit(with_bound[two], mixed[two], tasks[two], 3).all()
    failed = np.where(tasks == 0, np.inf, mixed)
    np.testing.assert_array_equal(in_common_unit(with_bound, failed, tasks, 3), kept)
    make = lambda: Guarded(Residual(KernelRidge()), FromScratch(), (0,), 3)  # noqa: E731
    np.testing.assert_array_equal(
        make().fit(with_bound, mixed, tasks).predict(with_bound).score,
        make().fit(with_bound[kept], y[kept], tasks[kept]).predict(with_bound).score,
    )


def test_the_guard_needs_something_to_allow() -> None:
    with pytest.raises(ValueError, match="allowed must be above 1"):
        Guarded(Residual(KernelRidge()), FromScratch(), (0,), allowed=1.0).fit(*family())
