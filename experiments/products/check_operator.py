"""Compare ``costmodel::mm`` on a GPU with float64: sizes, layouts, dtypes, SMs, gradients, refusals.

Of PyTorch's own tests it runs the samples of its ``OpInfo`` of ``mm``, the cases of ``test_mm``,
``test_strided_mm_bmm`` and ``test_mm_submatrix_offset`` (``test/test_linalg.py``), and those of
``test_cublas_addmm``, ``test_cublas_addmm_alignment`` and ``test_cublas_baddbmm_large_input``
(``test/test_matmul_cuda.py``).
"""

import argparse
import json
import os
import random
import subprocess
import sys
import time
import types
import unittest
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import torch

from costmodel.collector.device._green_context import GreenContexts
from costmodel.files import write_json
from costmodel.products import _operator
from costmodel.products._operator import mm
from costmodel.products._product import Product

# Half of the distance of two numbers: of results; and of operands, where they are rounded.
_ROUNDED = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8, torch.float32: 2.0**-24}
_TF32, _SUMS = 2.0**-11, 2.0**-24
_DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in _ROUNDED}
_BUDGETS = 8, 32, 64
_SIZES = 1, 2, 3, 5, 8, 16, 17, 24, 33, 64, 77, 100, 128, 200, 256, 333, 512, 768, 1000, 1024, 2048, 4096
_STORED = "rows", "rows", "rows", "columns", "columns", "columns", "gaps", "offset", "zero stride"
_PARTS = (
    "op_info", "gradients", "surroundings", *(f"cases_of_pytorch {dtype}" for dtype in _DTYPES),
    *(f"drawn {seed}" for seed in range(4)), "refused",
)  # fmt: skip
Pair = tuple[torch.Tensor, torch.Tensor]


def main() -> int:
    """Check all, print and save how much of what was wrong; the exit status says whether anything was."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="of products drawn by chance")
    parser.add_argument("--time-limit", type=float, default=600.0, help="seconds of a part")
    parser.add_argument("--part", choices=_PARTS, help="in this process; by default all, in one process each")
    parser.add_argument("--out", type=Path, help="file for the result")
    options = parser.parse_args()
    if options.part:
        print(json.dumps(check_part(options.part, options.seconds)))
        return 0
    found: dict[str, Any] = {"parts": {}, "wrong": []}
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        running = {
            pool.submit(_check_apart, part, options.seconds, options.time_limit): part for part in _PARTS
        }
        for done in as_completed(running):
            answer = done.result()
            found["wrong"] += answer.pop("wrong")
            found["parts"][running[done]] = answer
            if options.out:
                write_json(options.out, found)
    print(json.dumps(found, indent=1))
    return bool(found["wrong"])


def _check_apart(part: str, seconds: float, time_limit: float) -> dict[str, Any]:
    """Check a part in a process of its own: what ends it is a result, and the others are still wanted."""
    command = [sys.executable, __file__, "--part", part, "--seconds", str(seconds)]
    try:
        ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=time_limit)
    except subprocess.TimeoutExpired:
        return {"wrong": [f"{part}: not done after {time_limit:.0f} s"]}
    if ran.returncode:
        return {"wrong": [f"{part}: exit status {ran.returncode}: {ran.stderr[-600:]}"]}
    answer: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return answer


def check_part(part: str, seconds: float) -> dict[str, Any]:
    """Return how much was checked, how near to the bound errors came, and what is wrong."""
    started, check = time.monotonic(), Check()
    name, _, which = part.partition(" ")
    run: dict[str, Callable[[], object]] = {
        "cases_of_pytorch": lambda: check.all_of(cases_of_pytorch(_DTYPES[which])),
        "drawn": lambda: check.all_of(drawn(int(which), seconds)),
        "refused": check.refusals,
        "surroundings": check.surroundings,
        "gradients": check.gradients,
        "op_info": check.op_info,
    }
    try:
        checked = run[name]()
    except Exception as error:  # noqa: BLE001 (what fails is a result)
        checked = None
        check.wrong.append(f"{type(error).__name__}: {str(error)[:600]}")
    return {
        "device": torch.cuda.get_device_name(), "torch": torch.__version__, "checked": checked,
        "by_cublaslt": check.by_cublaslt, "other_algorithms": check.algorithms,
        "error_over_bound": check.nearest, "seconds": round(time.monotonic() - started, 1),
        "wrong": [f"{part}: {each}" for each in check.wrong],
    }  # fmt: skip


class Check:
    """Runs products on the whole device and on parts of it, and keeps what was wrong."""

    def __init__(self) -> None:
        torch.zeros(1, device="cuda")
        # PyTorch's call, which much is left to, may round each part of a split sum, unless it is told not to.
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        self._contexts = GreenContexts()
        self._streams = {0: torch.cuda.current_stream()}
        for sms in _BUDGETS:
            (stream,), granted = self._contexts.streams(sms)
            self._streams[granted] = torch.cuda.ExternalStream(stream)
        self.wrong, self.by_cublaslt, self.algorithms, self.nearest = list[str](), 0, 0, 0.0
        self._draw = random.Random(1)

    def all_of(self, pairs: Iterator[Pair]) -> int:
        """Compute each pair's product on the whole device or a part; how many pairs."""
        count = 0
        for a, b in pairs:
            sms = self._draw.choice((0, *self._streams))
            self._compare(self._run(sms, a, b, lambda x, y, told=sms: mm(x, y, told)), a, b, f"on {sms} SMs")
            count += 1
            product = _operator._find_product(a, b)
            if product is not None:
                self.by_cublaslt += _operator._plan(product, sms, a.device.index) is not None
                self.algorithms += self._any_algorithm(product, a, b, sms)
        return count

    def _any_algorithm(self, product: Product, a: torch.Tensor, b: torch.Tensor, sms: int) -> int:
        """Run one of cuBLASLt's algorithms by chance, since another model would choose others; how many."""
        prepared = _operator._Prepared(_operator._library(a.device.index), product, sms)
        allowed = [i for i in range(len(prepared.answers)) if prepared.adds_in_float32(i)]
        if not allowed:
            return 0
        multiply = prepared.multiply(self._draw.choice(allowed))

        def run(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            c = torch.empty(product.m, product.n, dtype=x.dtype, device=x.device)
            multiply(x, y, c)
            return c

        self._compare(self._run(sms, a, b, run), a, b, f"an algorithm, on {sms} SMs")
        return 1

    def _run(
        self, sms: int, a: torch.Tensor, b: torch.Tensor, multiply: Callable[..., torch.Tensor]
    ) -> torch.Tensor:
        """Run it on some SMs, where results that nobody writes are wrong."""
        torch.full((a.shape[0], b.shape[1]), float("nan"), dtype=a.dtype, device=a.device)  # handed out next
        torch.cuda.synchronize()
        with torch.cuda.stream(self._streams[sms]):
            found = multiply(a, b)
        torch.cuda.synchronize()
        return found

    def _compare(
        self, found: torch.Tensor, a: torch.Tensor, b: torch.Tensor, what: str, rough: float = 0.0
    ) -> None:
        """Note a product that is off by more than rounding.

        The bound of an element is that of its own rounding and, by chance, of a sum in any order (Higham and
        Mary, "A new approach to probabilistic rounding error analysis", 2019), eight times it, as Tensor
        Cores truncate.

        Args:
            found: The product.
            a: First operand.
            b: Second operand.
            what: What was tried.
            rough: How operands are rounded.
        """
        high_a, high_b, kind = a.detach().double(), b.detach().double(), torch.finfo(found.dtype)
        expected, sizes = high_a @ high_b, high_a.abs() @ high_b.abs()
        of_sums = 8 * max(a.shape[1], 1) ** 0.5 * _SUMS + 2 * rough
        bound = _ROUNDED[found.dtype] * expected.abs() + of_sums * sizes + kind.smallest_normal * kind.eps
        is_shaped, near = found.shape == expected.shape, 0.0
        if is_shaped and found.numel():
            near = float(((found.detach().double() - expected).abs() / bound).max())
        if is_shaped and near <= 1:
            self.nearest = max(self.nearest, near)
        else:  # not a number is not either
            shapes = f"[{(*a.shape,)}] {a.stride()} x [{(*b.shape,)}] {b.stride()} {a.dtype}"
            self.wrong.append(f"{what}, {shapes}: {[*found.shape]}, {near:.2g} of the bound")

    def _expect(self, is_right: bool, what: str) -> None:
        if not is_right:
            self.wrong.append(what)

    def op_info(self) -> str:
        """Run PyTorch's own samples of ``mm``, in each of its dtypes, and its gradient check."""
        unknown = types.ModuleType("expecttest")  # PyTorch's tests of text, which none of this is
        unknown.TestCase = unittest.TestCase  # type: ignore[attr-defined]
        sys.modules.setdefault("expecttest", unknown)
        try:
            from torch.testing._internal.common_methods_invocations import op_db
        except ImportError as error:
            return f"not there: {error}"
        (info,) = (each for each in op_db if each.name == "mm")
        counts = Counter[str]()
        for dtype in sorted(info.dtypesIfCUDA, key=str):
            for sample in info.sample_inputs("cuda", dtype):
                (other,) = sample.args
                for sms in (0, *_BUDGETS):
                    found = mm(sample.input, other, sms)
                    if dtype in _ROUNDED:
                        self._compare(found, sample.input, other, f"a sample on {sms} SMs")
                    else:
                        torch.testing.assert_close(found, torch.mm(sample.input, other))
                    counts["products"] += 1
        for dtype in (torch.float64, torch.complex128):
            for sample in info.sample_inputs("cuda", dtype, requires_grad=True):
                operands = sample.input, *sample.args
                torch.autograd.gradcheck(lambda a, b: mm(a, b, 32), operands)
                torch.autograd.gradgradcheck(lambda a, b: mm(a, b, 32), operands)
                counts["gradient checks"] += 2
        return ", ".join(f"{count} {what}" for what, count in counts.items())

    def refusals(self) -> int:
        """Hand in what no product is."""
        made = torch.ones(4, 8, device="cuda", dtype=torch.float16)
        cases = {
            "sizes": (made, made), "dtypes": (made, made.t().float()), "devices": (made, made.t().cpu()),
            "dimensions": (made, made.t()[None]), "a vector": (made, made[0]),
        }  # fmt: skip
        for name, (a, b) in cases.items():
            try:
                mm(a, b, 32)
            except (RuntimeError, IndexError):
                continue
            self.wrong.append(f"{name} that do not fit were accepted")
        return len(cases)

    def gradients(self) -> int:
        """Compare gradients with float64, and let PyTorch check the operator."""
        count = 0
        for dtype in _DTYPES.values():
            for stored in ("rows", "columns"):
                a, b = (_matrix(self._draw, *sizes, dtype, stored) for sizes in ((256, 512), (512, 128)))
                a, b = a.detach().requires_grad_(), b.detach().requires_grad_()
                # Two runs may add in another order: sums of up to 512 products, then rounded to a neighbour.
                near = {"rtol": 4 * _ROUNDED[dtype], "atol": 16 * 512**1.5 * _SUMS}
                torch.library.opcheck(torch.ops.costmodel.mm.default, (a, b, 32), **near)
                weights = torch.randn(256, 128, device="cuda").to(dtype)
                of_a, of_b = torch.autograd.grad(mm(a, b, 32), (a, b), weights)
                self._compare(of_a, weights, b.t(), f"gradient of a {stored}")
                self._compare(of_b, a.t(), weights, f"gradient of b {stored}")
                count += 2
        return count

    def surroundings(self) -> list[str]:
        """Compile it, capture it, cast around it, and let float32 be rounded to TensorFloat-32."""
        a, b = (torch.randn(512, 512, device="cuda", dtype=torch.float16) for _ in range(2))
        compiled = torch.compile(lambda x, y: mm(x, y, 32) * 2, fullgraph=True, backend="aot_eager")
        self._compare(compiled(a, b) / 2, a, b, "torch.compile")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = mm(a, b, 32)
        a.copy_(torch.randn_like(a))
        graph.replay()
        self._compare(captured, a, b, "a CUDA graph")
        with torch.autocast("cuda", torch.bfloat16):
            self._expect(mm(a.float(), b.float(), 32).dtype == torch.float32, "autocast")
            self._expect(mm(a.float()[:, 1:], b.float()[1:], 32).dtype == torch.float32, "autocast, gaps")
        wide = torch.randn(512, 512, device="cuda"), torch.randn(512, 512, device="cuda")
        torch.backends.cuda.matmul.fp32_precision = "tf32"
        rough = mm(*wide, 32)
        torch.backends.cuda.matmul.fp32_precision = "ieee"
        self._compare(rough, *wide, "TensorFloat-32", _TF32)
        self._compare(mm(*wide, 32), *wide, "float32 after TensorFloat-32")
        return ["torch.compile", "CUDA graph", "autocast", "TensorFloat-32"]


def cases_of_pytorch(dtype: torch.dtype) -> Iterator[Pair]:
    """Yield the matrices of PyTorch's tests."""
    draw = random.Random(2)
    for n, m, p in ((20, 10, 15), (15, 20, 10), (25, 18, 10)):
        for first in ("rows", "columns"):
            for second in ("rows", "columns", "zero stride"):
                yield _matrix(draw, n, m, dtype, first), _matrix(draw, m, p, dtype, second)
    overlapping = torch.arange(1.0, 7.0, device="cuda").to(dtype).as_strided((2, 2), (1, 1))
    yield overlapping, overlapping
    for rows, columns, inner, offset in ((4, 5, 6, 1), (32, 17, 9, 3), (128, 64, 96, 8)):
        whole = torch.randn(2 * rows, 2 * inner, device="cuda").to(dtype)
        other = torch.randn(2 * inner, 2 * columns, device="cuda").to(dtype)
        yield whole[offset : offset + rows, :inner], other[:inner, offset : offset + columns]
    for size in (100, 1000, 10000):
        yield (_matrix(draw, size + 1, size, dtype, "rows"), _matrix(draw, size, size + 2, dtype, "rows"))
    yield torch.rand(10000, 1000, device="cuda").to(dtype), torch.eye(1000, device="cuda").to(dtype)
    yield torch.rand(65536, 8, device="cuda").to(dtype), torch.rand(8, 4096, device="cuda").to(dtype)
    for offset in (1, 2):
        weight = torch.rand(5120 * 2560 + offset, device="cuda").to(dtype)[offset:].view(5120, 2560)
        yield torch.rand(26, 2560, device="cuda").to(dtype), weight.t()


def drawn(seed: int, seconds: float) -> Iterator[Pair]:
    """Yield matrices by chance for a time."""
    draw, until = random.Random(seed), time.monotonic() + seconds
    while time.monotonic() < until:
        m, n, k = (draw.choice(_SIZES) for _ in range(3))
        dtype = draw.choice([*_DTYPES.values()])
        yield (
            _matrix(draw, m, k, dtype, draw.choice(_STORED)),
            _matrix(draw, k, n, dtype, draw.choice(_STORED)),
        )


def _matrix(draw: random.Random, rows: int, columns: int, dtype: torch.dtype, stored: str) -> torch.Tensor:
    make: dict[str, Any] = {"device": "cuda"}
    if stored == "columns":
        return torch.randn(columns, rows, **make).to(dtype).t()
    if stored == "gaps":
        gap = draw.choice((1, 3, 8))
        return torch.randn(rows, columns + gap, **make).to(dtype)[:, :columns]
    if stored == "offset":
        offset = draw.choice((1, 8, 128))
        return torch.randn(rows * columns + offset, **make).to(dtype)[offset:].view(rows, columns)
    if stored == "zero stride":
        return torch.randn(rows, 1, **make).to(dtype).expand(rows, columns)
    return torch.randn(rows, columns, **make).to(dtype)


if __name__ == "__main__":
    sys.exit(main())
