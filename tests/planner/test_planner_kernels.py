"""What-ifs on kernels whose workloads are known, and what to tune next."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costmodel.errors import CostModelError
from costmodel.planner import (
    KernelGraph,
    RecordedLatencies,
    fuse,
    plan,
    rank,
    read_graph,
    replay,
    same_kernels_on_sms,
    tuned,
)
from costmodel.planner.whatif._half_precision import half_precision
from costmodel.planner.whatif._known_kernels import unfused
from costmodel.records import Workload
from costmodel.service import JobFile, JobStore

pytestmark = pytest.mark.white_box

PRODUCT, NORM, SOFTMAX = "matmul_bias-m128-n768-k768", "layer_norm-m128-n768", "softmax-m1536-n128"
CONVOLUTION = "conv2d_bias_relu-n1-c64-h56-w56-o64-k3-s1"


@pytest.fixture(scope="module")
def latencies() -> RecordedLatencies:
    return RecordedLatencies("sm-budgets", "H200")


def load(tmp_path: Path, tasks: list[dict[str, Any]]) -> KernelGraph:
    path = tmp_path / "graph.json"
    path.write_text(json.dumps({"tasks": tasks}))
    return read_graph(path).graph


def best_s(latencies: RecordedLatencies, name: str, sms: int, chosen_for: int | None = None) -> float:
    table = latencies.kernels(Workload.parse(name))
    best = table.best(sms, chosen_for) if table else None
    assert best
    return best.latency_s


@pytest.fixture
def graph(tmp_path: Path) -> KernelGraph:
    """A product and a softmax on 132 SMs, twice as slow as known, a norm as fast, and something unknown."""
    return load(
        tmp_path,
        [
            {"id": "product", "duration_s": 1e-4, "sms": 132, "workload": PRODUCT},
            {"id": "softmax", "duration_s": 1e-5, "sms": 132, "workload": SOFTMAX},
            {"id": "norm", "duration_s": 1e-9, "sms": 132, "workload": NORM},
            {"id": "unknown", "duration_s": 2e-5, "sms": 132, "blocks": 64},
        ],
    )


def test_tuned_kernels_take_what_is_known_where_that_is_less(
    graph: KernelGraph, latencies: RecordedLatencies
) -> None:
    changed = tuned(graph, latencies)
    expected = [best_s(latencies, PRODUCT, 132), best_s(latencies, SOFTMAX, 132), 1e-9, 2e-5]
    assert changed.durations_s.tolist() == pytest.approx(expected)
    assert "2 kernels became the best that was recorded" in changed.assumptions[0]
    assert "1 are as fast already" in changed.assumptions[0]
    only = tuned(graph, latencies, "soft")
    assert only.durations_s[0] == 1e-4
    assert only.durations_s[1] == expected[1]


def test_other_sms_take_what_the_same_kernel_takes_there(
    graph: KernelGraph, latencies: RecordedLatencies
) -> None:
    changed = same_kernels_on_sms(graph, 32, latencies)
    kept, whole = (best_s(latencies, PRODUCT, sms, chosen_for=132) for sms in (32, 132))
    assert changed.durations_s[0] == pytest.approx(1e-4 * kept / whole)
    twice = np.hypot(0.65, 0.35 * 2) / np.hypot(0.65, 0.35)  # the SMs' part, in two rounds of blocks
    assert changed.durations_s[3] == pytest.approx(1.2e-6 + 18.8e-6 * twice)
    assert set(changed.sms) == {32}
    again = tuned(changed, latencies)
    assert again.durations_s[0] == pytest.approx(best_s(latencies, PRODUCT, 32))
    assert f"all would take {1e6 * replay(again).makespan_s:,.1f} us" in changed.assumptions[-1]


def test_the_texts_do_the_same(graph: KernelGraph, latencies: RecordedLatencies) -> None:
    found = plan(graph, "sms=32,tuned", latencies=latencies)
    expected = tuned(same_kernels_on_sms(graph, 32, latencies), latencies)
    assert found.after.graph.durations_s.tolist() == expected.durations_s.tolist()
    assert plan(graph, "sms=32").after.graph.durations_s[0] != expected.durations_s[0]  # blocks alone
    apart = plan(graph, "unfuse", latencies=latencies)
    assert apart.after.makespan_s == apart.before.makespan_s  # without an epilogue that is recorded
    with pytest.raises(CostModelError, match="must be written tuned or tuned:PATTERN, but got 'tuned=2'"):
        plan(graph, "tuned=2", latencies=latencies)


def test_a_kernel_without_its_epilogue_moves_its_result_once_more(
    tmp_path: Path, latencies: RecordedLatencies
) -> None:
    anchor = "conv2d-n1-c64-h56-w56-o64-k3-s1"
    fused = best_s(latencies, CONVOLUTION, 32)
    tasks = [{"id": "a", "duration_s": fused, "sms": 32, "workload": CONVOLUTION}]
    graph = load(tmp_path, tasks)
    changed = unfused(graph, latencies)
    moved = 4 * (2 * 64 * 56 * 56 + 64)  # the result twice, and the bias
    epilogue = 1.5e-6 + moved / (32 * 88e9)
    assert changed.durations_s[0] == pytest.approx(best_s(latencies, anchor, 32) + epilogue)
    assert "Fusing loses for none of them" in changed.assumptions[0]
    slow = load(tmp_path, [tasks[0] | {"duration_s": 1e-3}])
    assert f"Fusing loses for {CONVOLUTION} (9" in unfused(slow, latencies).assumptions[0]


def test_what_changes_a_kernel_changes_what_it_computes(graph: KernelGraph) -> None:
    halves = half_precision(graph)
    assert halves.workloads == ("", f"{PRODUCT}-float16", f"{SOFTMAX}-float16", f"{NORM}-float16")
    one = fuse(graph, "product", "softmax")
    assert [one.workload(task) for task in range(len(one))] == ["", NORM, ""]


def test_convolutions_in_half_precision_have_channels_last(tmp_path: Path) -> None:
    graph = load(tmp_path, [{"id": "a", "duration_s": 1e-5, "workload": CONVOLUTION}])
    assert half_precision(graph).workloads[1] == "conv2d_nhwc_bias_relu-n1-c64-h56-w56-o64-k3-s1-float16"


def test_nothing_is_tuned_that_nobody_knows(tmp_path: Path, latencies: RecordedLatencies) -> None:
    graph = load(tmp_path, [{"id": "a", "duration_s": 1e-5}])
    with pytest.raises(CostModelError, match="must contain the workloads of its kernels"):
        tuned(graph, latencies)
    assert rank(graph, latencies).table.empty
    with pytest.raises(CostModelError, match="no better kernel is known of any"):
        rank(graph, latencies).job_file()


def test_a_workload_that_is_none_is_refused_where_it_is_written(tmp_path: Path) -> None:
    with pytest.raises(CostModelError, match="Unknown workload 'matmul-m8'"):
        load(tmp_path, [{"id": "a", "duration_s": 1e-5, "workload": "matmul-m8"}])


@pytest.fixture
def branches(tmp_path: Path) -> KernelGraph:
    """A product of 100 us beside a softmax and another of 90 us, on two streams; then a norm of 20 us."""
    slow = {"duration_s": 90e-6, "sms": 132, "workload": SOFTMAX, "resource": "b"}
    return load(
        tmp_path,
        [
            {"id": "product", "duration_s": 100e-6, "sms": 132, "workload": PRODUCT, "resource": "a"},
            slow | {"id": "softmax", "duration_s": 40e-6},
            slow | {"id": "again", "duration_s": 50e-6},
            {
                "id": "norm",
                "duration_s": 20e-6,
                "sms": 132,
                "workload": NORM,
                "resource": "a",
                "after": ["again"],
            },
        ],
    )


def test_gains_are_those_of_the_whole_not_of_the_kernel(
    branches: KernelGraph, latencies: RecordedLatencies
) -> None:
    found = rank(branches, latencies)
    rows = found.table.set_index("workload")
    # The other branch holds 90 us: a product that takes 8 us instead of 100 gains 10 us of the whole.
    assert rows.gain_s[PRODUCT] == pytest.approx(10e-6)
    assert rows.gain_s[NORM] == pytest.approx(20e-6 - best_s(latencies, NORM, 132))
    assert rows.gain_s[SOFTMAX] == 0.0  # not on the critical path
    assert found.table.workload.tolist() == [NORM, PRODUCT, SOFTMAX]
    assert rows.calls.tolist() == [1, 1, 2]
    assert rows.critical_calls[SOFTMAX] == 0
    assert rows.critical_share[PRODUCT] == pytest.approx(100 / 120)
    assert rows.gap[PRODUCT] == pytest.approx(100e-6 / best_s(latencies, PRODUCT, 132))
    assert found.known_share == 1.0
    assert found.together_s == pytest.approx(
        max(best_s(latencies, PRODUCT, 132), 2 * best_s(latencies, SOFTMAX, 132))
        + best_s(latencies, NORM, 132)
    )


def test_what_to_tune_next_becomes_a_job(
    branches: KernelGraph, latencies: RecordedLatencies, tmp_path: Path
) -> None:
    found = rank(branches, latencies)
    assert found.commands()[0] == f"costmodel tune {NORM} --sms 132 --runner cuda"
    path = tmp_path / "jobs.toml"
    found.save_job(path, trials=8)
    read = JobFile.load(path)
    assert read == found.job_file(trials=8)
    assert read.workloads == {NORM: 1.0, PRODUCT: 1.0}
    store = JobStore(str(tmp_path / "jobs.db"))
    shown = store.show(store.submit(read.job(), submitter="somebody"))
    assert [task.name for task in shown.tasks] == [f"{NORM} on 132 SMs", f"{PRODUCT} on 132 SMs"]
    assert shown.runner == "cuda"


def test_the_weight_of_a_workload_is_its_calls_on_the_critical_path(
    tmp_path: Path, latencies: RecordedLatencies
) -> None:
    task = {"sms": 132, "workload": SOFTMAX}
    tasks = [
        task | {"id": "long", "duration_s": 1e-4, "resource": "a"},
        task | {"id": "short", "duration_s": 1e-5, "resource": "b"},
    ]
    found = rank(load(tmp_path, tasks), latencies)
    assert found.table.calls.tolist() == [2]
    assert found.job_file().workloads == {SOFTMAX: 1.0}


def test_kernels_on_several_numbers_of_sms_are_no_job(tmp_path: Path, latencies: RecordedLatencies) -> None:
    tasks = [{"id": str(sms), "duration_s": 1e-3, "sms": sms, "workload": SOFTMAX} for sms in (32, 132)]
    found = rank(load(tmp_path, tasks), latencies)
    assert np.all(found.table.gain_s > 0)
    with pytest.raises(CostModelError, match="one number of SMs, but got 32, 132"):
        found.job_file()
