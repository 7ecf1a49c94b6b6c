"""A shortlist of a space that is compiled before some of it is measured."""

import numpy as np
import optuna
import pytest

from costmodel.arrays import FloatArray
from costmodel.collector import ReplayRunner
from costmodel.errors import CostModelError
from costmodel.kernels._machine_code import MACHINE_CODE_FACTS, MachineCode
from costmodel.learners import Prediction
from costmodel.records import Measurement
from costmodel.search import ModelSampler, Pool
from costmodel.search._search import Search
from costmodel.search.samplers._staged import StagedSampler
from costmodel.search.spaces._compiled import CompiledSpace
from costmodel.testing import landscape_platform
from costmodel.transfer import TransferModel

pytestmark = pytest.mark.white_box


class BySize(TransferModel):
    """Expects the kernel with fewest instructions to be fastest, once it was compiled."""

    def __init__(self, column: int) -> None:
        self.column = column

    def fit(self, X: FloatArray, y: FloatArray, task_ids: object) -> "BySize":
        return self

    def predict(self, X: FloatArray) -> Prediction:
        return Prediction(-np.nan_to_num(X[:, self.column], nan=1e9))

    def adapt(self, X: FloatArray, y: FloatArray) -> "BySize":
        return self


class Compiler:
    """Makes kernels whose instructions are as many as nanoseconds at 32 SMs; some fail."""

    def __init__(self, records: list[Measurement], failing: frozenset[str] = frozenset()) -> None:
        self.latency_s = {
            m.candidate.candidate_id: m.latency_s for m in records if m.platform.sms_granted == 32
        }
        self.failing, self.asked = failing, list[str]()

    def __call__(self, candidates):
        self.asked += [each.candidate_id for each in candidates]
        return [None if each in self.failing else self.code(each) for each in self.asked[-len(candidates) :]]

    def code(self, candidate_id: str) -> MachineCode:
        instructions = min(1e9, self.latency_s[candidate_id] * 1e9)
        return MachineCode(**{**dict.fromkeys(MACHINE_CODE_FACTS, 1.0), "instructions": instructions})


@pytest.fixture
def ids(pool: Pool) -> list[str]:
    return [each.candidate_id for each in pool.candidates]


def column_of(space: CompiledSpace) -> int:
    """The column of instructions, behind those of every table; names are in order there."""
    from costmodel.features._compiled import COMPILED_COLUMNS
    from costmodel.features._extract import COLUMNS

    names = sorted(column.name for column in COMPILED_COLUMNS)
    own = space.whole.draw(0, np.random.default_rng(0)).features.shape[2]
    assert own >= len(COLUMNS)
    return own + names.index("compiled/log2_instructions")


def searched(pool, compiler, records, trials, *, per_trial, screener) -> Search:
    """A search of so many trials that was made to its end."""
    space = CompiledSpace(pool, compiler)
    model = BySize(column_of(space))
    sampler = StagedSampler(space, model, screener=screener, trials=trials, per_trial=per_trial)
    search = Search(ReplayRunner(records), sampler, trials)
    while search.propose():
        search.measure()
    return search


def test_of_a_shortlist_the_model_of_compiled_kernels_measures_the_best(pool, records, ids, ignorant):
    compiler = Compiler(records)
    screener = ModelSampler(pool, ignorant)
    shortlist = screener.shortlist(6)
    search = searched(pool, compiler, records, 2, per_trial=3, screener=screener)
    measured = [trial.candidate.candidate_id for trial in search.result.trials]
    expected = sorted((each.candidate_id for each in shortlist), key=compiler.latency_s.__getitem__)
    assert measured[0] == expected[0]
    assert set(measured) <= set(expected)
    assert sorted(compiler.asked) == sorted(expected)  # each once, and nothing else
    assert search.result.provenance.n_screened == len(pool)


def test_a_longer_search_compiles_anew_by_what_it_measured(pool, records, ignorant):
    compiler = Compiler(records)
    first = ModelSampler(pool, ignorant).shortlist(16)
    result = searched(pool, compiler, records, 20, per_trial=1, screener=ModelSampler(pool, ignorant)).result
    measured = [trial.candidate.candidate_id for trial in result.trials]
    assert set(measured[:16]) == {each.candidate_id for each in first}
    assert len(set(measured)) == 20
    assert len(compiler.asked) == len(set(compiler.asked)) == 32
    assert result.provenance.knowledge["compiled"] == "32"


def test_where_all_that_was_compiled_is_measured_the_search_goes_on(pool, records, ignorant, ids):
    compiler = Compiler(records, failing=frozenset(ids[2:]))
    result = searched(pool, compiler, records, 4, per_trial=1, screener=ModelSampler(pool, ignorant)).result
    assert len({trial.candidate.candidate_id for trial in result.trials}) == 4


def test_what_cannot_be_built_is_not_measured(pool, records, ids):
    compiler = Compiler(records, failing=frozenset(ids[:3]))
    space = CompiledSpace(pool, compiler)
    space.look_at(pool.candidates[:5])
    assert [each.candidate_id for each in space.built] == ids[3:5]
    assert space.size == pool.size
    assert len(space.draw(100, np.random.default_rng(0))) == 2
    assert space.neighbours(pool.candidates[4].config, 8, np.random.default_rng(0)) == []


def test_a_study_of_the_whole_space_goes_on(pool, records, oracle):
    study = optuna.create_study()
    runner = ReplayRunner(records)

    def measure(sampler: ModelSampler, trials: int) -> Search:
        search = Search(runner, sampler, trials, study=study)
        while search.propose():
            search.measure()
        return search

    (before,) = measure(ModelSampler(pool, oracle), 1).result.trials
    others = [each for each in pool.candidates if each != before.candidate][:4]
    compiler = Compiler(records)
    space = CompiledSpace(pool, compiler)
    space.look_at(others)
    result = measure(ModelSampler(space, BySize(column_of(space))), 3).result
    assert result.trials[0].candidate == before.candidate
    assert all(each.candidate in others for each in result.trials[1:])
    assert before.candidate.candidate_id in compiler.asked  # its features tell what became of it, too
    assert len(compiler.asked) == len(set(compiler.asked))


def test_names_and_features_are_those_of_the_space_and_nothing_is_compiled_again(pool, records):
    compiler = Compiler(records)
    space = CompiledSpace(pool, compiler)
    space.look_at(pool.candidates[:4])
    config = pool.candidates[2].config
    assert space.space_id == pool.space_id
    assert space.config(space.params(config)) == config
    assert space.distributions == pool.distributions
    features = space.features([config])
    decided = pool.features([config])
    np.testing.assert_array_equal(features[..., : decided.shape[2]], decided)
    assert features.shape[2] > decided.shape[2]
    again = space.on(landscape_platform(8)).in_columns(None)
    assert again.platforms == (landscape_platform(8),)
    assert again.features([config]).shape == features.shape
    assert len(compiler.asked) == len(set(compiler.asked))
    with pytest.raises(CostModelError, match="candidate in the pool"):
        space.config({})


def test_a_shortlist_has_as_many_as_there_are(pool, oracle, latencies):
    sampler = ModelSampler(pool, oracle)
    assert len(sampler.shortlist(10_000)) == len(pool)
    first = sampler.shortlist(3)
    assert len({each.candidate_id for each in first}) == 3
    assert first[0] == pool.candidates[int(latencies.argmin())]
