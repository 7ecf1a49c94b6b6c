"""What a bound kernel asks: which kernel, of which sizes and types, in words of the record store."""

import re
from collections.abc import Sequence
from importlib.metadata import version
from string import ascii_lowercase
from typing import Any

import torch
import triton
from torch.utils._pytree import tree_leaves

from costmodel.integrations.triton import Question, type_runs
from costmodel.records import Workload, content_id

# Settings of Helion that change the code of a config.
_SETTINGS = ("backend", "dot_precision", "fast_math", "index_dtype", "static_shapes")


def question(kernel: Any, args: Sequence[object]) -> Question:
    """What a bound kernel asks, but for the platform.

    The dims of the workload are the sizes of all tensors and the positive whole numbers among the arguments,
    in order, as far as there are letters; whatever else is known enters the name of the space.

    Args:
        kernel: The ``helion.runtime.BoundKernel``.
        args: What it is called with.
    """
    leaves = tree_leaves(list(args))
    tensors = [each for each in leaves if isinstance(each, torch.Tensor)]
    numbers = [size for each in leaves for size in _numbers(each)]
    dims = dict(zip(ascii_lowercase, [size for size in numbers if size > 0], strict=False))
    types = [str(each.dtype) for each in tensors]
    name = re.sub(r"\W+", "_", "_".join([kernel.kernel.name, *type_runs(types)]), flags=re.ASCII)
    told = content_id(
        kernel.kernel.kernel_source(),
        version("helion"),
        triton.__version__,
        {setting: str(getattr(kernel.settings, setting)) for setting in _SETTINGS},
        types,
        [list(each.stride()) for each in tensors],
        numbers,
        [str(each) for each in leaves if isinstance(each, bool | float | str)],
    )
    return Question(Workload(f"helion.{name}", dims, ""), f"helion-{name}-{told[:8]}")


def _numbers(argument: object) -> Sequence[int]:
    if isinstance(argument, torch.Tensor):
        return list(argument.shape)
    return [argument] if isinstance(argument, int) and not isinstance(argument, bool) else []
