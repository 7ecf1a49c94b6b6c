"""Compare ``costmodel::mm`` on a GPU with float64, over layouts, dtypes, sizes and SMs, and its gradients."""

import random
import sys

import torch

from costmodel.products._operator import mm

_TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 1e-2, torch.float32: 1e-4}


def main() -> int:
    draw, wrong, ran = random.Random(0), 0, 0
    for _ in range(400):
        m, n, k = (draw.choice((1, 2, 3, 8, 17, 64, 100, 128, 333, 512, 1024, 2048, 4096)) for _ in range(3))
        dtype = draw.choice(list(_TOLERANCE))
        a, b = _matrix(draw, m, k, dtype), _matrix(draw, k, n, dtype)
        sms = draw.choice((0, 8, 32, 64))
        expected = a.double() @ b.double()
        error = float((mm(a, b, sms).double() - expected).norm() / expected.norm())
        ran += 1
        if not error <= _TOLERANCE[dtype]:
            wrong += 1
            print(f"wrong: {m} {n} {k} {dtype} {a.stride()} {b.stride()} {sms}: {error:.1e}")
    a, b = (torch.randn(256, 256, device="cuda", dtype=torch.float16, requires_grad=True) for _ in range(2))
    torch.library.opcheck(torch.ops.costmodel.mm.default, (a, b, 32))
    mm(a, b, 32).sum().backward()
    reference = torch.ones(256, 256, device="cuda", dtype=torch.float16) @ b.t()
    wrong += not torch.allclose(a.grad, reference, rtol=1e-2, atol=1e-2)
    print(f"{ran} products and the gradients: {wrong} wrong")
    return wrong > 0


def _matrix(draw: random.Random, rows: int, columns: int, dtype: torch.dtype) -> torch.Tensor:
    kind = draw.choice(("rows", "columns", "gaps", "offset"))
    if kind == "columns":
        return torch.randn(columns, rows, device="cuda").to(dtype).t()
    if kind == "gaps":
        return torch.randn(rows, columns + 3, device="cuda").to(dtype)[:, :columns]
    if kind == "offset":
        return torch.randn(rows * columns + 1, device="cuda").to(dtype)[1:].view(rows, columns)
    return torch.randn(rows, columns, device="cuda").to(dtype)


if __name__ == "__main__":
    sys.exit(main())
