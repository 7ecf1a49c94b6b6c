import numpy as np
import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.errors import CostModelError
from costmodel.features import extract
from costmodel.records import Candidate, Config, Workload
from costmodel.search import Pool
from costmodel.testing import landscape_platform

_WORKLOAD = Workload.parse("matmul-m8-n8-k8")
_DECISIONS = st.dictionaries(
    st.sampled_from("abcd"),
    st.one_of(
        st.integers(-4, 4), st.sampled_from(["x", "y"]), st.tuples(st.integers(1, 3), st.integers(1, 3))
    ),
    max_size=4,
)


def _pool(*decisions):
    candidates = [Candidate(_WORKLOAD, "test", Config(d)) for d in decisions]
    return Pool(candidates, landscape_platform(8))


@given(st.lists(_DECISIONS, min_size=1, max_size=8, unique_by=lambda d: Config(d).config_id))
def test_parameters_name_each_candidate_and_fit_their_distributions(decisions):
    pool = _pool(*decisions)
    for index in range(len(pool)):
        config = pool.candidates[index].config
        params = pool.params(config)
        assert pool.config(params) == config
        assert pool.position(params) == index
        assert params.keys() == pool.distributions.keys()
        for name, distribution in pool.distributions.items():
            assert distribution._contains(distribution.to_internal_repr(params[name]))


def test_integers_are_a_range_tiles_a_category_and_absence_is_none():
    pool = _pool({"unroll": 16, "tile": (2, 1, 4)}, {"unroll": 512, "tile": (1, 8, 1), "vectorise": 4})
    assert pool.distributions == {
        "unroll": optuna.distributions.IntDistribution(16, 512),
        "tile": optuna.distributions.CategoricalDistribution(["1x8x1", "2x1x4"]),
        "vectorise": optuna.distributions.CategoricalDistribution([4, None]),
    }


def test_parameters_of_no_candidate_are_refused():
    pool = _pool({"a": 1, "b": 1}, {"a": 2, "b": 2})
    with pytest.raises(CostModelError, match="must be those of a candidate in the pool"):
        pool.position({"a": 1, "b": 2})


@pytest.mark.parametrize("decisions", [[], [{"a": 1}, {"a": 1}]])
def test_a_pool_holds_distinct_candidates(decisions):
    with pytest.raises(ValueError, match="one or more candidates with distinct decisions"):
        _pool(*decisions)


def test_features_are_those_at_the_target_platform(pool):
    expected = extract(pool.candidates, [landscape_platform(32)] * len(pool)).values
    configs = [c.config for c in pool.candidates]
    np.testing.assert_array_equal(pool.features(configs), expected[:, None])
    other = pool.on(landscape_platform(132)).features(configs)
    assert not np.array_equal(other, expected[:, None], equal_nan=True)
    both = pool.on(landscape_platform(132), landscape_platform(32))
    np.testing.assert_array_equal(both.features(configs), np.hstack([other, expected[:, None]]))
    np.testing.assert_array_equal(both.draw(10, np.random.default_rng(0)).features, both.features(configs))


def test_space_id_depends_on_candidates_and_platform(pool):
    assert Pool(pool.candidates, *pool.platforms).space_id == pool.space_id
    assert Pool(pool.candidates[:-1], *pool.platforms).space_id != pool.space_id
    assert Pool(pool.candidates, landscape_platform(132)).space_id != pool.space_id


def _foreign(kernel, *decisions):
    workload = Workload(f"suite.{kernel}", {"x": 64}, "")
    return [Candidate(workload, "test", Config(d)) for d in decisions]


def test_in_the_columns_of_more_kernels_features_are_as_they_are_beside_these():
    mine = _foreign("gemm", {"block": 16, "layout": "row"}, {"block": 32, "layout": "col"})
    others = _foreign("stencil", {"block": 16, "order": "z"}) + _foreign(
        "gemm", {"block": 64, "layout": "tile"}
    )
    platform = landscape_platform(32)
    table = extract([*mine, *others], [platform] * 4)
    columns = [column.name for column in table.columns]
    pool = Pool(mine, platform, columns=columns)
    configs = [candidate.config for candidate in mine]
    np.testing.assert_array_equal(pool.features(configs), table.values[:2, None])
    np.testing.assert_array_equal(pool.on(platform).features(configs), table.values[:2, None])
    asked_later = Pool(mine, platform).in_columns(columns)
    np.testing.assert_array_equal(asked_later.features(configs), table.values[:2, None])


@pytest.mark.parametrize("lost", ["suite.gemm/", "log2_blocks"])
def test_columns_that_do_not_know_these_kernels_are_refused(lost):
    mine = _foreign("gemm", {"block": 16}, {"block": 32})
    platform = landscape_platform(32)
    columns = [column.name for column in extract(mine, [platform] * 2).columns if column.name != lost]
    pool = Pool(mine, platform, columns=columns)
    with pytest.raises(CostModelError, match=f"{lost} differ"):
        pool.features([mine[0].config])
