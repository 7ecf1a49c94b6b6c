"""Kernel graphs of PyTorch modules that never ran: programs of ``torch.export``, whose operators have shapes.

Each operator becomes a kernel, as PyTorch runs it without a compiler. Views become none.
"""

import warnings
from collections.abc import Iterator, Mapping
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from costmodel.errors import CostModelError
from costmodel.failures import last_line
from costmodel.kernels.metaschedule.programs._source import is_python_place, open_python
from costmodel.planner._latencies import KernelTable, Latencies, RooflineLatencies
from costmodel.planner.graphs._json_graph import JsonTask, graph_of
from costmodel.planner.graphs._kernel_class import KernelKind, class_of_call
from costmodel.planner.graphs._recorded_graph import Inspection, RecordedGraph
from costmodel.planner.graphs._trace_events import Args
from costmodel.planner.graphs._trace_kernels import find_workload
from costmodel.products._model import ProductModel, meant_gpu, shipped_products
from costmodel.products._product import Kernel, Product
from costmodel.products._workload import find_product
from costmodel.records._device_table import find_device
from costmodel.records._hypothetical import hypothetical
from costmodel.records._peak_rates import peak_rates
from costmodel.records._platform import Device
from costmodel.records._workload import Workload
from costmodel.transfer.prediction._calls import is_call, predict_call

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node

DEFAULT_DEVICE = "NVIDIA H200"  # where most products were measured
# Types of tensors, as traces call them.
_TYPES = {"torch.float32": "float", "torch.float16": "c10::Half", "torch.bfloat16": "c10::BFloat16"}
# What gives another view of a tensor, but does not say so.
_VIEWS = ("_unsafe_view", "getitem")
# What reads, of its first tensor, as much as it returns.
_GATHERS = ("embedding", "index", "index_select", "gather")
# What FlashAttention 2 reaches of an H100's Tensor Cores (Shah et al., FlashAttention-3, 2024, section 1).
_REACHED = 0.35
# Products, and which of their tensors is the first matrix; sizes or types of some are no workload of ours.
_FIRST_MATRIX = {"mm": 0, "bmm": 0, "linear": 0, "_int_mm": 0, "_scaled_mm": 0, "addmm": 1, "baddbmm": 1}
# Products written in these are products and views, and layers that recur have some for each step.
_WRITTEN_APART = (
    *("einsum", "matmul", "tensordot", "chain_matmul", "linalg_multi_dot"),
    *("lstm", "gru", "rnn_tanh", "rnn_relu", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"),
)
_STEP = 8
_HALF_BYTES = 2


class _Call(NamedTuple):
    """A kernel.

    Attributes:
        name: The operator.
        scope: The module that calls it.
        workload: What it computes; None if it is no operator of ours.
        after: Positions of the calls whose results it needs.
        moved_bytes: Bytes of the tensors that it reads and writes.
        flops: Operations, of what has no workload but is limited by them; else 0.
        is_half: Whether Tensor Cores compute these, as no number is longer than that.
    """

    name: str
    scope: str
    workload: Workload | None
    after: tuple[int, ...]
    moved_bytes: int
    flops: float
    is_half: bool

    @property
    def kernel(self) -> str:
        """A name that tells what can be fused, as those of PyTorch's own kernels do."""
        kind = class_of_call("", self.name, ()).kind
        return f"elementwise {self.name}" if kind == KernelKind.STREAMING else self.name


class LibraryLatencies(Latencies):
    """What PyTorch's own calls of matrix products and convolutions are expected to take on a GPU.

    On an H100 and an H200 it is told by the model of products (``costmodel.products``), on other NVIDIA GPUs
    by that of library calls, whose parts are taken for GPUs with fewer SMs.

    Args:
        device: The GPU, or its name.

    Raises:
        CostModelError: It is unknown, or none of NVIDIA's.
    """

    def __init__(self, device: Device | str = DEFAULT_DEVICE) -> None:
        self.device = device if isinstance(device, Device) else find_device(meant_gpu(device))
        if self.device.kind != "cuda":
            raise CostModelError(
                f"PyTorch's calls are predicted on GPUs of NVIDIA, but {self.device.name} is none. "
                "`costmodel devices list` shows those that are known."
            )
        self._tables: dict[str, KernelTable | None] = {}

    @cached_property
    def _products(self) -> ProductModel | None:
        model = shipped_products()
        return model if self.device.name in model.devices.tolist() else None

    def of(self, device: Device | None) -> Latencies | None:
        """See ``Latencies``; any device of the table is known."""
        return self if device is None or device.name == self.device.name else LibraryLatencies(device)

    def kernels(self, workload: Workload) -> KernelTable | None:
        """See ``Latencies``; None of what is no product."""
        if workload.name not in self._tables:
            product = _product_of(workload)
            self._tables[workload.name] = None if product is None else self._table(product)
        return self._tables[workload.name]

    def _table(self, product: Product) -> KernelTable | None:
        sms = (*range(_STEP, self.device.sms, _STEP), self.device.sms)
        if self._products:
            own = [self._products.predict(product, [Kernel("torch")], n, self.device.name) for n in sms]
            ends = [[float(each[i][0]) for each in own] for i in range(3)]
        else:
            found = [self._called(product, n) for n in sms]
            ends = [[each[i] for each in found if each] for i in range(3)]
        if len(ends[0]) < len(sms):
            return None
        seconds, low, high = (np.array([each]) for each in ends)
        return KernelTable(("PyTorch's call",), sms, seconds, "predicted", low, high)

    def _called(self, product: Product, sms: int) -> tuple[float, float, float] | None:
        """Seconds of a call on so many SMs, and the ends of its interval; None where models know neither."""
        dtype = "float16" if product.dtype == "float16" else "float32"
        sizes = {"m": product.batch * product.m, "n": product.n, "k": product.k}
        workload = Workload("matmul", sizes, dtype)
        device = hypothetical(self.device, sms=sms) if sms < self.device.sms else self.device
        if not is_call(workload):
            return None
        try:
            best = predict_call(workload, device)[0]
        except CostModelError:  # of a GPU of which too little is known
            return None
        return best.latency_s, best.low_s or best.latency_s, best.high_s or best.latency_s


def _product_of(workload: Workload) -> Product | None:
    """The product that an operator is, with weights as linear layers store them; None of others."""
    if product := find_product(workload):
        return product._replace(layout="nt") if product.batch == 1 else product
    if workload.is_foreign or workload.operator.anchor not in ("conv2d", "conv2d_nhwc"):
        return None
    dims = workload.dims
    pixels = -(-dims["h"] // dims["s"]) * -(-dims["w"] // dims["s"])
    depth = dims["c"] * dims["k"] * dims["k"]
    # cuDNN may round float32 to TensorFloat-32, as PyTorch is shipped.
    dtype = "float16" if workload.dtype == "float16" else "tfloat32"
    return Product(dims["n"] * pixels, dims["o"], depth, dtype=dtype)


def find_exported(place: str) -> "ExportedProgram | None":
    """What a place stands for if it is ``program.py:name``, of a program of ``torch.export``; else None.

    Raises:
        CostModelError: There is no such file or name, it fails, or it is a module that was not exported.
    """
    if not is_python_place(place):
        return None
    found, _ = open_python(place)
    kinds = {f"{kind.__module__}.{kind.__qualname__}" for kind in type(found).__mro__}
    if "torch.nn.modules.module.Module" in kinds:
        raise CostModelError(
            f"A PyTorch module must be exported, which tells the shapes of its inputs, but {place} is not: "
            "write program = torch.export.export(model, (x,)) into the file, and name that."
        )
    exported = any(kind.endswith("ExportedProgram") and kind.startswith("torch.") for kind in kinds)
    return found if exported else None


def read_exported(
    program: "ExportedProgram", device: Device | str | None = None, sms: int | None = None
) -> RecordedGraph:
    """Read a kernel graph from a program of ``torch.export``, with expected times. No GPU is needed.

    Matrix products and convolutions take what ``LibraryLatencies`` expects of PyTorch's calls, all others a
    start and what a roofline says. The host's work is left out, as in a CUDA graph.

    Args:
        program: ``torch.export.export(model, inputs)``, also of tensors without data.
        device: The GPU, or its name. Default: an H200.
        sms: Number of SMs of the kernels. Default: the whole device.

    Raises:
        CostModelError: Sizes are symbolic, data decide what runs, nothing runs, or the device has fewer SMs.
    """
    known = LibraryLatencies(device or DEFAULT_DEVICE)
    on = known.on_device(sms)
    calls = list(_calls(program))
    if not calls:
        raise CostModelError("A program must run a kernel, but all of its operators are views.")
    took = [_took(call, known, on) for call in calls]
    tasks = [
        JsonTask(
            id=str(i),
            duration_s=seconds,
            name=call.kernel,
            after=[str(each) for each in call.after],
            sms=on,
            scope=call.scope,
            workload=call.workload.name if call.workload else "",
        )
        for i, (call, (_, seconds)) in enumerate(zip(calls, took, strict=True))
    ]
    predicted = [seconds for origin, seconds in took if origin == "predicted"]
    others = [seconds for origin, seconds in took if origin != "predicted"]
    said = (
        f"{len(predicted)} products and convolutions take what a model expects of PyTorch's calls on {on} "
        f"SMs of {known.device.name}: {1e6 * sum(predicted):,.1f} us.",
        f"{len(others)} other kernels take a start and what a roofline says: {1e6 * sum(others):,.1f} us.",
        "Each operator is a kernel of its own, as without a compiler; the host's work is left out.",
    )
    graph = graph_of(tasks, "the program")
    operators = {call.kernel: call.name for call in calls}
    launched = tuple(operators[name] for name in graph.names)
    graph = graph.assuming(*said, device=known.device, operators=launched)
    return RecordedGraph.unrecorded(graph, Inspection(len(calls), len(calls)))


def _took(call: _Call, known: LibraryLatencies, sms: int) -> tuple[str, float]:
    """Where the seconds of a call come from, and how many it takes."""
    table = known.kernels(call.workload) if call.workload else None
    if table and (best := table.best(sms)):
        return table.origin, best.latency_s
    roof = RooflineLatencies(known.device)
    moving_s = roof.moving_s(sms, call.moved_bytes)
    if call.workload:
        return "estimated", max(moving_s, roof.seconds(sms, call.workload))
    rates = peak_rates(known.device, sms)
    peak = 1e12 * ((rates.tensor_tflops if call.is_half else 0.0) or rates.fp32_tflops)
    computing_s = call.flops / (_REACHED * peak) if peak else 0.0
    return "estimated", max(moving_s, roof.moving_s(sms, 0) + computing_s)


def _calls(program: "ExportedProgram") -> Iterator[_Call]:
    """The kernels of a program, in its order."""
    from torch.export import default_decompositions

    try:
        table = default_decompositions()
        apart = {each: table[each] for each in table if _short_name(each) in _WRITTEN_APART}
        with warnings.catch_warnings():  # PyTorch's own, of its parts
            warnings.simplefilter("ignore", FutureWarning)
            nodes = program.run_decompositions(apart).graph.nodes
    except Exception as error:
        raise CostModelError(
            f"A program must be one that torch.export can write out, but: {last_line(error)}"
        ) from error
    makers: dict[Any, frozenset[int]] = {}  # of each node, the calls that it waits for
    count = 0
    for node in nodes:
        _check_called(node)
        waits = frozenset().union(*(makers.get(each, frozenset()) for each in node.all_input_nodes))
        makers[node] = waits
        outputs = _tensors(node.meta.get("val"))
        if node.op != "call_function" or not outputs or _is_view(node):
            continue
        yield _call(node, outputs, tuple(sorted(waits)))
        makers[node] = frozenset((count,))
        count += 1


def _check_called(node: "Node") -> None:
    """Refuse operators that call functions, such as ``cond``, of which nobody knows how often they run."""
    from torch._ops import HigherOrderOperator

    if isinstance(node.target, HigherOrderOperator):
        raise CostModelError(
            f"A program must call operators alone, but {node.name} calls functions of its own: export the "
            "model without control flow and without operators such as flex_attention, or in parts."
        )


def _short_name(target: Any) -> str:
    """Of an operator, without its namespace and overload; empty of what is none."""
    schema = getattr(target, "_schema", None)
    return schema.name.partition("::")[2] if schema else ""


def _call(node: "Node", outputs: list[Any], after: tuple[int, ...]) -> _Call:
    name = node.target._schema.name
    given = _arguments(node)
    inputs = [tensor for value in given.values() for tensor in _tensors(value)]
    sizes = [size for tensor in (*inputs, *outputs) for size in tensor.shape]
    if not all(isinstance(size, int) for size in sizes):
        raise CostModelError(
            f"The sizes of a program must be numbers, but those of {node.name} are symbols: export it "
            "without dynamic shapes."
        )
    short = _short_name(node.target)
    read = sum(map(_bytes, inputs))
    if short in _GATHERS:
        read += sum(map(_bytes, outputs)) - _bytes(inputs[0])
    if short == "embedding_bag":  # a row for each index
        read += inputs[1].numel() * inputs[0].shape[-1] * inputs[0].element_size() - _bytes(inputs[0])
    found = find_workload(name, _as_recorded(given))
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return _Call(
        name,
        str(stack[-1][0]) if stack else "",
        Workload.parse(found) if found else None,
        after,
        read + sum(map(_bytes, outputs)),
        _flops(short, inputs, outputs),
        outputs[0].element_size() <= _HALF_BYTES or _is_narrow_product(short, inputs),
    )


def _is_view(node: "Node") -> bool:
    """Whether an operator gives another view of a tensor, so that no kernel runs."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:  # Python's own, such as taking an item
        return True
    if _short_name(node.target) in _VIEWS or _is_idle_dropout(node):
        return True
    return any(each.alias_info and not each.alias_info.is_write for each in schema.returns)


def _is_idle_dropout(node: "Node") -> bool:
    """Whether it is a dropout that drops nothing: written out it is a copy, but PyTorch runs no kernel."""
    sources = node.meta.get("from_node") or []
    while sources and str(sources[-1].target) != "aten.dropout.default":
        sources = sources[-1].from_node
    return bool(sources) and _short_name(node.target) == "clone"


def _arguments(node: "Node") -> Mapping[str, Any]:
    """Arguments of an operator by name, tensors without data in the place of nodes."""
    arguments = node.target._schema.arguments
    given = {each.name: each.default_value for each in arguments}
    given |= dict(zip(given, node.args, strict=False)) | dict(node.kwargs)
    return {name: _known(value) for name, value in given.items()}


def _known(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_known(each) for each in value]
    return value.meta.get("val") if hasattr(value, "meta") else value


def _tensors(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return [tensor for each in value for tensor in _tensors(each)]
    return [value] if hasattr(value, "element_size") else []


def _bytes(tensor: Any) -> int:
    """Bytes of a tensor; what is broadcast counts once."""
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    return int(prod(size if stride else 1 for size, stride in sizes) * tensor.element_size())


def _as_recorded(given: Mapping[str, Any]) -> Args:
    """Arguments as a trace with shapes has them."""
    values = list(given.values())
    tensors = [hasattr(value, "element_size") for value in values]
    return Args(
        input_dims=[list(v.shape) if is_one else [] for v, is_one in zip(values, tensors, strict=True)],
        input_type=[
            _TYPES.get(str(v.dtype), "") if is_one else "" for v, is_one in zip(values, tensors, strict=True)
        ],
        concrete_inputs=["" if is_one else str(v) for v, is_one in zip(values, tensors, strict=True)],
    )


def _is_narrow_product(name: str, inputs: list[Any]) -> bool:
    """Whether it multiplies numbers that are shorter than their sums."""
    return name in _FIRST_MATRIX and inputs[_FIRST_MATRIX[name]].element_size() <= _HALF_BYTES


def _flops(name: str, inputs: list[Any], outputs: list[Any]) -> float:
    """Operations of attention, convolutions and products; 0 of all else."""
    if name == "scaled_dot_product_attention":
        query, key, value = inputs[:3]
        return float(2 * prod(query.shape[:-1]) * key.shape[-2] * (query.shape[-1] + value.shape[-1]))
    if name.startswith("conv"):
        # Transposed, each number of the input is multiplied by all weights of its channel.
        spread = inputs[0] if "transpose" in name else outputs[0]
        return float(2 * spread.numel() * prod(inputs[1].shape[1:]))
    if name in _FIRST_MATRIX:
        return float(2 * outputs[0].numel() * inputs[_FIRST_MATRIX[name]].shape[-1])
    return 0.0
