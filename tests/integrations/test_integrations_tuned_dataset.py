"""What was tuned through the options for TVM becomes a dataset, which the next model learns from."""

import json
from pathlib import Path

import pytest

pytest.importorskip("tvm")

import tvm
from tuned_programs import KNOWN, a_cpu, cuda, drawn, on_h100
from tvm.s_tir import meta_schedule as ms

from costmodel.dataset import CardHeader, Dataset, build_dataset, load_dataset
from costmodel.dataset.importers._read import read_source
from costmodel.integrations.tvm import Database
from costmodel.records._line_file import LineFile, rewrite_lines
from costmodel.tuning import train

pytestmark = [pytest.mark.tvm, pytest.mark.white_box]


def tune(path: Path, name: str, sms: int) -> None:
    """Commit what a tuning of a program would; its first candidate fails, its second is measured twice."""
    database = Database(path, on_h100(sms))
    context, candidates = drawn(name)
    workload = database.commit_workload(context.mod)
    for at, candidate in enumerate([*candidates, candidates[1]]):
        run_secs = [1e10] if at == 0 else [1e-4 * (at + 1), 1.1e-4 * (at + 1)]
        record = (candidate.sch.trace, workload, run_secs, cuda(), candidate.args_info)
        database.commit_tuning_record(ms.database.TuningRecord(*record))


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tuned") / "tuned.jsonl"
    for name, sms in (("matmul", 32), ("matmul", 132), ("row_sums", 32)):
        tune(path, name, sms)
    return path


@pytest.fixture(scope="module")
def dataset(tuned: Path, header: CardHeader) -> Dataset:
    report = build_dataset([tuned], tuned.parent / "dataset", header=header)
    assert not report.rejects
    return load_dataset(tuned.parent / "dataset")


def test_programs_are_the_workloads_that_tuning_knows(dataset: Dataset) -> None:
    known, program = sorted(dataset.workloads)
    assert known == KNOWN.name
    assert program.startswith("tir.")
    assert {platform.sms_granted for platform in dataset.platforms} == {32, 132}
    measurements = dataset.to_measurements()
    assert {each.candidate.space.partition("-")[0] for each in measurements} == {"metaschedule", "tir"}
    assert all(each.candidate.launches for each in measurements if each.candidate.workload.is_program)
    assert sum(each.visit for each in measurements) == 3
    assert sum(not each.latencies_s for each in measurements) == 3


def test_the_next_model_learns_from_it(dataset: Dataset) -> None:
    assert set(train(dataset, "ridge").metadata.workloads) == set(dataset.workloads)


def test_a_line_that_tvm_cannot_apply_costs_itself_only(tuned: Path, tmp_path: Path) -> None:
    entries = [json.loads(line) for _, line in LineFile(tuned, "the database").read_new()]
    measured = [entry for entry in entries if entry["type"] == "measured"]
    fuse = next(instruction for instruction in measured[0]["trace"][0] if instruction[0] == "Fuse")
    fuse[2][0] = None  # a null pointer, which TVM follows
    measured[1]["full_target"] = "{}"
    measured[2]["program"] = "0"
    measured[3]["latencies_s"] = [-1.0]
    path = tmp_path / "tuned.jsonl"
    rewrite_lines(path, [json.dumps(entry).encode() for entry in entries])
    source = read_source(path)
    assert len(source.measurements) == len(measured) - 4
    assert [reject.reason.partition(",")[0] for reject in source.rejects] == [
        "a trace must be one that TVM applies",
        "the target of a measurement must be of kind cuda",
        "a measurement must stand behind its program",
        "latencies must be finite and at least one nanosecond",
    ]


def test_a_device_that_no_table_has_is_what_the_tuning_says(tmp_path: Path) -> None:
    context, candidates = drawn("row_sums")
    database = Database(tmp_path / "tuned.jsonl", a_cpu())
    workload = database.commit_workload(context.mod)
    target = tvm.target.Target({"kind": "llvm", "num-cores": 1})
    record = (candidates[0].sch.trace, workload, [1e-4], target, candidates[0].args_info)
    database.commit_tuning_record(ms.database.TuningRecord(*record))
    (measurement,) = read_source(tmp_path / "tuned.jsonl").measurements
    assert measurement.platform.device == a_cpu().device
    assert measurement.platform.sms_granted == 1
