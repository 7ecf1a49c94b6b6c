import itertools
import math

import numpy as np
import optuna
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution, IntDistribution

from costmodel.kernels.metaschedule._parameters import Categorical, Tile, divisors, factorizations

pytestmark = pytest.mark.white_box

optuna.logging.set_verbosity(optuna.logging.WARNING)

SEEDS = st.integers(0, 2**32 - 1)


@st.composite
def tiles(draw: st.DrawFn) -> Tile:
    extent = draw(st.integers(1, 96))
    return Tile("tile.C.i", extent, draw(st.integers(2, 5)), draw(st.integers(1, 64)))


@st.composite
def categoricals(draw: st.DrawFn) -> Categorical:
    choices = draw(st.lists(st.integers(-8, 1024), min_size=1, max_size=6, unique=True))
    weights = draw(st.lists(st.floats(0.01, 10), min_size=len(choices), max_size=len(choices)))
    return Categorical("unroll", tuple(choices), tuple(weights))


def brute_force(extent: int, parts: int, max_innermost: int) -> set[tuple[int, ...]]:
    every = itertools.product(range(1, extent + 1), repeat=parts)
    return {f for f in every if math.prod(f) == extent and f[-1] <= max_innermost}


@given(st.integers(1, 2000))
def test_divisors_are_all_of_them_in_rising_order(number: int) -> None:
    assert divisors(number) == tuple(d for d in range(1, number + 1) if number % d == 0)


@given(st.integers(1, 24), st.integers(1, 3), st.integers(1, 30))
def test_factorizations_are_complete_and_each_once(extent: int, parts: int, max_innermost: int) -> None:
    found = factorizations(extent, parts, max_innermost)
    assert len(set(found)) == len(found)
    assert set(found) == brute_force(extent, parts, max_innermost)


@given(st.tuples(*[st.integers(0, 12)] * 3), st.integers(1, 24), st.integers(1, 12))
def test_tile_contains_exactly_its_factorizations(
    value: tuple[int, ...], extent: int, max_innermost: int
) -> None:
    tile = Tile("t", extent, 3, max_innermost)
    assert tile.contains(value) == (value in brute_force(extent, 3, max_innermost))


@pytest.mark.parametrize("value", [(2, 2), (1, 2, 2, 1), 4, "2,2,1", (4, -1, -1), (8, 1, 1)])
def test_tile_refuses_what_is_no_factorization(value: object) -> None:
    assert not Tile("t", 4, 3, 4).contains(value)  # type: ignore[arg-type]


@given(tiles(), SEEDS)
def test_drawn_tiles_are_choices(tile: Tile, seed: int) -> None:
    assert tile.contains(tile.sample(np.random.default_rng(seed)))


def test_every_factorization_is_drawn_alike() -> None:
    tile, rng = Tile("t", 12, 3, 12), np.random.default_rng(0)
    drawn = [tile.sample(rng) for _ in range(3600)]
    counts = [drawn.count(choice) for choice in brute_force(12, 3, 12)]
    assert sum(counts) == 3600
    # Chi-squared with 17 degrees of freedom; 40.8 is its 0.999 quantile.
    assert sum((count - 200) ** 2 / 200 for count in counts) < 40.8


@given(tiles(), SEEDS)
def test_a_mutated_tile_is_another_choice_two_factors_away(tile: Tile, seed: int) -> None:
    rng = np.random.default_rng(seed)
    value = tile.sample(rng)
    changed = tile.mutate(value, rng)
    assert isinstance(changed, tuple)
    assert tile.contains(changed)
    assert sum(a != b for a, b in zip(value, changed, strict=True)) in (0, 2)
    others = set(factorizations(tile.extent, tile.parts, tile.max_innermost)) - {value}
    if tile.max_innermost >= tile.extent:
        assert (changed == value) == (not others)


def test_mutation_reaches_every_factorization() -> None:
    tile, rng = Tile("t", 12, 3, 4), np.random.default_rng(0)
    seen = {value := (12, 1, 1)}
    for _ in range(2000):
        value = tile.mutate(value, rng)  # type: ignore[assignment]
        seen.add(value)
    assert seen == brute_force(12, 3, 4)


@given(tiles(), SEEDS)
def test_a_trial_suggests_tiles_that_are_choices(tile: Tile, seed: int) -> None:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed % 1000))
    trial = study.ask()
    value = tile.suggest(trial, "0.")
    assert tile.contains(value)
    assert all(name.startswith("0.tile.C.i.") for name in trial.params)


@given(tiles(), SEEDS)
def test_every_tile_can_be_suggested_by_a_fixed_trial(tile: Tile, seed: int) -> None:
    value = tile.sample(np.random.default_rng(seed))
    left, chosen = tile.extent, {}
    for part in range(tile.parts - 1, 0, -1):
        chosen[f"{tile.name}.{part}"] = divisors(left).index(value[part])
        left //= value[part]
    assert tile.suggest(optuna.trial.FixedTrial(chosen)) == value


def test_near_indices_are_near_factors() -> None:
    sizes = [Tile("t", 64, 2, 64).suggest(optuna.trial.FixedTrial({"t.1": index})) for index in range(7)]
    assert sizes == [(64 >> power, 1 << power) for power in range(7)]


def test_a_tile_is_suggested_within_its_largest_innermost_factor() -> None:
    study = optuna.create_study()
    trial = study.ask()
    Tile("t", 64, 2, 4).suggest(trial)
    assert trial.distributions == {"t.1": IntDistribution(0, 2)}


@given(categoricals(), SEEDS)
def test_categorical_draws_and_changes_within_its_choices(parameter: Categorical, seed: int) -> None:
    rng = np.random.default_rng(seed)
    value = parameter.sample(rng)
    assert parameter.contains(value)
    changed = parameter.mutate(value, rng)
    assert parameter.contains(changed)
    assert (changed == value) == (len(parameter.choices) == 1)


@given(categoricals(), st.integers())
def test_categorical_contains_its_choices_only(parameter: Categorical, value: int) -> None:
    assume(value not in parameter.choices)
    assert not parameter.contains(value)
    assert all(map(parameter.contains, parameter.choices))


def test_categorical_draws_by_its_weights() -> None:
    rng = np.random.default_rng(0)
    drawn = [Categorical("c", (0, 16, 64), (0.0, 1.0, 3.0)).sample(rng) for _ in range(4000)]
    assert drawn.count(0) == 0
    assert drawn.count(64) / 4000 == pytest.approx(0.75, abs=0.03)  # 4 standard errors


def test_categorical_is_suggested_as_one() -> None:
    trial = optuna.create_study().ask()
    parameter = Categorical("unroll", (0, 16, 64), (1.0, 1.0, 1.0))
    assert parameter.contains(parameter.suggest(trial, "2."))
    assert trial.distributions == {"2.unroll": CategoricalDistribution((0, 16, 64))}
    assert parameter.suggest(optuna.trial.FixedTrial({"unroll": 64})) == 64
