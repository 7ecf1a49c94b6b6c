"""MetaSchedule databases: without TVM as foreign kernels, with TVM as configs of our spaces, and damage."""

import json
import zlib
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_foreign import PLATFORM_TOML, fake_records, fake_trace, json_lines, write_database

from costmodel.dataset import build_dataset, load_dataset
from costmodel.dataset.importers._read import read_source
from costmodel.dataset.sources._base import ReadOptions
from costmodel.errors import CostModelError
from costmodel.features import extract
from costmodel.kernels import make_target, open_space
from costmodel.records import Outcome, Workload

pytestmark = pytest.mark.white_box

MATMUL = "matmul-m32-n32-k32"


@pytest.fixture
def options(tmp_path: Path) -> ReadOptions:
    (tmp_path / "platform.toml").write_text(PLATFORM_TOML)
    return ReadOptions(platform=tmp_path / "platform.toml")


def changed(change: Callable[[list[Any]], None]) -> list[Any]:
    records = fake_records()
    change(records[0])
    return records


def test_records_become_foreign_kernels_with_named_decisions(tmp_path: Path, options: ReadOptions) -> None:
    path = write_database(tmp_path / "db", fake_records())
    source = read_source(path, options)
    assert source.rejects == []
    second, failed, first, third = source.measurements  # by workload
    assert [m.latencies_s for m in (first, second, third, failed)] == [(1e-5, 1.1e-5), (2e-5,), (), ()]
    sketch = first.candidate.config.decisions["sketch"]
    assert first.candidate.config.decisions == {
        "sketch": sketch,
        "tile.C.1": (16, 4),
        "cooperative_fetch.b5": 2,
    }
    assert second.candidate.config.decisions == {
        "sketch": sketch,
        "tile.C.1": (8, 8),
        "cooperative_fetch.b5": 4,
    }
    assert first.candidate.workload == third.candidate.workload != second.candidate.workload
    assert first.candidate.workload.kind.startswith("metaschedule.p")
    assert (failed.outcome, failed.error) == (Outcome.LAUNCH_ERROR, "MetaSchedule records no reason")
    assert first.platform.name == "NVIDIA GeForce RTX 3090/whole/82"
    assert first.platform.software["metaschedule_database"].startswith("database_tuning_record.json sha256:")
    assert list(read_source(tmp_path / "db", options).measurements) == list(source.measurements)


def test_foreign_kernels_have_features(tmp_path: Path, options: ReadOptions) -> None:
    measurements = list(read_source(write_database(tmp_path / "db", fake_records()), options).measurements)
    table = extract([m.candidate for m in measurements], [m.platform for m in measurements])
    names = [column.name for column in table.columns]
    width = table.values[:, names.index(f"{measurements[2].candidate.workload.kind}/cooperative_fetch.b5")]
    np.testing.assert_allclose(width[2:], np.log2(1.0 + np.array([2.0, 2.0])))
    assert np.isnan(width[:2]).all()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda r: r.__setitem__(0, 7), "must refer to a line of the programs"),
        (lambda r: r.__setitem__(0, True), "must refer to a line of the programs"),
        (lambda r: r[1].append(1), r"a record must be [position"),
        (lambda r: r[1].__setitem__(1, [1e-5, 1e10]), "stand for a failure"),
        (lambda r: r[1].__setitem__(1, [-1.0]), "run seconds must be finite"),
        (lambda r: r[1].__setitem__(1, [float("nan")]), "run seconds must be finite"),
        (lambda r: r[1].__setitem__(1, ["1"]), "run seconds must be a list of numbers"),
        (lambda r: r[1].__setitem__(1, 1.0), "run seconds must be a list of numbers"),
        (lambda r: r[1].__setitem__(2, {"kind": "llvm"}), "must match the platform's kind"),
        (lambda r: r[1].__setitem__(0, []), "a trace must be a list of instructions"),
        (lambda r: r[1][0][1].pop(), "one decision for each sampling instruction"),
        (lambda r: r[1][0][1].append([2, [1, 64]]), "one decision for each sampling instruction"),
        (lambda r: r[1][0][1].append([0, 1]), "only sampling instructions"),
        (lambda r: r[1][0][1].append([-1, 1]), "one decision for each sampling instruction"),
        (lambda r: r[1].__setitem__(0, fake_trace([0, 64])), "a list of positive integers"),
        (lambda r: r[1].__setitem__(0, fake_trace(vector=3)), "a position among its choices"),
        (lambda r: r[1].__setitem__(0, fake_trace(vector=1.5)), "an integer or a list"),
    ],
)
def test_what_cannot_be_believed_is_rejected_alone(
    tmp_path: Path, options: ReadOptions, change: Callable[[list[Any]], None], reason: str
) -> None:
    source = read_source(write_database(tmp_path / "db", changed(change)), options)
    assert len(source.measurements) == 3
    (reject,) = source.rejects
    assert reason in reject.reason
    assert reject.record["number"] == 1


def test_a_torn_last_line_is_rejected_and_the_rest_read(tmp_path: Path, options: ReadOptions) -> None:
    data = json_lines(fake_records())
    source = read_source(write_database(tmp_path / "db", data[:-30]), options)
    assert len(source.measurements) == 3
    assert [r.reason for r in source.rejects] == [
        "a line must be JSON (a killed process leaves its last line incomplete)"
    ]
    whole = read_source(write_database(tmp_path / "db", data[:-1]), options)
    assert len(whole.measurements) == 4


def test_a_damaged_program_costs_its_own_records_only(tmp_path: Path, options: ReadOptions) -> None:
    path = write_database(tmp_path / "db", fake_records())
    programs = path.with_name("database_workload.json")
    first, second = programs.read_bytes().splitlines(keepends=True)
    programs.write_bytes(b"[1\n" + second)
    source = read_source(path, options)
    assert {r.record["number"] for r in source.rejects} == {1, 3}
    assert len(source.measurements) == 2
    programs.write_bytes(first)
    assert {r.reason for r in read_source(path, options).rejects} == {
        "a record must refer to a line of the programs"
    }


def test_files_that_are_missing_are_one_error(tmp_path: Path, options: ReadOptions) -> None:
    path = write_database(tmp_path / "db", fake_records())
    with pytest.raises(CostModelError, match=r"database_tuning_record.json.platform.toml next to it"):
        read_source(path)
    programs = path.with_name("database_workload.json")
    assert not read_source(programs, options).measurements
    programs.unlink()
    with pytest.raises(CostModelError, match="programs of a MetaSchedule database must be in the folder"):
        read_source(path, options)
    with pytest.raises(CostModelError, match=r"has neither measurements\.parquet nor database"):
        read_source(tmp_path, options)


def test_a_database_becomes_a_dataset(tmp_path: Path, options: ReadOptions, header) -> None:
    path = write_database(tmp_path / "db", fake_records())
    files = [path, path.with_name("database_workload.json")]
    report = build_dataset(files, tmp_path / "out", header=header, options=options)
    assert (report.measurements, report.rejects) == (4, {})
    (finding,) = report.findings
    assert finding.concerns.endswith("database_workload.json")
    assert len(load_dataset(tmp_path / "out").candidates) == 4


@pytest.fixture
def tuned(tmp_path: Path) -> tuple[Path, list[Any]]:
    """A database that TVM wrote, of two configs of ours, a failure and a foreign trace; and the configs."""
    pytest.importorskip("tvm")
    from tvm.s_tir import Schedule
    from tvm.s_tir import meta_schedule as ms

    space, rng = open_space(Workload.parse(MATMUL), "cuda"), np.random.default_rng(0)
    folder = tmp_path / "tuned"
    folder.mkdir()
    database = ms.database.JSONDatabase(work_dir=str(folder))
    workload = database.commit_workload(space.module)
    configs = [space.sample(rng) for _ in range(3)]
    traces = [space.schedule(config).trace for config in configs] + [Schedule(space.module).trace]
    for trace, run_secs in zip(traces, ([1e-5, 2e-5], [3e-5], [1e10], [4e-5]), strict=True):
        database.commit_tuning_record(
            ms.database.TuningRecord(trace, workload, run_secs, make_target("cuda"))
        )
    return folder, configs


@pytest.mark.tvm
def test_a_trace_that_ends_tvm_costs_itself_only(tuned: tuple[Path, list[Any]], options: ReadOptions) -> None:
    path = tuned[0] / "database_tuning_record.json"
    first, *others = (json.loads(line) for line in path.read_bytes().splitlines())
    fuse = next(instruction for instruction in first[1][0][0] if instruction[0] == "Fuse")
    fuse[2][0] = None  # a null pointer, which TVM follows
    path.write_bytes(json_lines([first, *others]))
    source = read_source(path, options)
    (reject,) = source.rejects
    assert "a trace must be one that TVM applies, but TVM ended its process (SIG" in reject.reason
    assert reject.record["number"] == 1
    assert len(source.measurements) == len(others)
    assert any(each.candidate.launches for each in source.measurements)


@pytest.mark.tvm
def test_a_program_of_ours_is_known_by_its_hash(tuned, options: ReadOptions) -> None:
    folder, configs = tuned
    named = ReadOptions(options.platform, workloads=tuple(map(Workload.parse, (MATMUL, "softmax-m8-n8"))))
    source = read_source(folder, named)
    assert source.rejects == []
    *ours, foreign = source.measurements
    assert [m.candidate.config for m in ours] == configs
    assert all(m.candidate.workload.name == MATMUL and not m.candidate.launches for m in ours)
    assert [m.latencies_s for m in ours] == [(1e-5, 2e-5), (3e-5,), ()]
    assert foreign.candidate.workload.kind.startswith("metaschedule.p")
    with pytest.raises(CostModelError, match=r"One of the 1 programs .* but none is"):
        read_source(folder, ReadOptions(options.platform, workloads=(Workload.parse("softmax-m8-n8"),)))
    unnamed = list(read_source(folder, options).measurements)
    assert len({m.candidate.candidate_id for m in unnamed}) == 4
    assert {m.candidate.workload for m in unnamed} == {foreign.candidate.workload}


@pytest.mark.tvm
def test_a_file_of_the_platform_can_name_the_program(tuned, tmp_path: Path) -> None:
    folder, configs = tuned
    program, _ = json.loads((folder / "database_workload.json").read_text().splitlines()[0])
    (folder / "database_tuning_record.json.platform.toml").write_text(
        f'device = "RTX 3090"\n[workloads]\n{program} = "{MATMUL}"\n'
    )
    assert [m.candidate.config for m in list(read_source(folder).measurements)[:3]] == configs


@pytest.mark.tvm
def test_kernels_have_the_launches_of_their_lowered_programs(tuned, options: ReadOptions) -> None:
    """Without names its program is anybody's; its kernels are those that our space lowers to."""
    folder, configs = tuned
    space = open_space(Workload.parse(MATMUL), "cuda")
    named = replace(options, workloads=(Workload.parse(MATMUL),))
    for which, expected in (
        ("all", [space.candidate(config).launches for config in configs]),
        ("needed", [()] * 3),
    ):
        measured = read_source(folder, replace(named, lower_traces=which)).measurements
        assert [m.candidate.launches for m in measured][:3] == expected
    none = read_source(folder, replace(options, lower_traces="none")).measurements
    assert {m.candidate.launches for m in none} == {()}
    measurements = list(read_source(folder, options).measurements)
    *scheduled, unscheduled = [m.candidate for m in measurements]
    assert all(candidate.workload.is_foreign for candidate in scheduled)
    assert [c.launches for c in scheduled] == [space.candidate(config).launches for config in configs]
    assert len({c.launches for c in scheduled}) > 1
    table = extract([*scheduled, unscheduled], [m.platform for m in measurements])
    names = [column.name for column in table.columns]
    blocks = table.values[:, names.index("log2_blocks")]
    assert np.array_equal(blocks[:3], np.log2([c.launches[0].blocks for c in scheduled]))


def with_decision(folder: Path, number: int, change: Callable[[list[Any]], None]) -> None:
    """Write a tuned database again with the decisions of one of its records changed."""
    path = folder / "database_tuning_record.json"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    change(records[number - 1][1][0][1])
    path.write_bytes(json_lines(records))


@pytest.mark.tvm
def test_a_decision_that_tvm_does_not_apply_is_an_error_of_the_file(tuned, options: ReadOptions) -> None:
    folder, _ = tuned
    with_decision(folder, 2, lambda decisions: decisions[0].__setitem__(1, [1, 1, 1, 1, 5]))
    with pytest.raises(CostModelError, match=r"in line 2 tile\.C\.0 is \(1, 1, 1, 1, 5\) there and .*, 32\)"):
        read_source(folder, options)


@pytest.mark.tvm
def test_what_is_not_written_as_a_choice_of_ours_is_replayed(tuned, options: ReadOptions) -> None:
    """TVM gives the outermost factor what is left of the loop's extent."""
    folder, configs = tuned
    outer, *inner = configs[1].decisions["tile.C.i"]
    with_decision(folder, 2, lambda decisions: decisions[0].__setitem__(1, [outer * 7, *inner]))
    named = ReadOptions(options.platform, workloads=(Workload.parse(MATMUL),))
    assert [m.candidate.config for m in read_source(folder, named).measurements][:3] == configs


@pytest.mark.tvm
@pytest.mark.parametrize("is_in_sample", [True, False])
def test_one_record_in_fifty_is_replayed(tuned, options: ReadOptions, is_in_sample: bool) -> None:
    """Which, its checksum says: the fourth is replayed or not, by its seconds."""
    folder, _ = tuned
    path = folder / "database_tuning_record.json"
    first, second, third, _ = path.read_text().splitlines(keepends=True)
    wrong = json.loads(second)
    wrong[1][0][1][0][1] = [1, 1, 1, 1, 5]
    lines = (f"{json.dumps([wrong[0], [wrong[1][0], [s / 1e6], *wrong[1][2:]]])}\n" for s in range(1, 1000))
    fourth = next(line for line in lines if (zlib.crc32(line.encode()) % 50 == 0) == is_in_sample)
    path.write_text(first + second + third + fourth)
    with pytest.raises(CostModelError, match="in line 4") if is_in_sample else nullcontext():
        assert len(read_source(folder, options).measurements) == 4
