"""``tune`` compiles a shortlist, looks at what became of it, and measures the few."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from unrecorded import Unrecorded

import costmodel
from costmodel.collector import ReplayRunner
from costmodel.dataset import Dataset, build_dataset, load_dataset
from costmodel.dataset._machine_code import load_machine_code, write_machine_code
from costmodel.dataset.table._read import dataset_from_measurements, families_in
from costmodel.errors import CostModelError
from costmodel.kernels._machine_code import MACHINE_CODE_FACTS, MachineCode
from costmodel.records import RecordStore
from costmodel.testing import gpu_landscape
from costmodel.tuning import Prior, Replay, SearchSettings, _shipped, pretrain, train
from costmodel.tuning._shipped import ShippedDataset, models_folder
from costmodel.tuning._training import train_compiled

pytestmark = pytest.mark.white_box

NEW = "matmul-m512-n512-k512"
KNOWN = ["matmul-m64-n768-k768", "matmul-m256-n1024-k512", "matmul-m1024-n256-k256"]
SMS = 32


def code_of(rows, candidate_id: str) -> MachineCode:
    """Machine code whose instructions tell how fast the kernel is on the whole device, which noise hides."""
    latency_s = rows.loc[rows["id"] == candidate_id, "latency_s"].min()
    facts = {"instructions": min(1e9, latency_s * 1e9), "registers": 32.0}
    return MachineCode(**{**dict.fromkeys(MACHINE_CODE_FACTS, 1.0), **facts})


@pytest.fixture(scope="module")
def landscape() -> Dataset:
    return gpu_landscape(seed=3, workloads=[NEW, *KNOWN], configs_per_workload=24, sms=[SMS, 132])


@pytest.fixture(scope="module")
def folder(tmp_path_factory, landscape, header):
    """A dataset that tells what a compiler made of its kernels."""
    folder = tmp_path_factory.mktemp("compiled")
    with RecordStore(folder / "records.jsonl") as store:
        store.append(landscape.to_measurements())
    path = build_dataset([folder / "records.jsonl"], folder / "built", header=header).path
    rows = landscape.rows.assign(id=[landscape.columns.ids[i] for i in landscape.rows["candidate"]])
    write_machine_code(path, {each: code_of(rows, each) for each in landscape.columns.ids})
    return path


@pytest.fixture(scope="module")
def models(folder, landscape):
    """A model that knows decisions, and one that knows what became of them; of other workloads."""
    known = [m for name in KNOWN for m in landscape.to_measurements(name)]
    others = replace(dataset_from_measurements(known), file=load_dataset(folder).file)
    return train(others, "ridge"), train_compiled(others, "kernel-ridge")


def tuned(on, models, compiled_per_trial=4, trials=2):
    """With both models."""
    decided, compiled = models
    return costmodel.tune(
        NEW,
        sms=SMS,
        trials=trials,
        on=Replay(on) if isinstance(on, Path) else on,
        prior=Prior(model=decided, compiled=compiled),
        search=SearchSettings(compiled_per_trial=compiled_per_trial),
    )


def test_it_measures_what_the_model_of_compiled_kernels_puts_first(folder, models):
    staged, plain = tuned(folder, models), tuned(folder, models, compiled_per_trial=1)
    assert len(staged.trials) == len(plain.trials) == 2
    assert staged.best.latency_s < plain.best.latency_s
    assert "2 candidates measured, 8 compiled, 24 screened" in staged.answer[-2]
    assert "compiled" not in plain.answer[-2]
    assert tuned(folder, models).trials == staged.trials


def test_where_nothing_tells_what_became_of_kernels_decisions_choose(models, folder, landscape):
    decided, compiled = models
    plain = tuned(folder, models, compiled_per_trial=1)
    runner = Unrecorded(landscape.to_measurements(NEW))
    prior, search = Prior(model=decided, compiled=compiled), SearchSettings(compiled_per_trial=4)
    assert (
        costmodel.tune(NEW, sms=SMS, trials=2, on=runner, prior=prior, search=search).trials == plain.trials
    )


@pytest.mark.parametrize(("in_flight", "compiled"), [(1, None), (3, None), (5, "4"), (7, "6"), (64, "8")])
def test_as_much_is_compiled_as_builders_make_at_once(folder, models, landscape, in_flight, compiled):
    class Builders(ReplayRunner):
        """Works on so many candidates at once."""

        @property
        def in_flight(self):
            return in_flight

    code = load_machine_code(load_dataset(folder))
    runner = Builders(landscape.to_measurements(NEW), code)
    found = costmodel.tune(
        NEW, sms=SMS, trials=2, on=runner, prior=Prior(model=models[0], compiled=models[1])
    )
    assert found.search.provenance.knowledge.get("compiled") == compiled


def test_a_model_of_other_machine_code_is_not_used(folder, models):
    decided, compiled = models
    (device,) = compiled.metadata.devices
    older = msgspec.structs.replace(device, architecture="sm_80")
    other = replace(compiled, metadata=msgspec.structs.replace(compiled.metadata, devices=(older,)))
    assert tuned(folder, (decided, other)).trials == tuned(folder, models, compiled_per_trial=1).trials


def test_a_replay_is_not_told_by_a_model_that_saw_it(folder, models):
    told = train_compiled(load_dataset(folder), "ridge")
    with pytest.raises(CostModelError, match="must have a model that never saw it"):
        tuned(folder, (models[0], told))


def test_what_ships_has_a_model_of_compiled_kernels(folder, landscape, monkeypatch, tmp_path):
    monkeypatch.setenv(_shipped.MODELS_VARIABLE, str(tmp_path))
    of_families = families_in(folder)
    ships = ShippedDataset(str(folder), of_families)
    monkeypatch.setattr(_shipped, "_installed", lambda: (ships,))
    monkeypatch.setattr(_shipped, "_LEARNER_OF_MANY", "ridge")
    monkeypatch.setattr(ShippedDataset, "model_file", models_folder() / "decided.costmodel")
    monkeypatch.setattr(ShippedDataset, "compiled_file", models_folder() / "decided-compiled.costmodel")
    assert ships.compiled is None
    assert ships.compiled_model() is None
    monkeypatch.setattr(_shipped, "_COMPILED", {ships.name: ships.name})
    assert ships.compiled_model() is None
    made = pretrain()
    assert made["decided-compiled"].path == ships.compiled_file
    compiled = ships.compiled_model()
    assert any(name.startswith("compiled/") for name in compiled.metadata.columns)
    assert not any(name.startswith("compiled/") for name in ships.model().metadata.columns)


def test_where_no_more_is_compiled_than_measured_no_model_of_it_is_read(folder, models, tmp_path):
    """A file that is no model would be refused."""
    prior = Prior(model=models[0], compiled=tmp_path / "none.costmodel")
    search = SearchSettings(compiled_per_trial=1)
    found = costmodel.tune(NEW, sms=SMS, trials=2, on=Replay(folder), prior=prior, search=search)
    assert found.trials == tuned(folder, models, compiled_per_trial=1).trials
