"""Design spaces of MetaSchedule as a search sees them."""

import numpy as np
import optuna
import pytest

from costmodel.errors import InvalidConfigError
from costmodel.features import extract
from costmodel.features._extract import COLUMNS
from costmodel.kernels import open_space
from costmodel.records import Candidate, Config, Workload
from costmodel.records._candidate import SKETCH
from costmodel.search import KernelSpace, ModelSampler, RandomOrderSampler
from costmodel.testing import landscape_latency, landscape_platform

pytest.importorskip("tvm")
pytestmark = [pytest.mark.tvm, pytest.mark.white_box]
optuna.logging.set_verbosity(optuna.logging.WARNING)
WORKLOAD = Workload.parse("matmul-m64-n64-k64")
PLATFORM = landscape_platform(32)


@pytest.fixture(scope="module")
def space():
    return KernelSpace(open_space(WORKLOAD, "cuda"), PLATFORM)


def test_drawn_configs_are_distinct_of_every_sketch_and_have_the_features_of_their_candidates(space):
    drawn = space.draw(300, np.random.default_rng(0))
    configs = list(drawn.configs)
    assert len(set(drawn.ids)) == len(drawn) == len(configs)
    assert {c.decisions[SKETCH] for c in configs} == set(range(len(space.space.sketches)))
    rows = np.random.default_rng(1).permutation(len(drawn))[:20]
    assert [drawn.configs[int(row)] for row in rows] == [configs[row] for row in rows]
    candidates = [Candidate(WORKLOAD, space.space.name, configs[row]) for row in rows]
    expected = extract(candidates, [PLATFORM] * 20).values
    np.testing.assert_array_equal(drawn.features[rows], expected[:, None])
    np.testing.assert_array_equal(space.features([configs[row] for row in rows]), expected[:, None])


def test_on_several_platforms_the_same_configs_are_drawn_with_features_on_each(space):
    both = space.on(PLATFORM, landscape_platform(132))
    drawn = both.draw(50, np.random.default_rng(0))
    alone = [space.on(platform).draw(50, np.random.default_rng(0)) for platform in both.platforms]
    assert list(drawn.configs) == list(alone[0].configs)
    np.testing.assert_array_equal(drawn.features, np.hstack([part.features for part in alone]))


def test_parameters_and_configs_go_to_and_fro_and_fit_their_distributions(space):
    for config in space.draw(60, np.random.default_rng(2)).configs:
        params = space.params(config)
        assert space.config(params) == config
        for name, value in params.items():
            distribution = space.distributions[name]
            assert distribution._contains(distribution.to_internal_repr(value))


def test_neighbours_differ_in_a_few_decisions_and_can_be_lowered(space):
    config = next(iter(space.draw(10, np.random.default_rng(3)).configs))
    near = space.neighbours(config, 20, np.random.default_rng(4))
    changed = [sum(n.decisions[k] != config.decisions[k] for k in n.decisions) for n in near]
    assert len({n.config_id for n in near}) == len(near) > 10
    assert 1 <= min(changed) <= max(changed) <= 3
    assert space.space.sketches[0].worth_lowering(near[0].decisions)


def test_lowering_changes_no_feature_and_is_done_once(space, monkeypatch):
    config = next(iter(space.draw(10, np.random.default_rng(5)).configs))
    candidate = space.candidate(config)
    assert candidate.launches
    np.testing.assert_array_equal(space.features([candidate.config]), space.features([config]))
    monkeypatch.setattr(space.space, "candidate", None)
    assert space.candidate(config) is space.on(landscape_platform(132)).candidate(config) is candidate


def test_in_other_columns_the_same_configs_are_drawn_and_nothing_is_lowered_again(space):
    some = space.in_columns([column.name for column in reversed(COLUMNS)])
    drawn, usual = (each.draw(20, np.random.default_rng(6)) for each in (some, space))
    assert list(drawn.configs) == list(usual.configs)
    np.testing.assert_array_equal(drawn.features, usual.features[:, :, ::-1])
    assert some.candidate(drawn.configs[0]) is space.candidate(drawn.configs[0])


def _searched(space, sampler, batches, size):
    """The best latency by the landscape's formula, after batches asked for together."""
    study = optuna.create_study(sampler=sampler)
    for _ in range(batches):
        asked = [study.ask() for _ in range(size)]
        for trial in asked:
            study.tell(trial, landscape_latency(space.candidate(space.suggest(trial)), PLATFORM))
    ids = [space.config(trial.params).config_id for trial in study.trials]
    assert len(set(ids)) == batches * size
    return study


def test_batches_from_a_whole_space_beat_random_ones(space):
    ours = _searched(space, ModelSampler(space, screened=3000), 4, 6).best_value
    random = _searched(space, RandomOrderSampler(space), 4, 6).best_value
    assert ours < random


def test_a_resumed_search_proposes_what_an_uninterrupted_one_does(space):
    straight = _searched(space, ModelSampler(space, screened=2000), 6, 1)
    half = _searched(space, ModelSampler(space, screened=2000), 3, 1)
    half.sampler = ModelSampler(space, screened=2000)
    for _ in range(3):
        trial = half.ask()
        half.tell(trial, landscape_latency(space.candidate(space.suggest(trial)), PLATFORM))
    assert [t.params for t in half.trials] == [t.params for t in straight.trials]


def test_configs_of_which_no_kernel_comes_cost_no_trial_and_are_not_tried_again(space):
    lowered = []

    class Refusing(KernelSpace):
        def candidate(self, config):
            lowered.append(config.config_id)
            if len(set(lowered)) % 2:
                raise InvalidConfigError("no kernel")
            return Candidate(self.space.workload, self.space.name, config)

    refusing = Refusing(space.space, PLATFORM)
    study = optuna.create_study(sampler=ModelSampler(refusing, screened=1000))
    for i in range(6):
        study.tell(study.ask(), 1.0 + i)
    assert len(study.trials) == 6
    refused = [name for i, name in enumerate(lowered) if len(set(lowered[: i + 1])) % 2]
    assert len(refused) == len(set(refused)) >= 5


def test_a_config_of_another_space_is_refused(space):
    with pytest.raises(InvalidConfigError):
        space.params(Config({SKETCH: 99}))
