"""Declared spaces: conditions, constraints, and searches of them, against brute force."""

import itertools
import math

import msgspec
import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from costmodel.errors import CostModelError, InvalidConfigError
from costmodel.records import Config
from costmodel.search import DeclaredSpace, ModelSampler, RandomOrderSampler
from costmodel.transfer import Model

optuna.logging.set_verbosity(optuna.logging.WARNING)


def _fits(config):
    return config["threads"] * config.get("tile", 1) <= 4096


def _space(step=32):
    return DeclaredSpace(
        "stencil",
        {
            "layout": CategoricalDistribution(["rows", "columns", "blocks"]),
            "staged": CategoricalDistribution([False, True]),
            "threads": IntDistribution(32, 1024, step=step),
            "tile": CategoricalDistribution([2, 4, 8, 16, 32]),
            "swizzle": CategoricalDistribution([False, True]),
        },
        when={"tile": ("staged", [True]), "swizzle": ("tile", [16, 32])},
        constraints=[_fits],
    )


def _latency_s(config):
    """Bowls around 160 threads and tiles of 16, deeper when staged; blocks are always worse."""
    layout = {"rows": 0.0, "columns": 0.1, "blocks": 0.6}[config["layout"]]
    bowl = 0.2 * (math.log2(config["threads"]) - math.log2(160)) ** 2
    if config["staged"]:
        bowl += 0.1 * (math.log2(config["tile"]) - 4) ** 2 - (0.2 if config.get("swizzle") else 0.0) - 0.5
    return 1e-3 * math.exp(layout + bowl)


def _by_hand(step=32):
    """Every config, spelled out without the class."""
    found = []
    for layout, threads in itertools.product(["rows", "columns", "blocks"], range(32, 1025, step)):
        found.append({"layout": layout, "staged": False, "threads": threads})
        for tile in (2, 4, 8, 16, 32):
            for swizzle in (False, True) if tile >= 16 else (None,):
                config = {"layout": layout, "staged": True, "threads": threads, "tile": tile}
                found.append(config if swizzle is None else {**config, "swizzle": swizzle})
    return [config for config in found if _fits(config)]


def _key(decisions):
    return tuple(sorted(decisions.items()))


def test_a_small_space_gives_exactly_the_configs_that_brute_force_gives():
    space, expected = _space(), _by_hand()
    drawn = space.draw(10, np.random.default_rng(0))
    assert {_key(c.decisions) for c in drawn.configs} == {_key(c) for c in expected}
    assert space.size == len(drawn) == len(expected)


def test_parameters_and_configs_go_to_and_fro():
    space = _space()
    for config in space.draw(1, np.random.default_rng(0)).configs:
        assert space.config(space.params(config)) == config
        assert space.params(config).keys() == config.decisions.keys()


def test_a_large_space_is_drawn_within_its_constraints_and_without_repeats():
    space = _space(step=1)
    configs = [
        *space.draw(500, np.random.default_rng(0)).configs,
        *space.neighbours(
            Config({"layout": "rows", "staged": False, "threads": 33}), 200, np.random.default_rng(1)
        ),
    ]
    assert space.size is None
    assert len({c.config_id for c in configs[:500]}) == 500
    allowed = {_key(c) for c in _by_hand(step=1)}
    assert all(_key(config.decisions) in allowed for config in configs)


def test_neighbours_reach_every_parameter_also_those_that_come_to_exist():
    start = Config({"layout": "rows", "staged": False, "threads": 100})
    near = _space(step=1).neighbours(start, 400, np.random.default_rng(0))
    assert start not in near
    assert {"tile", "swizzle"} <= {name for config in near for name in config.decisions}
    moved = [c.decisions["threads"] for c in near if c.decisions["threads"] != 100]
    assert np.median(np.abs(np.array(moved) - 100)) < 130  # an eighth of the range, half of the longest


def test_features_tell_values_and_absence():
    space = _space()
    X = space.features(
        [
            Config({"layout": "columns", "staged": False, "threads": 280}),
            Config({"layout": "rows", "staged": True, "threads": 1024, "tile": 16}),
        ]
    )
    expected = [
        [0, 1, 0, 1, 0, 0.25, np.nan, np.nan, np.nan],
        [1, 0, 0, 0, 1, 1, 0.75, np.nan, np.nan],
    ]
    np.testing.assert_allclose(X[:, 0], expected)


def _parameters_in(unit):
    """Numbers of every kind, in a unit that is so many times smaller."""
    return {
        "rate": FloatDistribution(1e-5 * unit, 1e-1 * unit, log=True),
        "gap": FloatDistribution(0.25 * unit, 4.0 * unit),
        "pitch": FloatDistribution(0.5 * unit, 2.0 * unit, step=0.25 * unit),
        "cells": IntDistribution(1 * unit, 64 * unit, step=unit),
        "depth": CategoricalDistribution([0.001 * unit, 0.01 * unit, 0.05 * unit]),
    }


@pytest.mark.parametrize("unit", [64, 4096])
def test_the_unit_of_a_parameter_does_not_matter(unit):
    """Powers of two, so that both units draw the same configs to the last bit."""
    small, large = (DeclaredSpace("unit", _parameters_in(each)) for each in (1, unit))
    configs = small.draw(100, np.random.default_rng(0)).configs
    scaled = [Config({name: value * unit for name, value in c.decisions.items()}) for c in configs]
    np.testing.assert_allclose(large.features(scaled), small.features(configs), atol=1e-12)


def test_a_logarithm_is_taken_where_the_distribution_says_so():
    space = DeclaredSpace(
        "scales",
        {
            "a": FloatDistribution(1e-5, 1e-1, log=True),
            "b": FloatDistribution(0.0, 100.0),
            "c": IntDistribution(1, 1024, log=True),
            "d": IntDistribution(0, 1000),
        },
    )
    X = space.features([Config({"a": 1e-4, "b": 25.0, "c": 32, "d": 250})])
    np.testing.assert_allclose(X[0, 0], [0.25, 0.25, 0.5, 0.25])


@pytest.mark.parametrize(
    "parameter",
    [IntDistribution(1, 4, log=True), FloatDistribution(1.0, 4.0, step=1.0), IntDistribution(1, 4)],
)
def test_the_ends_of_a_range_are_drawn_as_often_as_its_scale_says(parameter):
    space = DeclaredSpace("ends", {"x": parameter, "y": FloatDistribution(0.0, 1.0)})
    drawn = [c.decisions["x"] for c in space.draw(4000, np.random.default_rng(0)).configs]
    edges = np.log([0.5, 1.5, 2.5, 3.5, 4.5]) if parameter.log else np.arange(5.0)
    expected = np.diff(edges) / (edges[-1] - edges[0])
    assert [drawn.count(value) / 4000 for value in (1, 2, 3, 4)] == pytest.approx(expected, abs=0.03)


def test_floats_on_a_grid_are_all_listed():
    space = DeclaredSpace("grid", {"x": FloatDistribution(0.1, 0.7, step=0.1)})
    assert space.size == 7
    for config in space.draw(1, np.random.default_rng(0)).configs:
        assert space.config(space.params(config)) == config


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_the_optimum_is_found_with_a_tenth_of_the_measurements(n_jobs):
    space = _space()
    best = min(_latency_s(config) for config in _by_hand())
    study = optuna.create_study(sampler=ModelSampler(space))
    study.optimize(lambda t: _latency_s(space.suggest(t).decisions), n_trials=space.size // 10, n_jobs=n_jobs)
    ids = [space.config(trial.params).config_id for trial in study.trials]
    assert study.best_value == best
    assert len(set(ids)) == len(ids)


def test_a_large_space_is_searched_closer_than_at_random():
    space = _space(step=1)
    best = min(_latency_s(config) for config in _by_hand(step=1))
    gaps = {ModelSampler: [], RandomOrderSampler: []}
    for make, found in gaps.items():
        for seed in range(3):
            study = optuna.create_study(sampler=make(space, seed=seed))
            study.optimize(lambda t: _latency_s(space.suggest(t).decisions), n_trials=40)
            found.append(study.best_value / best - 1.0)
    assert np.median(gaps[ModelSampler]) < 0.01
    assert np.median(gaps[ModelSampler]) < np.median(gaps[RandomOrderSampler])


def test_ask_and_tell_in_batches_ends_with_every_config_tried_once():
    space = DeclaredSpace("small", {"a": IntDistribution(1, 5), "b": CategoricalDistribution(["x", "y"])})
    study = optuna.create_study(sampler=ModelSampler(space))
    seen = []
    for _ in range(2):
        trials = [study.ask() for _ in range(5)]
        seen += [space.suggest(trial).config_id for trial in trials]
        for trial in trials:
            study.tell(trial, 1.0 + trial.params["a"])
    assert len(set(seen)) == space.size == 10
    with pytest.raises(CostModelError, match="all 10 have been"):
        study.ask()


def test_continuous_parameters_are_searched():
    space = DeclaredSpace("smooth", {"x": FloatDistribution(1e-3, 1e3, log=True), "n": IntDistribution(0, 9)})
    study = optuna.create_study(sampler=ModelSampler(space, screened=2000))

    def latency_s(trial):
        config = space.suggest(trial).decisions
        return 1.0 + math.log10(config["x"] / 5.0) ** 2 + 0.1 * (config["n"] - 3) ** 2

    study.optimize(latency_s, n_trials=40)
    assert study.best_value < 1.02


def test_what_breaks_a_constraint_has_no_candidate():
    space = _space()
    with pytest.raises(InvalidConfigError, match="must meet all constraints"):
        space.candidate(Config({"layout": "rows", "staged": True, "threads": 1024, "tile": 32}))


def test_a_space_that_nothing_meets_is_refused():
    space = DeclaredSpace("none", {"a": IntDistribution(1, 3)}, constraints=[lambda config: config["a"] > 3])
    with pytest.raises(CostModelError, match="must meet its constraints"):
        ModelSampler(space)


@pytest.mark.parametrize("when", [{"a": ("b", [1])}, {"a": ("a", [1])}, {"c": ("a", [1])}])
def test_conditions_name_what_comes_before(when):
    parameters = {"a": IntDistribution(1, 3), "b": IntDistribution(1, 3)}
    with pytest.raises(ValueError, match="name an earlier one"):
        DeclaredSpace("late", parameters, when=when)


@pytest.mark.parametrize("parameter", [[16, 32], "fast", None])
def test_a_parameter_without_a_distribution_is_refused_by_name(parameter):
    with pytest.raises(ValueError, match=r"Each parameter must have a distribution.* got \{'b'"):
        DeclaredSpace("plain", {"a": IntDistribution(1, 3), "b": parameter})


@pytest.mark.parametrize("condition", ["a", "ab", ("a",), ("a", "b"), None])
def test_a_condition_that_is_no_pair_is_refused_by_name(condition):
    parameters = {"a": IntDistribution(1, 3), "b": IntDistribution(1, 3)}
    with pytest.raises(ValueError, match=r"A condition must be a pair.* got \{'b'"):
        DeclaredSpace("malformed", parameters, when={"b": condition})


def test_a_model_of_kernels_is_refused():
    learned = msgspec.structs.replace(Model(None).metadata, columns=("flops", "bytes", "sms"))
    space = DeclaredSpace("two", {"a": IntDistribution(1, 3), "b": IntDistribution(1, 3)})
    with pytest.raises(CostModelError, match=r"a config has 2, but this one reads 3\. Leave it out"):
        ModelSampler(space, Model(None, learned))


def test_parameters_of_another_space_are_refused():
    with pytest.raises(CostModelError, match="Parameter tile of stencil must be in"):
        _space().config({"layout": "rows", "staged": True, "threads": 64, "tile": 3})


@pytest.mark.parametrize(
    "parameters", [{}, {3: IntDistribution(1, 2)}, {"\ud800": IntDistribution(1, 2)}, {"a": 3}]
)
def test_what_is_no_space_is_refused_in_a_sentence(parameters):
    with pytest.raises(CostModelError, match=r"^(A|Each|the name of a) (space|parameter) must .*\.$"):
        DeclaredSpace("a", parameters)


def test_a_number_that_cannot_change_is_one_value():
    space = DeclaredSpace("a", {"x": IntDistribution(3, 3), "y": FloatDistribution(0.5, 0.5)})
    assert space.size == 1
    study = optuna.create_study(sampler=ModelSampler(space))
    study.optimize(lambda trial: space.suggest(trial).decisions["y"], n_trials=3)
    assert len(study.trials) == 1
