"""The experiment on breadth: what is held out, what is learned from, and its tables."""

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
from experiment_folder import found_beside
from fake_records import fake_measurements

from costmodel.dataset import Dataset, load_dataset
from costmodel.dataset.table._read import dataset_from_measurements
from costmodel.records import Workload

pytestmark = pytest.mark.white_box

FOLDER = Path(__file__).parents[2] / "experiments" / "breadth"


@pytest.fixture(scope="module")
def run() -> Iterator[ModuleType]:
    with found_beside(FOLDER, ("options",)):
        spec = spec_from_file_location("breadth_run", FOLDER / "run.py")
        assert spec
        assert spec.loader
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module


@pytest.fixture(scope="module")
def data() -> Dataset:
    return dataset_from_measurements(fake_measurements())


@pytest.fixture(scope="module")
def options(run: ModuleType) -> argparse.Namespace:
    return run.parse([])


def test_what_is_judged_is_no_part_of_a_final_report(options: argparse.Namespace) -> None:
    kept = json.loads((FOLDER.parents[1] / options.judged / "final_report.json").read_text())
    shapes = [Workload.parse(name).shape for name in options.held_out]
    assert len(set(options.held_out)) == 18
    assert not {shape.name for shape in shapes} & {name for names in kept.values() for name in names}


def test_no_near_twin_of_what_is_judged_is_learned(run: ModuleType, options: argparse.Namespace) -> None:
    held_out = [Workload.parse(name) for name in options.held_out]
    names = run.learnable([load_dataset(options.judged)], held_out)
    assert len(names) == 54
    assert not set(names) & set(options.held_out)


def test_random_operators_are_judged_by_kernels_that_were_drawn(run: ModuleType) -> None:
    args = run.parse(["--config", str(FOLDER / "random_operators.toml")])
    judged = run.of_workloads(load_dataset(args.judged), args.held_out)
    assert len(judged.measured_workloads.unique()) == len(set(args.held_out)) == 100
    drawn = set((FOLDER / "drawn.txt").read_text(encoding="ascii").split())
    kernels = {
        (m.candidate.workload.name, m.candidate.candidate_id)
        for m in run.of_kernels(judged, drawn).to_measurements()
    }
    assert {id_ for _, id_ in kernels} == drawn
    assert set(Counter(name for name, _ in kernels).values()) == {8}


def test_a_few_kernels_of_each_workload_are_the_same_in_every_call(run: ModuleType, data: Dataset) -> None:
    few = run.few_of_each(data, 2)
    kernels = {(m.candidate.workload.name, m.candidate.candidate_id) for m in few.to_measurements()}
    assert set(Counter(name for name, _ in kernels).values()) == {2}
    part = run.few_of_each(run.of_workloads(data, data.workloads[:1]), 2)
    assert {m.candidate.candidate_id for m in part.to_measurements()} == {
        id_ for name, id_ in kernels if name == data.workloads[0]
    }


def test_the_curve_learns_from_nested_orders(run: ModuleType, data: Dataset) -> None:
    device = data.devices[0]
    held_out, *known = data.workloads
    budgets = sorted({p.sms_granted for p in data.platforms})
    arguments = ["--device", device, "--sms", *map(str, budgets), "--held-out", held_out, "--draws", "1"]
    args = run.parse([*arguments, "--sizes", "1", "9", "--most-kernels", "3", "--learner", "consensus"])
    judged = run.of_workloads(run.on_budgets(data, args.device, args.sms), args.held_out)
    found = list(run.reports(args, judged, [run.on_budgets(data, args.device, args.sms)]))
    assert [at["workloads"] for at, _ in found] == [1, len(known)]
    for _, report in found:
        assert {task.partition("@")[0] for task in report.tasks["task"].astype(str)} == {held_out}
