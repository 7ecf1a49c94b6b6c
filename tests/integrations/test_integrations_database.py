import base64
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tvm")

import tvm
import tvm_ffi
from tuned_programs import H100, context_of, cuda, drawn, matmul, on_h100, row_sums
from tvm.s_tir import meta_schedule as ms

from costmodel.errors import CostModelError
from costmodel.integrations.tvm import Database, named_platform
from costmodel.records._line_file import SharedLineFile, rewrite_lines

pytestmark = [pytest.mark.tvm, pytest.mark.white_box]

A100 = tvm.target.Target("nvidia/nvidia-a100")


def add(database: Any, seconds: float | list[float] | None, which: int = 0, target: Any = None) -> Any:
    """Commit a measurement as MetaSchedule's callback does, failures included."""
    context, candidates = drawn("matmul")
    candidate = candidates[which]
    record = ms.database.TuningRecord(
        candidate.sch.trace,
        database.commit_workload(context.mod),
        [1e10] if seconds is None else [seconds] if isinstance(seconds, float) else seconds,
        target or context.target,
        candidate.args_info,
    )
    database.commit_tuning_record(record)
    return record


def seconds_of(records: Any) -> list[float | None]:
    return [record.run_secs and float(record.run_secs[0]) for record in records]


def test_records_come_back_as_they_were_committed(tmp_path: Path) -> None:
    first = Database(tmp_path / "a.jsonl", on_h100())
    committed = [add(first, seconds, i) for i, seconds in enumerate((3e-3, 1e-3, None, 2e-3))]
    for database in (first, Database(tmp_path / "a.jsonl", on_h100())):
        assert len(database) == 4
        assert database.has_workload(matmul())
        assert not database.has_workload(row_sums())
        found = database.get_all_tuning_records()
        assert seconds_of(found) == [3e-3, 1e-3, None, 2e-3]
        for ours, theirs in zip(found, committed, strict=True):
            assert str(ours.trace) == str(theirs.trace)
            assert [str(info) for info in ours.args_info] == [str(info) for info in theirs.args_info]
            assert str(ours.target.export()) == str(theirs.target.export())
            assert tvm_ffi.structural_equal(ours.workload.mod, theirs.workload.mod)
        assert seconds_of(database.get_top_k(database.commit_workload(matmul()), 2)) == [1e-3, 2e-3]


def test_what_failed_is_no_answer(tmp_path: Path) -> None:
    database = Database(tmp_path / "a.jsonl", on_h100())
    add(database, None)
    assert database.get_top_k(database.commit_workload(matmul()), 5) == []
    assert database.query(matmul(), cuda(), kind="record") is None
    assert database.best_for(matmul()) is None


def test_a_query_gives_a_schedule_that_is_the_fastest_ones(tmp_path: Path) -> None:
    database = Database(tmp_path / "a.jsonl", on_h100())
    add(database, 2e-3, 0)
    record = add(database, 1e-3, 1)
    _, candidates = drawn("matmul")
    schedule = database.query(matmul(), cuda(), kind="schedule")
    assert str(schedule.trace) == str(record.trace)
    module = database.query(matmul(), cuda(), kind="ir_module")
    assert tvm_ffi.structural_equal(module, candidates[1].sch.mod)
    assert database.query(row_sums(), cuda(), kind="schedule") is None


def test_one_disturbed_repeat_does_not_make_a_kernel_slow(tmp_path: Path) -> None:
    database = Database(tmp_path / "a.jsonl", on_h100())
    add(database, [1e-3, 1e-3, 9e-3], 0)
    add(database, [2e-3, 2e-3, 2e-3], 1)
    assert database.best_for(matmul()).latency_s == 1e-3
    assert seconds_of(database.get_top_k(database.commit_workload(matmul()), 1)) == [1e-3]


def test_a_query_is_answered_for_its_target_whoever_is_the_host(tmp_path: Path) -> None:
    database = Database(tmp_path / "a.jsonl", on_h100())
    add(database, 1e-3, target=A100)
    assert database.query(matmul(), cuda(), kind="record") is None
    add(database, 2e-3)
    hosted = cuda().with_host(tvm.target.Target("llvm"))
    for target in (cuda(), hosted):
        assert seconds_of([database.query(matmul(), target, kind="record")]) == [2e-3]


def test_budgets_and_devices_share_a_file_and_not_their_records(tmp_path: Path) -> None:
    others = named_platform("NVIDIA H200", 32)
    platforms = {8: on_h100(8), 32: on_h100(32), 132: on_h100(132), "H200": others}
    databases = {name: Database(tmp_path / "a.jsonl", platform) for name, platform in platforms.items()}
    for i, database in enumerate(databases.values()):
        add(database, 1e-3 * (4 - i), i)
    for i, database in enumerate(databases.values()):
        assert seconds_of(database.get_all_tuning_records()) == [1e-3 * (4 - i)]
        assert seconds_of([database.query(matmul(), cuda(), kind="record")]) == [1e-3 * (4 - i)]


def test_the_best_for_a_budget_or_for_the_nearest(tmp_path: Path) -> None:
    for sms, latencies in {8: (5e-3, 4e-3), 32: (2e-3, 3e-3)}.items():
        database = Database(tmp_path / "a.jsonl", on_h100(sms))
        for i, seconds in enumerate(latencies):
            add(database, seconds, i)
    add(Database(tmp_path / "a.jsonl", on_h100(132)), None)
    database = Database(tmp_path / "a.jsonl", on_h100(132))
    answers = {sms: database.best_for(matmul(), device=H100, sms=sms) for sms in (4, 8, 16, 17, 32, 132)}
    assert {sms: (a.sms, a.latency_s, a.exact) for sms, a in answers.items()} == {
        4: (8, 4e-3, False),
        8: (8, 4e-3, True),
        16: (8, 4e-3, False),  # 16 is as far from 8 as from 32: the smaller
        17: (32, 2e-3, False),
        32: (32, 2e-3, True),
        132: (32, 2e-3, False),  # what was measured there failed
    }
    assert database.best_for(matmul()).sms == 32
    assert database.best_for(matmul(), device="NVIDIA H200", sms=32) is None
    assert database.best_for(row_sums()) is None


@pytest.mark.filterwarnings("ignore:.*must end in a whole line:RuntimeWarning")
@pytest.mark.parametrize(
    "tail", [b'{"crc32": "00', b'{"crc32":"00000000","record":{}}\n', b"\n", b"\x00" * 9]
)
def test_a_torn_line_costs_that_line_alone(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "a.jsonl"
    add(Database(path, on_h100()), 1e-3)
    whole = path.read_bytes()
    path.write_bytes(whole + tail)
    database = Database(path, on_h100())
    assert path.read_bytes() == whole
    assert (tmp_path / "a.jsonl.torn").read_bytes() == tail
    add(database, 2e-3)
    assert seconds_of(Database(path, on_h100()).get_all_tuning_records()) == [1e-3, 2e-3]


def test_damage_before_the_end_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    add(Database(path, on_h100()), 1e-3)
    path.write_bytes(path.read_bytes().replace(b"H100", b"H200"))
    add_line = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([add_line[1], add_line[0]]))
    with pytest.raises(CostModelError, match="line 1 is damaged"):
        Database(path, on_h100())


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CostModelError, match="jsonl"):
        Database(tmp_path / "a.json", on_h100())
    SharedLineFile(tmp_path / "b.jsonl", "the database").append([b'{"type":"other"}'])
    with pytest.raises(CostModelError, match="of this version"):
        Database(tmp_path / "b.jsonl", on_h100())


def test_a_search_starts_from_what_the_database_knows(tmp_path: Path) -> None:
    """What MetaSchedule calls while it searches: commits, and asks for the best."""
    context = context_of(matmul())
    database = Database(tmp_path / "a.jsonl", on_h100())
    for i in range(4):
        add(database, 1e-3 * (i + 1), i)
    spaces = context.generate_design_space()
    context.pre_tuning(8, 8, spaces, database, ms.cost_model.RandomModel(seed=1))
    assert context.generate_measure_candidates()


def test_what_tvm_cannot_read_is_refused_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "tuned.jsonl"
    add(Database(path, on_h100()), 1e-3)
    lines = path.read_bytes().splitlines()
    records = [json.loads(line)["record"] for line in lines]
    damage = {
        "measured": {"arguments": [["TENSOR", "float" + "9" * 50, [1]]]},
        "program": {"fields": ["1", "!"]},
    }
    for kind, changed in damage.items():
        damaged = [each | changed if each["type"] == kind else each for each in records]
        rewrite_lines(path, [json.dumps(each).encode() for each in damaged])
        with pytest.raises(CostModelError, match=r"tuned.jsonl must be a database of programs and traces of"):
            Database(path, on_h100()).get_all_tuning_records()


def end_tvm(entry: dict[str, Any]) -> None:
    """Let an array hold itself, or put a null where TVM follows a pointer."""
    if entry["type"] == "program":
        document = json.loads(base64.b64decode(entry["fields"][1])[8:])  # behind its length
        nodes = enumerate(document["nodes"])
        at, data = next((at, node["data"]) for at, node in nodes if node["type"] == "ffi.Array")
        data.insert(0, at)
        altered = json.dumps(document).encode()
        entry["fields"][1] = base64.b64encode(len(altered).to_bytes(8, "little") + altered).decode()
    else:
        fuse = next(instruction for instruction in entry["trace"][0] if instruction[0] == "Fuse")
        fuse[2][0] = None


@pytest.mark.parametrize("kind", ["program", "measured"])
def test_what_others_wrote_cannot_end_this_process(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.jsonl"
    add(Database(path, on_h100()), 1e-3)
    entries = [json.loads(line) for _, line in SharedLineFile(path, "the database").read_new()]
    end_tvm(next(entry for entry in entries if entry["type"] == kind))
    rewrite_lines(path, [json.dumps(entry).encode() for entry in entries])
    with pytest.raises(CostModelError, match=r"a.jsonl must be .*TVM ended its process \(SIG.*Tune with"):
        Database(path, on_h100()).best_for(matmul())


def test_what_this_process_wrote_is_not_opened_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("costmodel.integrations.tvm._database.call_apart", None)
    database = Database(tmp_path / "a.jsonl", on_h100())
    add(database, 1e-3)
    assert database.best_for(matmul()).latency_s == 1e-3
