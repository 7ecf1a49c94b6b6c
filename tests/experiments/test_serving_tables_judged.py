"""How rows of tables are judged: by what was timed of a problem, and with the rule that tables have."""

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from experiment_folder import found_beside

from costmodel import load_dataset
from costmodel.records import Workload, find_device

pytestmark = pytest.mark.white_box

H200 = find_device("NVIDIA H200")
FOLDER = Path(__file__).parents[2] / "experiments" / "serving"
MODULES = ("attention", "timings", "judge", "model", "extract", "families")
WORKLOADS = [
    "triton.fused_moe-t128-e8-k2-n7168-d4096-s50",
    "triton.fused_moe_float8-t32-e256-k8-n512-d7168-s100",
    "triton.block_scaled_float8-m256-n7168-k2048",
]


@pytest.fixture(scope="module")
def modules() -> Iterator[dict[str, ModuleType]]:
    """Scripts of the experiment."""
    with found_beside(FOLDER, MODULES):
        import attention
        import extract
        import families
        import judge
        import model
        import timings

        found = {"attention": attention, "extract": extract, "families": families}
        yield {**found, "judge": judge, "model": model, "timings": timings}


def test_defaults_and_tables_are_found_among_what_was_timed(modules: dict[str, ModuleType]) -> None:
    judge = modules["judge"]
    data = load_dataset("serving-sm-budgets", workloads=WORKLOADS)
    tasks = modules["timings"].list_tasks(data.to_measurements())
    assert {task.workload.name for task in tasks} == set(WORKLOADS)
    assert {task.sms for task in tasks} >= {32, 64, 132}
    for task in tasks:
        assert np.isfinite(task.X).all()
        assert np.isfinite(task.seconds).all()
        for framework in ("vllm", "sglang"):
            assert judge.place_of_default(task, framework) is not None
            assert judge.place_of_table(task, framework) is not None


def test_the_default_stays_unless_another_is_expected_to_be_well_ahead(
    modules: dict[str, ModuleType],
) -> None:
    judge = modules["judge"]
    data = load_dataset("serving-sm-budgets", workloads=WORKLOADS[:1])
    task = next(task for task in modules["timings"].list_tasks(data.to_measurements()) if task.sms == 32)
    default = judge.place_of_default(task, "vllm")
    other = (default + 1) % len(task.rows)
    log_s = np.zeros(len(task.rows))
    log_s[other] = -0.1
    assert judge.chosen(task, log_s, default, 0.2) == default
    assert judge.chosen(task, log_s, default, 0.05) == other


def test_a_problem_has_no_part_in_the_margin_that_it_is_judged_by(
    modules: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is expected of one problem is the other way round, so that no margin suffices with it."""
    data = load_dataset("serving-sm-budgets", workloads=WORKLOADS)
    tasks = [task for task in modules["timings"].list_tasks(data.to_measurements()) if task.sms == 132]
    wrong = tasks[0].problem
    known = [np.log(task.seconds) * (-1 if task.problem == wrong else 1) for task in tasks]
    margins_of, kinds = modules["model"].margins_of, [""] * len(tasks)
    monkeypatch.setattr(modules["model"], "_FEWEST", 2)
    margin = margins_of(tasks, known, kinds, wrong)[""]
    others = [margins_of(tasks, known, kinds, task.problem)[""] for task in tasks if task.problem != wrong]
    assert margin < min(others)


def test_tables_are_packed_from_a_wheel(modules: dict[str, ModuleType], tmp_path: Path) -> None:
    row = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 128, "GROUP_SIZE_M": 1}
    row |= {"num_warps": 4, "num_stages": 4}
    wheel, folder = tmp_path / "sglang.whl", "sglang/configs/triton_3_5_1"
    with zipfile.ZipFile(wheel, "w") as packed:
        rows = {"1": row, "64": {**row, "SPLIT_K": 4}}
        packed.writestr(f"{folder}/E=8,N=3584,device_name=NVIDIA_L40S.json", json.dumps(rows))
        packed.writestr(f"{folder}/E=8,N=3584,device_name=NVIDIA_L40S_down.json", json.dumps(rows))
        packed.writestr("sglang/other.json", "{}")
    (table,) = modules["extract"]._tables(wheel)
    assert (table.framework, table.triton, table.device) == ("sglang", "3.5.1", "NVIDIA L40S")
    assert table.rows == {1: row}


def test_a_kind_of_few_problems_gets_no_table(modules: dict[str, ModuleType]) -> None:
    data = load_dataset("serving-sm-budgets", workloads=WORKLOADS)
    tasks = [task for task in modules["timings"].list_tasks(data.to_measurements()) if task.sms == 132]
    known, kinds = [np.log(task.seconds) for task in tasks], [task.workload.kind for task in tasks]
    assert set(modules["model"].margins_of(tasks, known, kinds).values()) == {np.inf}
    alike = modules["model"].margins_of(tasks, known, ["one kind"] * len(tasks))
    assert np.isfinite(alike["one kind"])


ATTENTION = "triton.paged_attention-b16-h8-q4-d128-p16-c4096-s30"


def test_the_time_of_attention_is_told_by_its_parts_and_contexts(modules: dict[str, ModuleType]) -> None:
    """Without learning: longer contexts and fewer SMs take longer, and what is told is of the right size."""
    data = load_dataset("serving-sm-budgets", workloads=[ATTENTION])
    tasks = modules["timings"].list_other_tasks(data.to_measurements(), ["triton.paged_attention"])
    assert {task.sms for task in tasks} >= {32, 132}
    for task in tasks:
        default = modules["families"]._default(task)
        assert 0.5 < np.exp(task.base[default]) / task.seconds[default] < 2
    columns, rows = modules["attention"].attention_columns, np.array([[0, 32, 8, 4, 2], [0, 64, 1, 4, 3]])
    told = {
        (length, sms): columns(Workload.parse(ATTENTION.replace("c4096", f"c{length}")), rows, sms, H200)[
            :, 0
        ]
        for length in (4096, 65536)
        for sms in (16, 132)
    }
    assert (told[65536, 132] > told[4096, 132]).all()
    assert (told[4096, 16] > told[4096, 132]).all()
