"""Kernel graphs of Relax modules."""

from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from costmodel.cli._app import app
from costmodel.errors import CostModelError
from costmodel.planner import (
    FirstKnown,
    PlacementProblem,
    RecordedLatencies,
    RooflineLatencies,
    place,
    plan,
    read_relax,
    replay,
)
from costmodel.planner._latencies import KernelTable, Latencies
from costmodel.planner.graphs._kernel_graph import DependencyKind
from costmodel.planner.placement._problem import kernel_nodes, slices
from costmodel.records import Workload
from costmodel.workloads._programs import calls_of

tvm = pytest.importorskip("tvm")
pytestmark = [pytest.mark.tvm, pytest.mark.white_box]

PROGRAM = """
from costmodel.workloads import Bert, export_network
module = export_network(Bert({size}, {heads}, 1), "float32", x=({tokens}, {size}))
"""


def block(size: int, heads: int, tokens: int) -> Any:
    from costmodel.workloads import Bert, export_network

    return export_network(Bert(size, heads, 1), "float32", x=(tokens, size))


@pytest.fixture(scope="module")
def latencies() -> Latencies:
    recorded = RecordedLatencies("sm-budgets", "H200")
    return FirstKnown(recorded, RooflineLatencies(recorded.device))


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "block.py"
    path.write_text(PROGRAM.format(size=768, heads=12, tokens=128))
    return f"{path}:module"


def test_kernels_of_a_module_take_on_slices_what_was_recorded_there(latencies: Latencies) -> None:
    module = block(768, 12, 128)
    graphs = {sms: read_relax(module, latencies, sms=sms).graph for sms in (32, 132)}
    nodes, edges = kernel_nodes(graphs)
    product = next(node for node in nodes if node.name.startswith("matmul"))
    known = latencies.kernels(Workload.parse(product.name))
    assert known
    for sms in (32, 132):
        best = known.best(sms)
        assert best
        assert product.sm_latency[sms] == pytest.approx(1e6 * best.latency_s)
    assert product.latency == product.sm_latency[132] < product.sm_latency[32] < 132 / 32 * product.latency
    found = place(PlacementProblem(nodes, edges, slices((66, 32), memory=inf)))
    assert found.loads[0].compute == pytest.approx(sum(nodes[i].on_sms(66) for i in found.loads[0].nodes))
    assert all(each.transfer == 0 for each in found.loads)


def test_the_command_places_a_module_on_slices(program: str) -> None:
    found = CliRunner().invoke(app, ["place", program, "--slices", "100,100"])
    assert found.exit_code == 2
    assert "must share the 132 SMs" in " ".join(found.output.split())
    assert CliRunner().invoke(app, ["place", program]).exit_code == 2
    assert CliRunner().invoke(app, ["place", program, "--slices", "66,66", "--memory", "9"]).exit_code == 2


def test_calls_come_in_order_with_what_they_need() -> None:
    calls = calls_of(block(24, 3, 10))
    names = [call.workload.name if call.workload and not call.workload.is_program else "" for call in calls]
    products = [i for i, name in enumerate(names) if name == "matmul_bias-m10-n24-k24"]
    scores = next(i for i, name in enumerate(names) if name.startswith("batch_matmul-b3-m10-n10"))
    assert len(products) == 3
    assert all(calls[i].after == () for i in products)
    assert len(calls[scores].after) == 2  # queries and keys, through what moves them
    assert {calls[i].after for i in calls[scores].after} == {(products[0],), (products[1],)}
    softmax = names.index("softmax-m30-n10")
    assert calls[softmax].after == (scores,)  # a reshape between is no kernel
    assert all(max(call.after, default=-1) < i for i, call in enumerate(calls))
    assert calls[products[0]].moved_bytes == 4 * (10 * 24 + 24 * 24 + 24 + 10 * 24)
    unknown = [call.workload for call, name in zip(calls, names, strict=True) if not name]
    assert len(unknown) == 4
    assert all(each and each.is_program for each in unknown)


def functions(*names: str) -> Any:
    """A module whose functions call a library, then a softmax of it, taken out of a tuple."""
    from tvm import relax

    builder = relax.BlockBuilder()
    for name in names:
        x = relax.Var("x", relax.TensorType((8, 16), "float32"))
        with builder.function(name, [x]):
            with builder.dataflow():
                first = builder.emit(relax.call_dps_packed("library.call", (x,), x.ty))
                pair = builder.emit(relax.Tuple([first, x]))
                taken = builder.emit(relax.TupleGetItem(pair, 0))
                result = builder.emit_output(relax.op.nn.softmax(taken, axis=1))
            builder.emit_func_output(result)
    return builder.get()


def test_a_call_of_a_library_is_a_kernel_that_nobody_knows() -> None:
    library, softmax = calls_of(functions("run"))
    assert (library.name, library.workload, library.after) == ("library.call", None, ())
    assert library.moved_bytes == 2 * 4 * 8 * 16
    assert softmax.workload
    assert (softmax.workload.name, softmax.after) == ("softmax-m8-n16", (0,))


def test_a_function_is_chosen_by_name() -> None:
    module = functions("one", "two")
    assert len(calls_of(module, "two")) == 2
    with pytest.raises(CostModelError, match="but got three and one, two"):
        calls_of(module, "three")
    with pytest.raises(CostModelError, match="but got no name and one, two"):
        calls_of(module)
    assert len(calls_of(functions("other", "main"))) == 2


def test_kernels_take_what_was_recorded_and_others_a_roofline(latencies: Latencies, program: str) -> None:
    found = read_relax(program, latencies, sms=32)
    graph = found.graph
    product = graph.names.index("matmul_bias-m128-n768-k768")
    table = latencies.kernels(Workload.parse("matmul_bias-m128-n768-k768"))
    best = table.best(32) if table else None
    assert best
    assert graph.durations_s[graph.name_ids == product] == pytest.approx(3 * [best.latency_s])
    assert set(graph.sms) == {32}
    assert replay(graph).makespan_s == pytest.approx(graph.durations_s.sum())  # one stream
    (said,) = found.inspection.unknown
    assert said.startswith("4 of 15 calls are of no operator that is known: 1 x fused_")
    assert "calls of 5 kernels take what was recorded of their best kernel on 32 SMs of NVIDIA H200" in (
        " ".join(graph.assumptions)
    )
    assert np.isnan(found.starts_s).all()


class Uncertain(Latencies):
    """One kernel of each workload, which takes 4 us and is in doubt by a factor of 2."""

    def __init__(self) -> None:
        self.device = RecordedLatencies("h100-sm-budgets").device

    def kernels(self, workload: Workload) -> KernelTable | None:
        """See ``Latencies``; None of programs."""
        seconds = np.array([[4e-6]])
        table = KernelTable(("one",), (132,), seconds, "predicted", seconds / 2, seconds * 2)
        return None if workload.is_program else table


def test_intervals_of_predictions_are_added_up() -> None:
    found = read_relax(block(24, 3, 10), Uncertain())
    graph = found.graph
    said, rest, _ = graph.assumptions
    assert said.startswith("11 calls of 8 kernels take what a model predicts")
    assert said.endswith("44.0 us; the ends of their 90 % intervals add up to 22.0 and 88.0 us.")
    assert rest.startswith("4 calls of 4 kernels take a start and what a roofline says")
    assert replay(graph).makespan_s > 44e-6 + 4 * 1.5e-6


def test_streams_run_what_does_not_need_each_other(latencies: Latencies, program: str) -> None:
    found = plan(program, "streams=3", latencies=latencies)
    graph = found.before.graph
    data = graph.dependencies.kinds == DependencyKind.DATA
    assert data.sum() == sum(len(call.after) for call in calls_of(block(768, 12, 128)))
    product = latencies.kernels(Workload.parse("matmul_bias-m128-n768-k768"))
    best = product.best(132) if product else None
    assert best  # of queries, keys and values two need not wait for the third
    assert found.before.makespan_s - found.after.makespan_s > 1.5 * best.latency_s


def test_json_of_a_module_is_read_as_the_module(latencies: Latencies, tmp_path: Path) -> None:
    path = tmp_path / "module.json"
    path.write_text(tvm.ir.save_json(block(24, 3, 10)))
    written, whole = read_relax(str(path), latencies).graph, read_relax(block(24, 3, 10), latencies).graph
    assert written.names == whole.names
    assert (written.sms == 132).all()


def test_what_is_no_module_is_refused(latencies: Latencies, tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text("module = 3\nimport tvm\nempty = tvm.IRModule({})\n")
    with pytest.raises(
        CostModelError, match=r"IRModule, or for `costmodel plan` a program of torch\.export, but is a int"
    ):
        read_relax(f"{path}:module", latencies)
    with pytest.raises(CostModelError, match="must have a function main or forward"):
        read_relax(f"{path}:empty", latencies)
    graph = tmp_path / "graph.json"
    graph.write_text('{"tasks": [{"id": "a", "duration_s": 1e-6}]}')
    with pytest.raises(CostModelError, match="Use the what-if sms=32"):
        plan(graph, sms=32)
