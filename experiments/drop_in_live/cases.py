"""What is asked of each kernel: operands, grid, what it should give, and its author's list of configs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import kernels
import torch
import triton

Meta = Mapping[str, int]


@dataclass(frozen=True)
class Case:
    """A kernel and what is asked of it.

    Attributes:
        kernel: The ``@triton.jit`` function.
        key: Arguments that tell the sizes.
        sizes: Its sizes, and small ones for the interpreter.
        operands: Arguments of a call for sizes on a device.
        grid: Programs for sizes and the parameters of a config.
        expected: What some arguments should hold after a call, by name.
        parameters: Values of each parameter.
        allowed: Which of them the author lists.
        zeroed: Arguments that must be zero before each run.
    """

    kernel: Any
    key: tuple[str, ...]
    sizes: tuple[tuple[int, ...], tuple[int, ...]]
    operands: Callable[..., dict[str, Any]]
    grid: Callable[..., tuple[int, ...]]
    expected: Callable[[dict[str, Any]], dict[str, Any]]
    parameters: Mapping[str, Sequence[int]]
    allowed: Callable[[Meta], bool]
    zeroed: tuple[str, ...] = ()

    @property
    def configs(self) -> list[triton.Config]:
        """The author's list."""
        names = list(self.parameters)
        every = (dict(zip(names, values, strict=True)) for values in product(*self.parameters.values()))
        return [_config(each) for each in every if self.allowed(each)]


def _config(parameters: Meta) -> triton.Config:
    own = dict(parameters)
    options = {name: own.pop(name) for name in ("num_warps", "num_stages") if name in own}
    return triton.Config(own, **options)


def _half(*shape: int, device: str) -> Any:
    return torch.randn(*shape, device=device).to(torch.float16)


def _missing(*shape: int, device: str, dtype: Any = torch.float16) -> Any:
    return torch.full(shape, float("nan"), device=device, dtype=dtype)


def _softmax(m: int, n: int, device: str) -> dict[str, Any]:
    y = _missing(m, n, device=device)
    return {"x": _half(m, n, device=device), "y": y, "n_rows": m, "n_cols": n, "p": 0.0, "seed": 7}


def _layer_norm(m: int, n: int, device: str) -> dict[str, Any]:
    x = _half(m, n, device=device)
    mean, rstd = x.float().mean(1), x.float().var(1, unbiased=False).add(1e-5).rsqrt()
    sums = {name: torch.zeros(n, device=device) for name in ("dw", "db")}
    given = {
        "dy": _half(m, n, device=device),
        "x": x,
        "w": _half(n, device=device),
        "mean": mean,
        "rstd": rstd,
    }
    return {**given, "dx": _missing(m, n, device=device), **sums, "M": m, "N": n}


def _layer_norm_expected(told: dict[str, Any]) -> dict[str, Any]:
    dy, w = told["dy"].float(), told["w"].float()
    xhat = (told["x"].float() - told["mean"][:, None]) * told["rstd"][:, None]
    wdy = dy * w
    c1, c2 = (xhat * wdy).mean(1, keepdim=True), wdy.mean(1, keepdim=True)
    dx = (wdy - xhat * c1 - c2) * told["rstd"][:, None]
    return {"dx": dx, "dw": (dy * xhat).sum(0), "db": dy.sum(0)}


def _grouped(experts: int, tokens: int, n: int, k: int, device: str) -> dict[str, Any]:
    cuts = torch.linspace(0, tokens, experts + 1).round().to(torch.int32)
    cuts[1:-1] += torch.arange(experts - 1, dtype=torch.int32) % 7 - 3
    a, b = _half(tokens, k, device=device), _half(experts, k, n, device=device) * k**-0.5
    c = _missing(tokens, n, device=device)
    return {"a": a, "b": b, "c": c, "starts": cuts.to(device), "K": k, "N": n, "stride_be": k * n}


def _grouped_expected(told: dict[str, Any]) -> dict[str, Any]:
    starts = told["starts"].tolist()
    parts = [
        told["a"][first:last].float() @ told["b"][i].float()
        for i, (first, last) in enumerate(pairwise(starts))
    ]
    return {"c": torch.cat(parts)}


def _rope(t: int, h: int, d: int, device: str) -> dict[str, Any]:
    angles = torch.outer(
        torch.arange(t, device=device).float(), 1e4 ** -torch.linspace(0, 1, d // 2, device=device)
    )
    q, out = _half(t, h, d, device=device), _missing(t, h, d, device=device)
    return {"q": q, "cos": angles.cos(), "sin": angles.sin(), "out": out, "T": t, "H": h, "D": d}


def _rope_expected(told: dict[str, Any]) -> dict[str, Any]:
    first, second = told["q"].float().chunk(2, dim=-1)
    c, s = told["cos"][:, None, :], told["sin"][:, None, :]
    return {"out": torch.cat([first * c - second * s, second * c + first * s], dim=-1)}


def _int4(m: int, n: int, k: int, device: str) -> dict[str, Any]:
    packed = torch.randint(-(2**31), 2**31 - 1, (k // 8, n), device=device, dtype=torch.int64).to(torch.int32)
    scales = (torch.rand(k // 128, n, device=device) * 0.02 + 0.01).to(torch.float16)
    out = _missing(m, n, device=device)
    x = _half(m, k, device=device)
    return {"x": x, "packed": packed, "scales": scales, "out": out, "M": m, "N": n, "K": k, "GROUP": 128}


def _int4_expected(told: dict[str, Any]) -> dict[str, Any]:
    shifts = torch.arange(8, device=told["packed"].device, dtype=torch.int32) * 4
    codes = ((told["packed"][:, None, :] >> shifts[None, :, None]) & 0xF).reshape(told["K"], told["N"])
    weights = ((codes - 8).half() * told["scales"].repeat_interleave(128, 0)).float()
    return {"out": told["x"].float() @ weights}


def _cross_entropy(m: int, v: int, device: str) -> dict[str, Any]:
    logits, labels = _half(m, v, device=device), torch.randint(0, v, (m,), device=device)
    outputs = {"loss": _missing(m, device=device, dtype=torch.float32), "grad": _missing(m, v, device=device)}
    return {"logits": logits, "labels": labels, **outputs, "V": v, "scale": 1.0}


def _cross_entropy_expected(told: dict[str, Any]) -> dict[str, Any]:
    logits = told["logits"].float()
    one = torch.nn.functional.one_hot(told["labels"], told["V"])
    loss = torch.nn.functional.cross_entropy(logits, told["labels"], reduction="none")
    return {"loss": loss, "grad": logits.softmax(1) - one}


def _decode(h: int, s: int, d: int, device: str) -> dict[str, Any]:
    keys = {name: _half(h, s, d, device=device) for name in ("k", "v")}
    part, sums = (_missing(*shape, device=device, dtype=torch.float32) for shape in ((h, 16, d), (h, 16)))
    sizes = {"H": h, "S": s, "scale": d**-0.5, "D": d, "SPLITS": 16}
    return {"q": _half(h, d, device=device), **keys, "part": part, "sums": sums, **sizes}


def _decode_expected(told: dict[str, Any]) -> dict[str, Any]:
    h, s, d = told["k"].shape
    length = -(-s // 16)
    scores = (told["k"].float() @ told["q"].float()[:, :, None])[..., 0] * told["scale"]
    scores = torch.nn.functional.pad(scores, (0, 16 * length - s), value=float("-inf")).view(h, 16, length)
    values = torch.nn.functional.pad(told["v"].float(), (0, 0, 0, 16 * length - s)).view(h, 16, length, d)
    return {"part": (scores.softmax(2)[..., None] * values).sum(2), "sums": scores.logsumexp(2)}


def _conv(b: int, t: int, c: int, device: str) -> dict[str, Any]:
    given = {
        "x": _half(b, t, c, device=device),
        "w": _half(c, 4, device=device),
        "bias": _half(c, device=device),
    }
    return {**given, "y": _missing(b, t, c, device=device), "T": t, "C": c, "K": 4}


def _conv_expected(told: dict[str, Any]) -> dict[str, Any]:
    x = told["x"].float().transpose(1, 2)
    found = torch.nn.functional.conv1d(
        torch.nn.functional.pad(x, (3, 0)),
        told["w"].float()[:, None, :],
        told["bias"].float(),
        groups=told["C"],
    )
    return {"y": torch.nn.functional.silu(found).transpose(1, 2)}


def _per_thread(least: int, most: int, *names: str) -> Callable[[Meta], bool]:
    def allowed(config: Meta) -> bool:
        elements = 1
        for name in names:
            elements *= config[name]
        return least <= elements / (32 * config["num_warps"]) <= most

    return allowed


def _product(config: Meta) -> bool:
    m, n, k = config["BLOCK_M"], config["BLOCK_N"], config["BLOCK_K"]
    return (
        8 <= m * n / (32 * config["num_warps"]) <= 128
        and 2 * (m + n) * k * config["num_stages"] <= 160 * 1024
    )


def _width(told: int) -> int:
    return int(triton.next_power_of_2(told))


CASES: dict[str, Case] = {
    "softmax_dropout": Case(
        kernels.softmax_dropout, ("n_rows", "n_cols"), ((8192, 3000), (5, 100)), _softmax,
        lambda told, meta: (triton.cdiv(told["n_rows"], meta["ROWS"]),),
        lambda told: {"y": told["x"].float().softmax(1)},
        {"BLOCK": (4096,), "ROWS": (1, 2, 4, 8), "num_warps": (1, 2, 4, 8, 16, 32)},
        _per_thread(4, 128, "BLOCK"),
    ),
    "layer_norm_backward": Case(
        kernels.layer_norm_backward, ("M", "N"), ((6000, 2560), (9, 100)), _layer_norm,
        lambda told, meta: (triton.cdiv(told["M"], meta["ROWS"]),), _layer_norm_expected,
        {"BLOCK": (4096,), "ROWS": (4, 8, 16, 32, 64), "num_warps": (4, 8, 16), "num_stages": (1, 2, 3)},
        lambda config: True, ("dw", "db"),
    ),
    "grouped_matmul": Case(
        kernels.grouped_matmul, ("K", "N"), ((16, 4096, 1536, 2048), (3, 60, 48, 64)), _grouped,
        lambda told, meta: (
            triton.cdiv(told["N"], meta["BLOCK_N"]),
            triton.cdiv(2 * told["a"].shape[0] // (told["starts"].shape[0] - 1), meta["BLOCK_M"]),
            told["starts"].shape[0] - 1,
        ),
        _grouped_expected,
        {
            "BLOCK_M": (32, 64, 128), "BLOCK_N": (64, 128, 256), "BLOCK_K": (32, 64), "num_warps": (4, 8),
            "num_stages": (3, 4),
        },
        _product,
    ),
    "rope": Case(
        kernels.rope, ("T", "H"), ((6000, 24, 128), (7, 3, 16)), _rope,
        lambda told, meta: (triton.cdiv(told["T"], meta["BLOCK_T"]), triton.cdiv(told["H"], meta["BLOCK_H"])),
        _rope_expected,
        {"BLOCK_T": (1, 2, 4, 8, 16), "BLOCK_H": (1, 4, 8, 32), "num_warps": (1, 2, 4, 8)},
        lambda config: 1 <= config["BLOCK_T"] * config["BLOCK_H"] * 64 / (32 * config["num_warps"]) <= 32,
    ),
    "int4_matmul": Case(
        kernels.int4_matmul, ("M", "N", "K"), ((48, 6144, 4096), (5, 64, 256)), _int4,
        lambda told, meta: (triton.cdiv(told["N"], meta["BLOCK_N"]), triton.cdiv(told["M"], meta["BLOCK_M"])),
        _int4_expected,
        {
            "BLOCK_M": (16, 32, 64), "BLOCK_N": (32, 64, 128), "BLOCK_K": (32, 64, 128),
            "num_warps": (2, 4, 8), "num_stages": (3,),
        },
        lambda config: 2 <= config["BLOCK_M"] * config["BLOCK_N"] / (32 * config["num_warps"]) <= 64
        and config["BLOCK_K"] * config["BLOCK_N"] / (32 * config["num_warps"]) <= 64,
    ),
    "chunked_cross_entropy": Case(
        kernels.chunked_cross_entropy, ("V",), ((1000, 50257), (3, 300)), _cross_entropy,
        lambda told, _: (told["logits"].shape[0],), _cross_entropy_expected,
        {"BLOCK": (512, 1024, 2048, 4096, 8192, 16384), "num_warps": (1, 2, 4, 8, 16), "num_stages": (2, 4)},
        _per_thread(4, 128, "BLOCK"),
    ),
    "flash_decode": Case(
        kernels.flash_decode, ("H", "S"), ((96, 5000, 128), (3, 128, 16)), _decode,
        lambda told, _: (told["H"], told["SPLITS"]), _decode_expected,
        {"BLOCK_N": (8, 16, 32, 64, 128), "CHUNK": (1, 2, 3, 4), "num_warps": (1, 2, 4, 8)},
        lambda config: 4 <= config["BLOCK_N"] * 128 / (32 * config["num_warps"]) <= 128,
    ),
    "causal_conv1d": Case(
        kernels.causal_conv1d, ("T", "C"), ((3, 4000, 2304), (2, 20, 40)), _conv,
        lambda told, meta: (
            triton.cdiv(told["C"], meta["BLOCK_C"]),
            triton.cdiv(told["T"], meta["BLOCK_T"]),
            told["x"].shape[0],
        ),
        _conv_expected,
        {"BLOCK_T": (1, 4, 8, 16, 32, 64), "BLOCK_C": (32, 64, 128, 256, 512), "num_warps": (1, 2, 4, 8)},
        _per_thread(2, 32, "BLOCK_T", "BLOCK_C"),
    ),
}  # fmt: skip
