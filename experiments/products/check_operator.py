"""Compare ``costmodel::mm`` on a GPU with float64: sizes, layouts, dtypes, SMs, gradients, refusals.

Of PyTorch's own tests it runs the samples of its ``OpInfo`` of ``mm``, the cases of ``test_mm``,
``test_strided_mm_bmm`` and ``test_mm_submatrix_offset`` (``test/test_linalg.py``), and those of
``test_cublas_addmm``, ``test_cublas_addmm_alignment`` and ``test_cublas_baddbmm_large_input``
(``test/test_matmul_cuda.py``).
"""

import argparse
import json
import random
import sys
import time
import types
import unittest
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from costmodel.collector.device._green_context import GreenContexts
from costmodel.files import write_json
from costmodel.products import _operator
from costmodel.products._operator import mm

_TOLERANCE = {"float16": 2e-3, "bfloat16": 1e-2, "float32": 1e-4, "tf32": 2e-3}  # of the norm
_WORST = 8.0  # an element's error over the root mean square of the results, in tolerances
_DTYPES = torch.float16, torch.bfloat16, torch.float32
_BUDGETS = 8, 32, 64
_SIZES = 1, 2, 3, 5, 8, 16, 17, 24, 33, 64, 77, 100, 128, 200, 256, 333, 512, 768, 1000, 1024, 2048, 4096
_STORED = "rows", "rows", "rows", "columns", "columns", "columns", "gaps", "offset", "zero stride"
Pair = tuple[torch.Tensor, torch.Tensor]


def main() -> int:
    """Check all, print and save how much of what was wrong; the exit status says whether anything was."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="of products drawn by chance")
    parser.add_argument("--out", type=Path, help="file for the result")
    options = parser.parse_args()
    check = Check()
    found: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    for name, part in check.parts(options.seconds).items():
        try:
            found[name] = part()
        except Exception as error:  # noqa: BLE001 (what fails is a result, and the others are still wanted)
            check.wrong.append(f"{name}: {type(error).__name__}: {str(error)[:300]}")
        found |= {"by_cublaslt": check.by_cublaslt, "wrong": check.wrong}
        if options.out:
            write_json(options.out, found)
    print(json.dumps(found, indent=1))
    return bool(check.wrong)


class Check:
    """Runs products on the whole device and on parts of it, and keeps what was wrong."""

    def __init__(self) -> None:
        torch.zeros(1, device="cuda")
        self._contexts = GreenContexts()
        self._streams = {0: torch.cuda.current_stream()}
        for sms in _BUDGETS:
            (stream,), granted = self._contexts.streams(sms)
            self._streams[granted] = torch.cuda.ExternalStream(stream)
        self.wrong, self.by_cublaslt = list[str](), 0
        self._draw = random.Random(1)

    def parts(self, seconds: float) -> dict[str, Callable[[], object]]:
        """Return all that is checked, by name."""
        return {
            "cases_of_pytorch": lambda: self.all_of(cases_of_pytorch()),
            "drawn": lambda: self.all_of(drawn(seconds)),
            "refused": self.refusals,
            "surroundings": self.surroundings,
            "gradients": self.gradients,
            "op_info": self.op_info,
        }

    def all_of(self, pairs: Iterator[Pair]) -> int:
        """Compare the product of each pair, half of them on a part; how many."""
        count = 0
        for a, b in pairs:
            count += 1
            self._compare(a, b, self._draw.choice((0, *self._streams)))
        return count

    def _compare(self, a: torch.Tensor, b: torch.Tensor, sms: int) -> None:
        expected = a.double() @ b.double()
        torch.full_like(expected, float("nan"), dtype=a.dtype)  # what the allocator hands out next
        torch.cuda.synchronize()
        with torch.cuda.stream(self._streams[sms]):
            found = mm(a, b, sms)
        torch.cuda.synchronize()
        self.by_cublaslt += self._is_by_cublaslt(a, b, sms)
        if wrong := _difference(found, expected, a.dtype):
            self.wrong.append(
                f"{[*a.shape]} {a.stride()} x {[*b.shape]} {b.stride()} {a.dtype} {sms}: {wrong}"
            )

    @staticmethod
    def _is_by_cublaslt(a: torch.Tensor, b: torch.Tensor, sms: int) -> bool:
        product = _operator._find_product(a, b)
        return product is not None and _operator._plan(product, sms, a.device.index) is not None

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
                    torch.testing.assert_close(mm(sample.input, other, sms), torch.mm(sample.input, other))
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
        """Compare gradients with PyTorch's, and let PyTorch check the operator."""
        count = 0
        for dtype in _DTYPES:
            rough = _TOLERANCE[str(dtype).removeprefix("torch.")]  # two runs may add in another order
            for stored in ("rows", "columns"):
                a, b = (
                    _matrix(self._draw, 256, 512, dtype, stored),
                    _matrix(self._draw, 512, 128, dtype, stored),
                )
                a, b = a.detach().requires_grad_(), b.detach().requires_grad_()
                torch.library.opcheck(torch.ops.costmodel.mm.default, (a, b, 32), rtol=rough, atol=rough * 32)
                weights = torch.randn(256, 128, device="cuda").to(dtype)
                found = torch.autograd.grad(mm(a, b, 32), (a, b), weights)
                wide, high = weights.double(), (a.detach().double(), b.detach().double())
                expected = wide @ high[1].t(), high[0].t() @ wide
                for own, right in zip(found, expected, strict=True):
                    count += 1
                    if wrong := _difference(own, right, dtype):
                        self.wrong.append(f"gradient of {dtype} {stored}: {wrong}")
        return count

    def surroundings(self) -> list[str]:
        """Compile it, capture it, cast around it, and let float32 be rounded to TensorFloat-32."""
        a, b = (torch.randn(512, 512, device="cuda", dtype=torch.float16) for _ in range(2))
        right = a.double() @ b.double()
        compiled = torch.compile(lambda x, y: mm(x, y, 32) + 1, fullgraph=True, backend="aot_eager")
        self._expect(not _difference(compiled(a, b) - 1, right, torch.bfloat16), "torch.compile")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = mm(a, b, 32)
        a.copy_(torch.randn_like(a))
        graph.replay()
        self._expect(not _difference(captured, a.double() @ b.double(), a.dtype), "a CUDA graph")
        with torch.autocast("cuda", torch.bfloat16):
            self._expect(mm(a.float(), b.float(), 32).dtype == torch.float32, "autocast")
            self._expect(mm(a.float()[:, 1:], b.float()[1:], 32).dtype == torch.float32, "autocast, gaps")
        wide = a.float(), b.float()
        torch.backends.cuda.matmul.fp32_precision = "tf32"
        rough = mm(*wide, 32)
        torch.backends.cuda.matmul.fp32_precision = "ieee"
        fine, right = mm(*wide, 32), wide[0].double() @ wide[1].double()
        self._expect(not _difference(rough, right, torch.bfloat16), "TensorFloat-32")
        self._expect(not _difference(fine, right, torch.float32), "float32 after TensorFloat-32")
        return ["torch.compile", "CUDA graph", "autocast", "TensorFloat-32"]


def _difference(found: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype) -> str:
    """Tell how results differ by more than rounding; nothing if they do not."""
    if found.shape != expected.shape:
        return f"shape {[*found.shape]}"
    if not expected.numel():
        return ""
    tolerance, scale = _TOLERANCE[str(dtype).removeprefix("torch.")], expected.square().mean().sqrt()
    error = found.double() - expected
    whole, worst = float(error.square().mean().sqrt() / scale), float(error.abs().max() / scale)
    is_right = whole <= tolerance and worst <= _WORST * tolerance  # not a number is not
    return "" if is_right or not scale else f"{whole:.1e} in the norm, {worst:.1e} at worst"


def cases_of_pytorch() -> Iterator[Pair]:
    """Yield the matrices of PyTorch's tests."""
    draw = random.Random(2)
    for dtype in _DTYPES:
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


def drawn(seconds: float) -> Iterator[Pair]:
    """Yield matrices by chance for a time."""
    draw, until = random.Random(0), time.monotonic() + seconds
    while time.monotonic() < until:
        m, n, k = (draw.choice(_SIZES) for _ in range(3))
        dtype = draw.choice(_DTYPES)
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
