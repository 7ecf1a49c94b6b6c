"""A GPU in parts: operands of a product, what can be put on a stream, and how long it takes there."""

import statistics
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from candidates import Variant, tiles_of
from compiling import OPERANDS, RESULTS, blocks_of, constants_of
from cublaslt import Descriptors

from costmodel.collector.device._green_context import GreenContexts
from costmodel.kernels.library._cublaslt import WORKSPACE_BYTES, CuBlasLt
from costmodel.products._product import Kernel, Product

Launch = Callable[[int], Any]
_PARTIAL_SUMS = 80 << 20  # of float32
_ARRIVALS = 1 << 20
_FLUSHED_BYTES = 128 << 20  # over twice the L2 of an H100
_GRAPH_S, _MOST_RUNS = 150e-6, 24
_LONG_S = 5e-3
_LAUNCH_S = 2e-4  # what a launch on an idle device may add to a run
# Relative errors that rounding makes, in the norm; an int8 product is exact.
_TOLERANCE = {
    "float16": 2e-3, "bfloat16": 1e-2, "tfloat32": 2e-3, "float32": 1e-4, "float8_e4m3": 2e-2, "int8": 1e-6,
}  # fmt: skip


class Operands:
    """Matrices of a shape by chance, and what the product should be."""

    def __init__(self, shape: Product) -> None:
        self.shape = shape
        a_t, b_t = (each == "t" for each in shape.layout)
        self.a = _random(shape, (shape.k, shape.m) if a_t else (shape.m, shape.k))
        self.b = _random(shape, (shape.n, shape.k) if b_t else (shape.k, shape.n))
        self.left = self.a.transpose(-1, -2) if a_t else self.a
        self.right = self.b.transpose(-1, -2) if b_t else self.b
        sizes = (shape.m, shape.n) if shape.batch == 1 else (shape.batch, shape.m, shape.n)
        self.c = torch.empty(sizes, dtype=RESULTS[shape.dtype], device="cuda")
        self.bias = torch.randn(shape.n, device="cuda").to(self.c.dtype)
        self._expected: torch.Tensor | None = None

    def poison(self) -> None:
        """Make results that nobody writes wrong."""
        self.c.fill_(-7 if self.shape.dtype == "int8" else float("nan"))

    def expected(self) -> torch.Tensor:
        """In float64 where that is quick, else in float32 without TF32."""
        if self._expected is None:
            dtype = torch.float64 if self.shape.flops < 3e10 else torch.float32
            kept, torch.backends.cuda.matmul.allow_tf32 = torch.backends.cuda.matmul.allow_tf32, False
            found = self.left.to(dtype) @ self.right.to(dtype)
            torch.backends.cuda.matmul.allow_tf32 = kept
            if self.shape.epilogue:
                found = found + self.bias.to(dtype)
            if self.shape.epilogue == "bias_gelu":
                found = torch.nn.functional.gelu(found, approximate="tanh")
            self._expected = found.float()
        return self._expected

    def is_right(self, found: torch.Tensor) -> bool:
        """Whether rounding explains how results differ."""
        expected = self.expected()
        error = float((found.float() - expected).norm() / expected.norm())
        return error <= _TOLERANCE[self.shape.dtype]  # not a number is not


def _random(shape: Product, sizes: tuple[int, int]) -> torch.Tensor:
    whole = sizes if shape.batch == 1 else (shape.batch, *sizes)
    if shape.dtype == "int8":
        return torch.randint(-127, 128, whole, dtype=torch.int8, device="cuda")
    return torch.randn(whole, device="cuda", dtype=torch.float32).to(OPERANDS[shape.dtype])


class Gpu:
    """The first visible device and streams on its parts.

    Args:
        budgets: SMs of the parts; what has more than the device is all of it.
    """

    def __init__(self, budgets: tuple[int, ...]) -> None:
        torch.cuda.init()
        self.name = torch.cuda.get_device_name()
        torch.zeros(1, device="cuda")
        contexts = GreenContexts()
        self._contexts, self._driver, self._call = contexts, contexts.driver, contexts.call
        self.streams: dict[int, int] = {}
        for budget in budgets:
            (stream,), granted = contexts.streams(min(budget, contexts.total_sms))
            self.streams[granted] = stream
        self.whole = contexts.total_sms
        self._workspace = torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device="cuda")
        self._partials = torch.zeros(_PARTIAL_SUMS, dtype=torch.float32, device="cuda")
        self._arrivals = torch.zeros(_ARRIVALS, dtype=torch.int32, device="cuda")
        self._flushed = torch.empty(_FLUSHED_BYTES, dtype=torch.uint8, device="cuda")
        self._events = [self._call(self._driver.cuEventCreate(0)) for _ in range(12)]
        self._one = torch.ones((), device="cuda")
        self._library = CuBlasLt(f"libcublasLt.so.{str(torch.version.cuda).partition('.')[0]}")

    def facts(self) -> dict[str, str]:
        """What measurements were made on and with."""
        import triton

        driver = self._call(self._driver.cuDriverGetVersion())
        return {
            "device": self.name, "sms": str(self.whole),
            "torch": torch.__version__, "triton": triton.__version__, "cuda": str(torch.version.cuda),
            "driver": str(driver), "l2_bytes": _l2_bytes(),
        }  # fmt: skip

    def product(self, operands: Operands) -> Descriptors:
        """cuBLASLt's descriptors of a product."""
        pointers = (each.data_ptr() for each in (operands.a, operands.b, operands.bias, operands.c))
        return Descriptors(self._library, operands.shape, tuple(pointers), self._workspace.data_ptr())

    def call(self, operands: Operands) -> Callable[[int], torch.Tensor]:
        """PyTorch's call; its current stream must be the one."""
        shape, a, b, bias, c = operands.shape, operands.left, operands.right, operands.bias, operands.c
        torch.backends.cuda.matmul.allow_tf32 = shape.dtype == "tfloat32"
        if shape.dtype == "float8_e4m3":
            scaled = {
                "scale_a": self._one,
                "scale_b": self._one,
                "out_dtype": c.dtype,
                "use_fast_accum": True,
            }
            return lambda _: torch._scaled_mm(a, b, **scaled)
        if shape.dtype == "int8":
            return lambda _: torch._int_mm(a, b)
        if shape.batch > 1:
            return lambda _: torch.bmm(a, b, out=c)
        if shape.epilogue == "bias":
            return lambda _: torch.addmm(bias, a, b, out=c)
        if shape.epilogue == "bias_gelu":
            return lambda _: torch.nn.functional.gelu(torch.addmm(bias, a, b), approximate="tanh")
        return lambda _: torch.mm(a, b, out=c)

    def kernel(self, operands: Operands, kernel: Kernel, variant: Variant, compiled: Any, sms: int) -> Launch:
        """A kernel of Triton with its arguments."""
        shape = operands.shape
        programs = kernel.programs_per_sm * sms or tiles_of(shape, kernel) * kernel.splits
        if kernel.kind == "tma":
            from triton.tools.tensor_descriptor import TensorDescriptor

            blocks = blocks_of(variant)
            pair = (
                TensorDescriptor.from_tensor(x, y)
                for x, y in zip((operands.a, operands.b), blocks, strict=True)
            )
            arguments = *pair, operands.bias, operands.c, shape.m, shape.k, shape.n, kernel.group_m, programs
        else:
            partials = self._partials.view(torch.int32) if shape.dtype == "int8" else self._partials
            scratch = () if kernel.kind == "persistent" else (partials, self._arrivals)
            last = kernel.splits if kernel.kind in ("plain", "split-k") else programs
            arguments = (
                operands.a, operands.b, operands.bias, operands.c, *scratch,
                shape.m, shape.k, *shape.strides, shape.batch, kernel.group_m, last,
            )  # fmt: skip
        run, whole = compiled[(programs, 1, 1)], (*arguments, *constants_of(variant).values())
        return lambda stream: run(*whole, stream=stream)

    def time(self, launch: Launch, stream: int, best_s: float, runs: int = 0) -> tuple[float, int]:
        """Seconds of a run on inputs that the last left in L2, and how many runs say so.

        The median of three replays of a graph of some 0.15 ms. A run that is clearly 2.5 times as long as the
        best of the task so far, or 5 ms, is enough of itself. A graph holds ``runs``, or as many as fill it
        by the first run, which takes at least as long as the host needs to launch it.
        """
        driver, call, events = self._driver, self._call, self._events
        launch(stream)
        call(driver.cuEventRecord(events[0], stream))
        launch(stream)
        call(driver.cuEventRecord(events[1], stream))
        call(driver.cuEventSynchronize(events[1]))
        first_s = self._between(0, 1)
        if first_s > _LONG_S or first_s > 2.5 * best_s + _LAUNCH_S:
            return first_s, 1
        runs = runs or self.runs_of(max(first_s - 6e-6, 4e-6))
        graph = self._capture(launch, stream, runs)
        replays = 3 if first_s < 1e-3 else 2
        try:
            if first_s < 1e-3:
                call(driver.cuGraphLaunch(graph, stream))  # the clock starts while it runs
            call(driver.cuEventRecord(events[0], stream))
            for i in range(replays):
                call(driver.cuGraphLaunch(graph, stream))
                call(driver.cuEventRecord(events[i + 1], stream))
            call(driver.cuEventSynchronize(events[replays]))
        finally:
            call(driver.cuGraphExecDestroy(graph))
        return statistics.median(self._between(i, i + 1) for i in range(replays)) / runs, runs * replays

    @staticmethod
    def runs_of(seconds: float) -> int:
        """How many runs of so many seconds fill a graph."""
        return max(1, min(_MOST_RUNS, int(_GRAPH_S / seconds)))

    def time_cold(self, launch: Launch, stream: int) -> tuple[float, int]:
        """Seconds of a run whose inputs are not in L2: the median of five, each after 128 MiB of others."""
        driver, call, events = self._driver, self._call, self._events
        launch(stream)
        for i in range(0, 10, 2):
            call(driver.cuMemsetD8Async(self._flushed.data_ptr(), i, _FLUSHED_BYTES, stream))
            call(driver.cuEventRecord(events[i], stream))
            launch(stream)
            call(driver.cuEventRecord(events[i + 1], stream))
        call(driver.cuEventSynchronize(events[9]))
        return statistics.median(self._between(i, i + 1) for i in range(0, 10, 2)), 5

    def _capture(self, launch: Launch, stream: int, runs: int) -> Any:
        driver, call = self._driver, self._call
        call(driver.cuStreamBeginCapture(stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
        try:
            for _ in range(runs):
                launch(stream)
        finally:  # or it would take in all that follows on the stream
            _, graph = driver.cuStreamEndCapture(stream)
        made = call(driver.cuGraphInstantiate(graph, 0))
        call(driver.cuGraphDestroy(graph))
        return made

    def _between(self, first: int, last: int) -> float:
        milliseconds = self._call(self._driver.cuEventElapsedTime(self._events[first], self._events[last]))
        return float(milliseconds) * 1e-3

    def operands(self, shape: Product) -> Operands:
        """Matrices that are there before any stream reads them."""
        made = Operands(shape)
        self.wait()
        return made

    def on(self, sms: int) -> AbstractContextManager[Any]:
        """Let PyTorch launch on these SMs."""
        return torch.cuda.stream(torch.cuda.ExternalStream(self.streams[sms]))

    def wait(self) -> None:
        """Wait for every stream."""
        torch.cuda.synchronize()

    def clear(self) -> None:
        """Wait for all, and take back what a kernel that failed has left."""
        torch.cuda.synchronize()
        self._arrivals.zero_()
        torch.cuda.synchronize()


def _l2_bytes() -> str:
    return str(torch.cuda.get_device_properties(0).L2_cache_size)
