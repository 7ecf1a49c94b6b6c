"""Which candidates are tried: more than Inductor lists, then few; and which of those alike is taken."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from costmodel.arrays import FloatArray

if TYPE_CHECKING:
    from torch._inductor.kernel_template_choice import KernelTemplateChoice


# Block of m, n and k, stages and warps. Few SMs want large blocks, which move less; few rows a long k.
_CONFIGS = (
    (128, 256, 64, 3, 8),
    (256, 128, 64, 3, 8),
    (128, 128, 64, 4, 8),
    (128, 128, 128, 3, 8),
    (128, 64, 64, 4, 4),
    (64, 256, 64, 4, 4),
    (64, 128, 64, 4, 4),
    (64, 64, 64, 4, 4),
    (32, 64, 128, 4, 4),
    (32, 128, 64, 4, 4),
)
# Timings that differ by less than this are alike: two rounds of Inductor's timer differ as much.
NOISE = 0.01
_SMALLEST = 16  # side of a block that Tensor Cores work on
_WIDENED = ("triton::mm", "triton::bmm")
_BLOCKS = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_stages", "num_warps")

# On CUDA cores the first choice took 1.4 to 2 times as long as PyTorch's call, which was the best or within a
# fifth of it (four products on 8 to 132 SMs of an H200), so that nothing else is taken untimed.
_UNSURE = ("float32",)
# How many times as long PyTorch's call must be expected to take before another kernel is taken untimed, on
# a part and on all SMs. Of products held out, 14 % of the choices on all SMs were over 2 % slower than that
# call without a margin and 5 % are with it, at the same mean; on parts 8 and 6 % (inductor_budgets/sure.py).
_SURE_ON_PART, _SURE_ON_ALL = 1.05, 1.1

_Key = TypeVar("_Key", bound=Hashable)


def more_choices(
    choices: Sequence["KernelTemplateChoice"], m: int, n: int, k: int
) -> Iterator["KernelTemplateChoice"]:
    """Yield candidates of the templates of the given ones, with configs that none of these has.

    Args:
        choices: Inductor's candidates for a product.
        m: Rows of the product.
        n: Columns of the product.
        k: What is summed over.
    """
    for template in dict.fromkeys(each.template for each in choices if each.template.uid in _WIDENED):
        alike = [each for each in choices if each.template is template]
        known = {tuple(each.params.to_kwargs()[name] for name in _BLOCKS) for each in alike}
        for config in dict.fromkeys(_fitted(config, m, n, k) for config in _CONFIGS):
            if config not in known:
                options = dict(zip(_BLOCKS, config, strict=True))
                yield with_options(alike[0], options | {"EVEN_K": k % options["BLOCK_K"] == 0})


def with_options(choice: "KernelTemplateChoice", options: dict[str, Any]) -> "KernelTemplateChoice":
    """Return a candidate that differs from another in some options of its template."""
    params = type(choice.params)(choice.params.to_kwargs() | options)
    return type(choice)(choice.template, params, choice.extra_kwargs, choice.layout, choice.inputs)


def _fitted(config: tuple[int, ...], m: int, n: int, k: int) -> tuple[int, ...]:
    """Cut blocks to the product, as Inductor does with its own, and warps to what a block has work for."""
    *blocks, stages, warps = config
    cut = [
        min(b, max(_SMALLEST, 1 << (size - 1).bit_length()))
        for b, size in zip(blocks, (m, n, k), strict=True)
    ]
    return (*cut, stages, min(warps, max(1, cut[0] * cut[1] // 256)))


def choose_to_time(seconds: FloatArray, of_library: Sequence[bool], keep: int) -> list[int]:
    """Choose candidates to time, the most promising first.

    The library's are always among them. Ties go by the order of the candidates, so that processes that rank
    the same candidates choose the same.

    Args:
        seconds: Predicted latency of each candidate; nan where none is known.
        of_library: Whether each is a call of the library.
        keep: How many to time; with 0, the one to take without timing.

    Returns:
        Positions. One is returned for ``keep=0``; else ``keep``, or all of the library's if these are more.
    """
    order = np.argsort(seconds, kind="stable").tolist()  # nan comes last
    called = [i for i in order if of_library[i]]
    if not keep:
        best = order[0]
        return called[:1] if called and np.isnan(seconds[best]) else [best]
    others = [i for i in order if not of_library[i]]
    chosen = {*called, *others[: max(0, keep - len(called))]}
    return [i for i in order if i in chosen]


def only_sure(seconds: FloatArray, of_library: Sequence[bool], dtype: str, *, on_part: bool) -> FloatArray:
    """Return latencies to take one candidate by, untimed: the library's call, or what is surely faster.

    Args:
        seconds: Predicted latency of each candidate.
        of_library: Whether each is a call of the library.
        dtype: Of the product.
        on_part: Whether it runs on fewer SMs than there are.
    """
    margin = np.nan if dtype in _UNSURE else _SURE_ON_PART if on_part else _SURE_ON_ALL
    return np.where(of_library, seconds, seconds * margin)


def even_out(timings: Mapping[_Key, float]) -> dict[_Key, float]:
    """Give candidates that are alike to the best the same time, so that the first of them is taken.

    Args:
        timings: Latency of each candidate, in the order in which those that are alike are to be taken.
    """
    best = min(timings.values(), default=np.inf)
    return {each: best if latency <= best * (1 + NOISE) else latency for each, latency in timings.items()}
