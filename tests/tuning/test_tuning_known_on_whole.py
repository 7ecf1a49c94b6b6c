"""A search for a part of a device is told what the workload's kernels took on the whole of it."""

import pytest
from msgspec.structs import replace
from unrecorded import Unrecorded

import costmodel
from costmodel.collector.runners._wrapped import RecordedRunner
from costmodel.records import Outcome, RecordStore
from costmodel.search import ModelSampler
from costmodel.testing import gpu_landscape
from costmodel.tuning import train

pytestmark = pytest.mark.white_box

NEW, KNOWN = "matmul-m512-n512-k512", ["matmul-m64-n768-k768", "matmul-m256-n1024-k512"]
SMS = 32


@pytest.fixture(scope="module")
def landscape():
    return gpu_landscape(seed=3, workloads=[NEW, *KNOWN], configs_per_workload=24, sms=[SMS, 132])


@pytest.fixture(scope="module")
def model(landscape):
    """It knows other workloads."""
    return train(landscape, "ridge", hold_out=[NEW])


@pytest.fixture
def runner(landscape, tmp_path):
    """A device whose records have the workload on the whole of it, and on a part of another workload."""
    records = [m for m in landscape.to_measurements(NEW) if m.platform.sms_granted == 132]
    with RecordStore(tmp_path / "records.jsonl") as store:
        store.append([*records, *landscape.to_measurements(KNOWN[0])])
    return RecordedRunner(Unrecorded(landscape.to_measurements(NEW)), tmp_path / "records.jsonl")


def test_records_at_hand_are_those_of_the_workload_on_this_device(runner, landscape):
    workload = landscape.to_measurements(NEW)[0].candidate.workload
    found = runner.recorded(workload)
    assert len(found) == 24
    assert {m.candidate.workload for m in found} == {workload}
    assert Unrecorded(landscape.to_measurements(NEW)).recorded(workload) == []


def test_what_the_whole_device_took_tells_of_a_part(runner, model, landscape):
    told = costmodel.tune(NEW, sms=SMS, trials=1, on=runner, prior=model)
    plain = costmodel.tune(NEW, sms=SMS, trials=1, on=Unrecorded(landscape.to_measurements(NEW)), prior=model)
    assert told.best.latency_s < plain.best.latency_s
    remark = "First came the best of what the whole device ran before: 1 trials."
    assert remark in told.answer
    assert remark not in plain.answer
    # On the whole device the records themselves are served.
    whole = costmodel.tune(NEW, trials=2, on=runner, prior=model)
    assert not any("First came" in sentence for sentence in whole.answer)


def test_the_best_of_them_are_measured_first(runner, model, landscape, monkeypatch):
    expected = []
    order = ModelSampler.best_first
    monkeypatch.setattr(
        ModelSampler, "best_first", lambda *told: expected.append(order(*told)) or expected[-1]
    )
    told = costmodel.tune(NEW, sms=SMS, trials=8, on=runner, prior=model)
    (best_first,) = expected
    assert "First came the best of what the whole device ran before: 2 trials." in told.answer
    assert [trial.candidate.config for trial in told.trials[:2]] == best_first[:2]
    assert len(best_first) == 24
    records = runner.recorded(told.trials[0].candidate.workload)
    on_whole = {m.candidate.config.config_id: m.latency_s for m in records}
    fastest = sorted(on_whole, key=on_whole.__getitem__)
    assert {each.config_id for each in best_first[:2]} <= set(fastest[:6])


def failing(landscape, first: int):
    """A device whose records of the whole are failures, but for those of the ``first`` kernels."""

    class Failing(Unrecorded):
        def recorded(self, workload):
            whole = [m for m in landscape.to_measurements(NEW) if m.platform.sms_granted == 132]
            failed = [replace(m, outcome=Outcome.LAUNCH_ERROR, latencies_s=(), error="no") for m in whole]
            return [*whole[:first], *failed[first:]]

    return Failing(landscape.to_measurements(NEW))


def test_kernels_of_which_all_failed_there_tell_nothing(model, landscape):
    failed = costmodel.tune(NEW, sms=SMS, trials=2, on=failing(landscape, 0), prior=model)
    plain = costmodel.tune(NEW, sms=SMS, trials=2, on=Unrecorded(landscape.to_measurements(NEW)), prior=model)
    assert failed.trials == plain.trials


def test_what_failed_there_is_not_among_the_first(model, landscape):
    runner = failing(landscape, 1)
    told = costmodel.tune(NEW, sms=SMS, trials=8, on=runner, prior=model)
    records = runner.recorded(told.trials[0].candidate.workload)
    assert told.trials[0].candidate == records[0].candidate  # the only one that ran, and the rest is proposed
    assert told.trials[1].predicted_rank is not None
    assert len(told.trials) == 8
