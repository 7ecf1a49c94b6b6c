"""Networks in small, as their frontends write them: each goes through the plug-in, and no task ends it."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("tvm")

import tvm
from small_networks import export_small
from tuned_programs import Pretended, Pretending, a_cpu, context_of, cuda, matmul, on_h100, own_logs
from tvm import relax
from tvm.s_tir import meta_schedule as ms

from costmodel.errors import CostModelError
from costmodel.integrations.tvm import CostModel, Database, SearchStrategy, TaskScheduler
from costmodel.integrations.tvm._program import announce
from costmodel.kernels.metaschedule._tvm_start import register_tensor_intrinsics
from costmodel.records._platform import Platform

pytestmark = [pytest.mark.tvm, pytest.mark.white_box]

CPU = tvm.target.Target({"kind": "llvm", "num-cores": 1})
TRIALS = 2  # a task


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    register_tensor_intrinsics()  # as each tuning would, but quickly
    announce.cache_clear()
    small = partial(ms.search_strategy.EvolutionarySearch, population_size=16, genetic_num_iters=1)
    monkeypatch.setattr(ms.search_strategy, "EvolutionarySearch", small)
    with own_logs():
        yield


def tune(
    folder: Path, network: Any, target: Any, platform: Platform, **settings: Any
) -> tuple[set[str], set[str]]:
    """Names of all tasks of a network, and of those that have a kernel now; nothing is built or run."""
    module = relax.get_pipeline("zero")(network)
    database = Database(folder / "tuned.jsonl", platform)
    tasks = ms.relax_integration.extract_tasks(module, target, {})
    ms.relax_integration.tune_relax(
        module,
        {},
        target,
        str(folder),
        max_trials_global=TRIALS * len(tasks),
        max_trials_per_task=TRIALS,
        num_trials_per_iter=TRIALS,
        builder=Pretending(folder / "kernels"),
        runner=Pretended(fails=False),
        database=database,
        cost_model=CostModel(platform=platform),
        strategy=SearchStrategy(platform=platform, screened=100),
        seed=1,
        **settings,
    )
    own = {task.task_name: task.dispatched[0] for task in tasks}
    return set(own), {name for name, program in own.items() if database.best_for(program)}


def attention(network: Any, x: Any, heads: int) -> Any:
    """Attention of tokens to one another, by the layer ``network.qkv``."""
    from torch.nn.functional import scaled_dot_product_attention

    batch, tokens, size = x.shape
    parts = network.qkv(x).reshape(batch, tokens, 3, heads, size // heads).permute(2, 0, 3, 1, 4)
    return scaled_dot_product_attention(*parts).transpose(1, 2).reshape(batch, tokens, size)


def networks_of_pytorch() -> dict[str, Any]:
    """Class and input of each network; defined here, as torch is not always there."""
    import torch
    from torch import nn
    from torch.nn import functional

    class ResidualBlock(nn.Module):
        """Of ResNet-18."""

        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Conv2d(4, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, 1, 1)
            self.norms, self.skip = nn.ModuleList([nn.BatchNorm2d(8)] * 2), nn.Conv2d(4, 8, 1, 2)
            self.classify = nn.Linear(8, 10)

        def forward(self, x: Any) -> Any:
            inner = self.norms[1](self.second(functional.relu(self.norms[0](self.first(x)))))
            return self.classify(
                functional.adaptive_avg_pool2d(functional.relu(inner + self.skip(x)), 1).flatten(1)
            )

    class ConvNeXtBlock(nn.Module):
        """A wide depthwise convolution, a norm over channels, and a perceptron with channels last."""

        def __init__(self) -> None:
            super().__init__()
            self.wide, self.norm = nn.Conv2d(8, 8, 7, padding=3, groups=8), nn.LayerNorm(8, eps=1e-6)
            self.expand, self.project = nn.Linear(8, 32), nn.Linear(32, 8)

        def forward(self, x: Any) -> Any:
            y = self.norm(self.wide(x).permute(0, 2, 3, 1))
            return x + self.project(functional.gelu(self.expand(y))).permute(0, 3, 1, 2)

    class VisionTransformer(nn.Module):
        """Patches, a class token, one block and a head."""

        def __init__(self) -> None:
            super().__init__()
            self.patches, self.token = nn.Conv2d(3, 16, 4, 4), nn.Parameter(torch.zeros(1, 1, 16))
            self.norms, self.qkv = nn.ModuleList([nn.LayerNorm(16) for _ in range(3)]), nn.Linear(16, 48)
            self.perceptron = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
            self.head = nn.Linear(16, 10)

        def forward(self, image: Any) -> Any:
            x = torch.cat([self.token, self.patches(image).flatten(2).transpose(1, 2)], 1)
            x = x + attention(self, self.norms[0](x), 2)
            return self.head(self.norms[2](x + self.perceptron(self.norms[1](x)))[:, 0])

    class Gpt2(nn.Module):
        """Embeddings by integers, one block, and the embeddings again as the head."""

        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(50, 16), nn.Embedding(8, 16)
            self.norm, self.qkv = nn.LayerNorm(16), nn.Linear(16, 48)
            self.perceptron = nn.Sequential(nn.Linear(16, 64), nn.GELU("tanh"), nn.Linear(64, 16))

        def forward(self, words: Any) -> Any:
            x = self.words(words) + self.places(torch.arange(words.shape[1]))
            x = x + attention(self, self.norm(x), 2)
            return (x + self.perceptron(x)) @ self.words.weight.T

    class LlamaBlock(nn.Module):
        """Root mean square norms and a gated perceptron without biases."""

        def __init__(self) -> None:
            super().__init__()
            self.norm, self.qkv = nn.RMSNorm(16, eps=1e-6), nn.Linear(16, 48, bias=False)
            self.gate, self.up, self.down = (
                nn.Linear(*s, bias=False) for s in [(16, 40), (16, 40), (40, 16)]
            )

        def forward(self, x: Any) -> Any:
            x = x + attention(self, self.norm(x), 2)
            return x + self.down(functional.silu(self.gate(x)) * self.up(x))

    class UNet(nn.Module):
        """Down, up again by a transposed convolution, and both side by side."""

        def __init__(self) -> None:
            super().__init__()
            self.down, self.up = nn.Conv2d(3, 4, 3, padding=1), nn.ConvTranspose2d(4, 4, 2, 2)
            self.out = nn.Conv2d(8, 2, 1)

        def forward(self, image: Any) -> Any:
            x = functional.relu(self.down(image))
            return self.out(torch.cat([x, self.up(functional.max_pool2d(x, 2))], 1))

    class Mixer(nn.Module):
        """Perceptrons over patches and over channels."""

        def __init__(self) -> None:
            super().__init__()
            self.norm, self.tokens, self.channels = nn.LayerNorm(8), nn.Linear(16, 16), nn.Linear(8, 8)

        def forward(self, x: Any) -> Any:
            x = x + functional.gelu(self.tokens(self.norm(x).transpose(1, 2))).transpose(1, 2)
            return x + functional.gelu(self.channels(self.norm(x)))

    image, tokens = torch.zeros(1, 3, 8, 8), torch.zeros(1, 6, 16)
    return {
        "ResNet": (ResidualBlock, torch.zeros(1, 4, 8, 8)),
        "ConvNeXt": (ConvNeXtBlock, torch.zeros(1, 8, 6, 6)),
        "ViT": (VisionTransformer, image),
        "GPT-2": (Gpt2, torch.zeros(1, 6, dtype=torch.int64)),
        "LLaMA": (LlamaBlock, tokens),
        "U-Net": (UNet, image),
        "Mixer": (Mixer, torch.zeros(1, 16, 8)),
    }


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning")
@pytest.mark.parametrize("name", ["ResNet", "ConvNeXt", "ViT", "GPT-2", "LLaMA", "U-Net", "Mixer"])
def test_a_network_of_pytorch_is_tuned_on_a_cpu(name: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from tvm.relax.frontend.torch import from_exported_program

    network, example = networks_of_pytorch()[name]
    exported = torch.export.export(network().eval(), (example,))
    tasks, tuned = tune(tmp_path, from_exported_program(exported), CPU, a_cpu())
    assert len(tasks) > 2
    assert tuned == tasks


@pytest.mark.parametrize(
    "name", ["bottlenecks", "inverted_residuals", "inception", "bert", "prefill", "dlrm"]
)
def test_a_network_of_relax_is_tuned_on_a_cpu(name: str, tmp_path: Path) -> None:
    tasks, tuned = tune(tmp_path, export_small(name, "float32"), CPU, a_cpu())
    assert len(tasks) > 2
    assert tuned == tasks


def test_a_network_of_onnx_is_tuned_on_a_cpu(tmp_path: Path, capfd: Any) -> None:
    """A convolution, and linear layers as exporters write them: by ``Gemm``, and by two nodes."""
    pytest.importorskip("onnx")
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper
    from tvm.relax.frontend.onnx import from_onnx

    nodes = [
        helper.make_node("Conv", ["image", "kernel", "offset"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Flatten", ["r"], ["f"]),
        helper.make_node("Gemm", ["f", "weight", "bias"], ["g"], transB=1),
        helper.make_node("Relu", ["g"], ["h"]),
        helper.make_node("MatMul", ["h", "last"], ["m"]),
        helper.make_node("Add", ["end", "m"], ["scores"]),
    ]
    shapes = {"kernel": (4, 3, 3, 3), "offset": (4,), "weight": (24, 144), "bias": (24,), "last": (24, 5)}
    rng = np.random.default_rng(0)
    arrays = {name: rng.standard_normal(shape).astype("float32") for name, shape in shapes.items()}
    arrays["end"] = np.ones(5, "float32")
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, (2, 3, 6, 6))],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, (2, 5))],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    tasks, tuned = tune(tmp_path, from_onnx(model, keep_params_in_input=True), CPU, a_cpu())
    assert tuned == tasks
    told = capfd.readouterr().err
    for operator in ("conv2d_bias_relu", "matmul_bias_relu-m2-n24-k144", "matmul_bias-m2-n5-k24"):
        assert f" is {operator}" in told


def test_a_network_is_tuned_for_a_gpu_that_is_not_there(tmp_path: Path, capfd: Any) -> None:
    tasks, tuned = tune(tmp_path, export_small("bert", "float32"), cuda(), on_h100())
    assert tuned == tasks
    assert "is matmul_bias_gelu-" in capfd.readouterr().err


def test_a_task_that_tvms_rules_fail_on_costs_itself_only(tmp_path: Path, capfd: Any) -> None:
    from tvm.relax.frontend import nn

    class Block(nn.Module):
        def __init__(self) -> None:
            self.project = nn.Linear(16, 16)

        def forward(self, x: nn.Tensor) -> nn.Tensor:
            heads = nn.op.reshape(self.project(x), (1, 4, 2, 8))
            return nn.op.scaled_dot_product_attention(heads, heads, heads)

    network, _ = Block().export_tvm({"forward": {"x": nn.spec.Tensor((4, 16), "float32")}})
    with pytest.raises(IndexError):
        tune(tmp_path / "stock", network, cuda(), on_h100())
    tasks, tuned = tune(tmp_path / "ours", network, cuda(), on_h100(), task_scheduler=TaskScheduler())
    assert tasks - tuned == {"attention"}
    assert tuned
    assert "task attention stays as it is: TVM's rules fail on it (Index 6" in capfd.readouterr().err


def test_a_tuning_whose_every_task_fails_says_so(tmp_path: Path) -> None:
    from tvm.relax.frontend import nn

    class Attention(nn.Module):
        def forward(self, x: nn.Tensor) -> nn.Tensor:
            return nn.op.scaled_dot_product_attention(x, x, x)

    network, _ = Attention().export_tvm({"forward": {"x": nn.spec.Tensor((1, 4, 2, 8), "float32")}})
    with pytest.raises(IndexError):
        tune(tmp_path, network, cuda(), on_h100(), task_scheduler=TaskScheduler())


def test_a_target_that_the_runner_cannot_measure_is_refused_at_once() -> None:
    task = context_of(matmul(), CPU)
    with pytest.raises(CostModelError, match=r"Tasks must be for cuda, as NVIDIA H100 .* is for llvm"):
        TaskScheduler().tune([task], [1.0], runner=SimpleNamespace(platform=on_h100()))
