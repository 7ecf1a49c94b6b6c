import re
from functools import partial

import pytest

pytest.importorskip("tvm")

import numpy as np
import tvm
from tuned_programs import KNOWN, context_of, matmul, on_h100, result, row_sums
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Trace

from costmodel.integrations.tvm import CostModel, Database, SearchStrategy
from costmodel.integrations.tvm._program import announce
from costmodel.kernels import open_space
from costmodel.kernels.metaschedule._source import lowered_launches
from costmodel.kernels.metaschedule.programs._source import ProgramSource
from costmodel.records import Workload
from costmodel.workloads._recognise import relax_kernels

pytestmark = pytest.mark.white_box


def begun(module, trials=20, batch=8, task="main", rules="post-order-apply", **settings):
    """A strategy on a task that has begun, with its context; ``database`` is empty unless given."""
    context = context_of(module, task=task, rules=rules)
    database = settings.pop("database", None) or ms.database.MemoryDatabase()
    strategy = SearchStrategy(platform=on_h100(), screened=2000, **settings)
    strategy._initialize_with_tune_context(context)
    spaces = context.generate_design_space()
    strategy.pre_tuning(trials, batch, spaces, database, CostModel(platform=on_h100()))
    return strategy, context


def config_ids(batch):
    space = open_space(KNOWN, "cuda")
    return [space.config_like(candidate.sch.trace).config_id for candidate in batch]


def rows_of_a_block(schedule):
    """Threads along the rows of a block."""
    return open_space(KNOWN, "cuda").config_like(schedule.trace).decisions["tile.C.i"][2]


def test_every_trial_is_a_valid_schedule_of_the_program_and_none_comes_twice():
    strategy, _ = begun(matmul())
    seen = []
    while (batch := strategy.generate_measure_candidates()) is not None:
        seen += config_ids(batch)
        strategy.notify_runner_results(batch, [result(1e-5 / rows_of_a_block(c.sch)) for c in batch])
    assert len(seen) == len(set(seen)) == 20
    assert strategy.generate_measure_candidates() is None


def test_it_proposes_no_more_at_once_than_it_is_told_to():
    context = context_of(matmul())
    strategy = SearchStrategy(platform=on_h100(), screened=2000, batch=5).clone()
    strategy._initialize_with_tune_context(context)
    strategy.pre_tuning(12, 64, context.generate_design_space(), ms.database.MemoryDatabase(), None)
    sizes = []
    while (batch := strategy.generate_measure_candidates()) is not None:
        sizes.append(len(batch))
        strategy.notify_runner_results(batch, [result(1e-5) for _ in batch])
    assert sizes == [5, 5, 2]


def test_a_search_of_a_small_space_ends_when_all_was_tried():
    """Of this program there are some hundred configs, fewer than trials."""
    workload = Workload.parse("rms_norm-m1-n2048")
    space = open_space(workload, "cuda")
    strategy, _ = begun(space.module, trials=400, batch=100)
    seen, again = [], 0
    while (batch := strategy.generate_measure_candidates()) is not None:
        ids = [space.config_like(candidate.sch.trace).config_id for candidate in batch]
        again += len(set(ids) & set(seen))
        seen += ids
        strategy.notify_runner_results(batch, [result(1e-5) for _ in batch])
    assert 50 < len(seen) == len(set(seen)) + again < 400
    assert strategy.generate_measure_candidates() is None


@pytest.mark.parametrize(("sign", "reached"), [(1, 64), (-1, 2)])
def test_it_learns_from_each_batch(sign, reached):
    """Of 1 to 256 rows, those of its last batch are as many, or as few, as it was told to be fast."""
    strategy, _ = begun(matmul(), trials=48, batch=8)
    rows = []
    while (batch := strategy.generate_measure_candidates()) is not None:
        rows.append([rows_of_a_block(c.sch) for c in batch])
        strategy.notify_runner_results(batch, [result(1e-5 * float(r) ** -sign) for r in rows[-1]])
    assert sign * np.log2(rows[-1]).mean() > sign * np.log2(reached)


@pytest.mark.parametrize("factor", [1.0, 1.3])
def test_a_drift_of_all_measured_times_is_told_by_candidates_that_were_measured_before(factor, capsys):
    strategy, _ = begun(matmul(), trials=128, batch=64)
    first = strategy.generate_measure_candidates()
    assert len(first) == 64
    strategy.notify_runner_results(first, [result(1e-5 / rows_of_a_block(c.sch)) for c in first])
    second = strategy.generate_measure_candidates()
    assert len(second) == 64 + 3
    assert set(config_ids(second[64:])) < set(config_ids(first))
    strategy.notify_runner_results(second, [result(factor * 1e-5 / rows_of_a_block(c.sch)) for c in second])
    told = [line for line in capsys.readouterr().err.splitlines() if "drift" in line]
    assert len(told) == (factor > 1.0)
    assert all("main saw measured times drift by x1.30 from candidate " in line for line in told)


def test_a_drift_is_told_by_the_candidates_of_this_search_alone(capsys):
    database = ms.database.MemoryDatabase()
    earlier, context = begun(matmul(), trials=32, batch=32, database=database)
    known = earlier.generate_measure_candidates()
    commit(database, known, [1e-5] * len(known), context.target)
    strategy, _ = begun(matmul(), trials=128, batch=64, database=database)
    for factor in (1.0, 1.3):
        batch = strategy.generate_measure_candidates()
        strategy.notify_runner_results(batch, [result(factor * 1e-5 / rows_of_a_block(c.sch)) for c in batch])
    (told,) = [line for line in capsys.readouterr().err.splitlines() if "drift" in line]
    (since,) = re.findall(r"from candidate (\d+) of this search on", told)
    assert 0 < int(since) <= 64


def test_a_batch_that_fails_entirely_is_followed_by_another():
    strategy, _ = begun(matmul())
    first = strategy.generate_measure_candidates()
    strategy.notify_runner_results(first, [result(None) for _ in first])
    second = strategy.generate_measure_candidates()
    assert len(second) == 8
    assert not set(config_ids(first)) & set(config_ids(second))


def test_a_program_of_relax_is_scheduled_by_its_own_names():
    function = next(relax_kernels(KNOWN)).with_attr("global_symbol", "main")
    module = type(matmul())({"main": function})
    strategy, _ = begun(module)
    for candidate in strategy.generate_measure_candidates():
        again = type(candidate.sch)(module)
        trace = candidate.sch.trace
        Trace(trace.insts, trace.decisions).apply_to_schedule(again, remove_postproc=False)
        assert config_ids([candidate]) == [open_space(KNOWN, "cuda").config_like(again.trace).config_id]


def test_a_program_that_is_not_recognised_is_screened_too():
    """Its kernels run the faster, the fewer threads they have: the last are far from the first."""
    source = ProgramSource.of(row_sums())
    space = source.space(source.workloads[0], "cuda")
    strategy, _ = begun(row_sums(), trials=24, batch=8)
    seen, threads = [], []
    while (batch := strategy.generate_measure_candidates()) is not None:
        configs = [space.config_like(candidate.sch.trace) for candidate in batch]
        seen += [config.config_id for config in configs]
        launched = [lowered_launches(candidate.sch.mod)[0].threads_per_block for candidate in batch]
        threads.append(launched)
        strategy.notify_runner_results(batch, [result(1e-6 * each) for each in launched])
    assert len(seen) == len(set(seen)) == 24
    assert np.mean(threads[-1]) < np.mean(threads[0])


def test_a_program_under_rules_of_ones_own_is_left_to_evolution(monkeypatch):
    rules = [ms.schedule_rule.AutoBind()]  # without reductions across threads and unrolling
    generator = ms.space_generator.PostOrderApply(sch_rules=rules, postprocs=[], mutator_probs={})
    small = partial(ms.search_strategy.EvolutionarySearch, population_size=16, genetic_num_iters=1)
    monkeypatch.setattr(ms.search_strategy, "EvolutionarySearch", small)
    strategy, _ = begun(row_sums(), trials=4, batch=4, rules=generator)
    batch = strategy.generate_measure_candidates()
    assert 1 <= len(batch) <= 4
    strategy.notify_runner_results(batch, [result(1e-5) for _ in batch])


def test_each_task_is_told_once_with_what_follows(monkeypatch, capsys):
    small = partial(ms.search_strategy.EvolutionarySearch, population_size=16, genetic_num_iters=1)
    monkeypatch.setattr(ms.search_strategy, "EvolutionarySearch", small)
    for _ in range(2):
        begun(matmul(), task="first layer")
        begun(row_sums(), trials=4, batch=4, task="second layer")
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("costmodel: ")]
    assert len(told) == 2
    assert "first layer is matmul-m256-n256-k256: the model screens" in told[0]
    assert "second layer is no known operator: the model screens its design space" in told[1]


def test_a_clone_begins_anew_with_the_same_settings():
    strategy, context = begun(matmul(), trials=4, batch=4)
    other = strategy.clone()
    other._initialize_with_tune_context(context)
    other.pre_tuning(4, 4, context.generate_design_space(), ms.database.MemoryDatabase(), None)
    first, second = (one.generate_measure_candidates() for one in (strategy, other))
    assert config_ids(first) == config_ids(second)


def commit(database, batch, latencies_s, target):
    workload = database.commit_workload(matmul())
    for candidate, latency_s in zip(batch, latencies_s, strict=True):
        seconds = [1e10 if latency_s is None else latency_s]
        record = ms.database.TuningRecord(candidate.sch.trace, workload, seconds, target, candidate.args_info)
        database.commit_tuning_record(record)


def databases(path):
    return [Database(path / "tuned.jsonl", on_h100()), ms.database.MemoryDatabase()]


@pytest.mark.parametrize("which", [0, 1])
def test_a_second_search_proposes_nothing_that_the_database_knows_and_learns_from_it(which, tmp_path, capsys):
    database = databases(tmp_path)[which]
    strategy, context = begun(matmul(), trials=32, batch=32, database=database)
    first = strategy.generate_measure_candidates()
    rows = [rows_of_a_block(candidate.sch) for candidate in first]
    seconds = [None, *(1e-5 / r for r in rows[1:])]  # a failure, too
    commit(database, first, seconds, context.target)
    announce.cache_clear()
    again, _ = begun(matmul(), trials=16, batch=8, database=database)
    assert "main goes on from 32 kernels that the database knows" in capsys.readouterr().err
    second = again.generate_measure_candidates()
    assert len(second) == 8
    assert not set(config_ids(first)) & set(config_ids(second))
    assert np.log2([rows_of_a_block(c.sch) for c in second]).mean() > np.log2(rows).mean() + 1


def test_a_second_search_leaves_records_of_another_target_and_sm_budget_aside(tmp_path):
    first, context = begun(matmul(), trials=8, batch=8)
    batch = first.generate_measure_candidates()
    other_sms = Database(tmp_path / "tuned.jsonl", on_h100(64))
    commit(other_sms, batch, [1e-5] * 8, context.target)
    database = Database(tmp_path / "tuned.jsonl", on_h100())
    commit(database, batch, [1e-5] * 8, tvm.target.Target("nvidia/nvidia-a100"))
    again, _ = begun(matmul(), trials=8, batch=8, database=database)
    assert config_ids(again.generate_measure_candidates()) == config_ids(batch)
