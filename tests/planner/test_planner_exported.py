"""Plans of PyTorch modules that never ran, beside what the models of calls and bytes counted by hand say."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from costmodel.cli import app
from costmodel.errors import CostModelError
from costmodel.planner import RooflineLatencies, plan
from costmodel.planner.graphs._exported import LibraryLatencies, read_exported
from costmodel.products import Kernel, Product, predict_seconds
from costmodel.records import Workload, find_device

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.white_box]
H200 = "NVIDIA H200"


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = torch.nn.Linear(64, 192)
        self.out = torch.nn.Linear(64, 64, bias=False)

    def forward(self, x):
        q, k, v = self.qkv(x).view(2, 128, 3, 4, 16).permute(2, 0, 3, 1, 4)
        attended = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        return torch.nn.functional.gelu(x + self.out(attended.transpose(1, 2).reshape(2, 128, 64)))


def exported(module, *shapes, dtype=torch.float16):
    with torch.device("meta"):
        inputs = tuple(torch.empty(shape, dtype=dtype) for shape in shapes)
        return torch.export.export(module().to(dtype), inputs)


@pytest.fixture(scope="module")
def block():
    return exported(Block, (2, 128, 64))


def test_each_operator_is_a_kernel_and_views_are_none(block) -> None:
    graph = read_exported(block, H200, 32).graph
    names = [graph.name(i) for i in range(len(graph))]
    assert [each.partition("::")[2] for each in names] == [
        "linear",
        "scaled_dot_product_attention",
        "clone",  # the heads of a token become neighbours again
        "linear",
        "add",
        "gelu",
    ]
    assert [graph.workload(i) for i in (0, 3)] == [
        "matmul_bias-m256-n192-k64-float16",
        "matmul-m256-n64-k64-float16",
    ]
    assert [graph.scopes[i] for i in graph.scope_ids] == ["qkv", "", "", "out", "", ""]
    assert set(graph.sms.tolist()) == {32}


def test_products_take_what_their_model_says_and_others_what_they_move(block) -> None:
    graph = read_exported(block, H200, 32).graph
    product = Product(256, 192, 64, epilogue="bias")
    assert graph.durations_s[0] == pytest.approx(predict_seconds(product, [Kernel("torch")], 32)[0])
    roof = RooflineLatencies(find_device(H200))
    bytes_of_one = 2 * 128 * 64 * 2
    for task, tensors in ((2, 2), (4, 3), (5, 2)):
        assert graph.durations_s[task] == pytest.approx(roof.moving_s(32, tensors * bytes_of_one))


def test_long_attention_is_limited_by_its_operations() -> None:
    class Attention(torch.nn.Module):
        def forward(self, q, k, v):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    took = [
        read_exported(exported(Attention, *([(1, 16, tokens, 128)] * 3)), H200).graph.durations_s[0]
        for tokens in (4096, 8192)
    ]
    flops, gpu = 4 * 16 * 4096**2 * 128, find_device(H200)
    peak = gpu.sms * gpu.clock_mhz * 1e6 * gpu.tensor_flops_per_sm_clock
    assert took[0] == pytest.approx(1.5e-6 + flops / (0.35 * peak))
    assert took[1] - 1.5e-6 == pytest.approx(4 * (took[0] - 1.5e-6))


def test_an_embedding_moves_the_rows_that_are_asked_for() -> None:
    class Embedding(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(1_000_000, 256)

        def forward(self, rows):
            return self.table(rows.long())

    graph = read_exported(exported(Embedding, (64,)), H200).graph
    assert graph.durations_s.sum() < 4e-6


def of_function(function, *shapes, dtype=torch.float16):
    class Called(torch.nn.Module):
        def forward(self, *tensors):
            return function(*tensors)

    tensors = tuple(torch.empty(shape, dtype=dtype, device="meta") for shape in shapes)
    return read_exported(torch.export.export(Called(), tensors), H200).graph


def test_bags_of_embeddings_move_the_rows_that_are_asked_for() -> None:
    class Bags(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.EmbeddingBag(10_000_000, 128)

        def forward(self, rows):
            return self.table(rows.long())

    assert read_exported(exported(Bags, (64, 20)), H200).graph.durations_s.max() < 4e-6


@pytest.mark.filterwarnings("ignore::FutureWarning")  # PyTorch's own, of its parts
def test_dropout_that_drops_nothing_is_no_kernel() -> None:
    def module() -> torch.nn.Module:
        return torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Dropout(0.1)).eval()

    program = exported(module, (64, 64))
    for written_out in (program, program.run_decompositions({})):
        assert read_exported(written_out, H200).graph.names == ("aten::linear",)


@pytest.mark.filterwarnings("ignore:The tensor attributes:UserWarning")  # PyTorch's own, of an LSTM
def test_each_step_of_a_layer_that_recurs_waits_for_the_one_before() -> None:
    few, many = (
        plan(read_exported(exported(lambda: torch.nn.LSTM(64, 64), (steps, 2, 64)), H200)).before
        for steps in (4, 16)
    )
    assert sum(few.graph.name(i) == "aten::linear" for i in range(len(few.graph))) == 1 + 4
    assert many.makespan_s > 3 * few.makespan_s


def test_a_transposed_convolution_computes_what_its_counterpart_does() -> None:
    transposed = exported(lambda: torch.nn.ConvTranspose2d(64, 128, 4, 2, 1), (8, 64, 32, 32))
    counterpart = exported(lambda: torch.nn.Conv2d(128, 64, 4, 2, 1), (8, 128, 64, 64))
    took = [read_exported(each, H200).graph.durations_s.sum() for each in (transposed, counterpart)]
    assert took[0] == pytest.approx(took[1], rel=0.1)


@pytest.mark.parametrize(
    ("function", "dtype", "tensors"),
    [
        (torch.matmul, torch.float64, 2),
        (torch.baddbmm, torch.float16, 3),
        (torch._int_mm, torch.int8, 2),
        (lambda x, y: torch.tensordot(x, y, 1), torch.float16, 2),
    ],
)
def test_products_are_limited_by_their_operations(function, dtype, tensors: int) -> None:
    def shape(side: int) -> tuple[int, ...]:
        return (1, side, side) if function is torch.baddbmm else (side, side)

    few, many = (
        of_function(function, *[shape(side)] * tensors, dtype=dtype).durations_s.sum()
        for side in (4096, 8192)
    )
    assert many > 6 * few  # eight times as many operations, four times as many bytes


def test_control_flow_is_refused() -> None:
    def branch(x):
        return torch.cond(x.sum() > 0, lambda x: x @ x, lambda x: x + 1, (x,))

    with pytest.raises(CostModelError, match="cond calls functions of its own"):
        of_function(branch, (64, 64))


def test_einsum_is_a_batched_product() -> None:
    class Sums(torch.nn.Module):
        def forward(self, x, y):
            return torch.einsum("bij,bjk->bik", x, y)

    graph = read_exported(exported(Sums, (3, 64, 32), (3, 32, 16)), H200).graph
    assert graph.workload(0) == "batch_matmul-b3-m64-n16-k32-float16"


def test_convolutions_are_products_of_their_pixels() -> None:
    latencies = LibraryLatencies("H200")
    found = latencies.kernels(Workload.parse("conv2d_nhwc-n8-c256-h14-w14-o256-k3-s1-float16"))
    same = predict_seconds(Product(8 * 14 * 14, 256, 9 * 256), [Kernel("torch")], 64)[0]
    assert found.best(64).latency_s == pytest.approx(same)
    assert latencies.kernels(Workload.parse("softmax-m512-n512")) is None


@pytest.mark.parametrize("device", ["H100", "L40S", "A100-SXM4-80GB"])
def test_fewer_sms_take_longer_on_any_gpu(block, device: str) -> None:
    few, all_of_them = (plan(read_exported(block, device, sms)).before.makespan_s for sms in (16, None))
    assert few > all_of_them > 0


def test_gpus_of_other_vendors_are_refused(block) -> None:
    with pytest.raises(CostModelError, match="AMD Instinct MI300X is none"):
        read_exported(block, "MI300X")


def test_what_ifs_apply(block) -> None:
    found = plan(read_exported(block, H200), "sms=32", latencies=LibraryLatencies(H200))
    assert found.after.makespan_s > found.before.makespan_s


PROGRAM = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64))
program = torch.export.export(model, (torch.randn(8, 64),))
rows = torch.export.Dim("rows", min=2, max=64)
symbolic = torch.export.export(model, (torch.randn(8, 64),), dynamic_shapes=({0: rows},))
"""


def test_the_command_plans_a_program_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(PROGRAM)

    def run(*words: str) -> str:
        result = CliRunner().invoke(app, ["plan", *words], env={"COLUMNS": "200"})
        return f"{result.exit_code} {result.output}"

    shown = run(f"{path}:program", "--device", "H100", "--sms", "32", "--operators")
    assert shown.startswith("0 ")
    assert "on 32 SMs of NVIDIA H100 80GB HBM3" in shown
    assert "model.py:program: 3 tasks" in shown
    assert "aten::gelu" in shown
    assert plan(f"{path}:program", sms=32).before.graph.sms.tolist() == [32] * 3
    assert "write program = torch.export.export(model, (x,))" in run(f"{path}:model")
    assert "export it without dynamic shapes" in run(f"{path}:symbolic")
    assert "goes without --learn-from" in run(f"{path}:program", "--rank")


def test_only_programs_are_read() -> None:
    with pytest.raises(CostModelError, match="all of its operators are views"):
        read_exported(exported(torch.nn.Identity, (2, 2)))
