"""Helion's kernels and configs in terms of the record store, and back."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import is_dataclass
from importlib.metadata import version
from string import ascii_lowercase
from types import CodeType, FunctionType
from typing import Any

import helion
import torch
import triton
from torch.utils._pytree import tree_flatten, tree_leaves

from costmodel.integrations.triton._question import Question, type_runs
from costmodel.records._candidate import Config, Decision
from costmodel.records._identity import content_id
from costmodel.records._workload import Workload

# Settings of Helion that change the code of a config.
_SETTINGS = ("backend", "dot_precision", "fast_math", "index_dtype", "static_shapes")
_ITEM = re.compile(r"(.+)\[(\d+)\]", re.ASCII)
_JSON = re.compile(r"null|true|false|\[.*\]")


def make_helion_question(kernel: Any, args: Sequence[object]) -> Question:
    """Tell what a bound kernel asks, but for the platform.

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
    name = re.sub(
        r"\W+",
        "_",
        "_".join([kernel.kernel.name, *type_runs([str(each.dtype) for each in tensors])]),
        flags=re.ASCII,
    )
    told = content_id(
        kernel.kernel.kernel_source(),
        version("helion"),
        triton.__version__,
        {setting: str(getattr(kernel.settings, setting)) for setting in _SETTINGS},
        _told(list(args)),
    )
    return Question(Workload(f"helion.{name}", dims, ""), f"helion-{name}-{told[:8]}")


def _numbers(argument: object) -> Sequence[int]:
    if isinstance(argument, torch.Tensor):
        return list(argument.shape)
    return [argument] if isinstance(argument, int) and not isinstance(argument, bool) else []


def _told(arguments: object) -> list[object]:
    """What of arguments changes a kernel or its time: their structure, then each, alike in all processes."""
    leaves, structure = tree_flatten(arguments)
    return [str(structure), *map(_leaf, leaves)]


def _leaf(argument: object) -> object:
    if isinstance(argument, torch.Tensor):
        return [str(argument.dtype), list(argument.shape), list(argument.stride())]
    if isinstance(argument, FunctionType):  # Helion compiles it into the kernel
        cells = [cell.cell_contents for cell in argument.__closure__ or ()]
        return [_code(argument.__code__), _told([cells, argument.__defaults__, argument.__kwdefaults__])]
    if isinstance(argument, torch.fx.GraphModule):
        return argument.code
    if is_dataclass(argument) and not isinstance(argument, type):
        return [type(argument).__qualname__, _told(vars(argument))]
    return [type(argument).__qualname__, str(getattr(argument, "__qualname__", argument))]


def _code(code: CodeType) -> list[object]:
    """Tell what a function does, wherever it is written."""
    constants = [_code(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts]
    return [code.co_code.hex(), code.co_names, constants]


def helion_to_config(config: helion.Config) -> Config:
    """Return a config with one decision a number or choice: item i of a list is ``name[i]``.

    What is no number and no text, such as the order of two loops, is its JSON.

    Example:
        >>> config_of(helion.Config(block_sizes=[16, 32], range_flattens=[None])).decisions  # doctest: +SKIP
        {'block_sizes[0]': 16, 'block_sizes[1]': 32, 'range_flattens[0]': 'null'}
    """
    decisions: dict[str, Decision] = {}
    for name, value in sorted(config.config.items()):
        if isinstance(value, list):
            decisions |= {f"{name}[{i}]": _decision(item) for i, item in enumerate(value)}
        else:
            decisions[name] = _decision(value)
    return Config(decisions)


def drop_repeated(configs: Iterable[Config | None]) -> list[Config]:
    """Return those that are there, each once, in order."""
    return list({each.config_id: each for each in configs if each is not None}.values())


def config_to_helion(config: Config) -> helion.Config:
    """Return the inverse of ``helion_to_config``; lists without items are left to Helion, which adds them."""
    values: dict[str, Any] = {}
    for name, decision in config.decisions.items():
        if item := _ITEM.fullmatch(name):
            values.setdefault(item[1], []).append(_value(decision))
        else:
            values[name] = _value(decision)
    return helion.Config.from_dict(values)


def _decision(value: Any) -> Decision:
    is_plain = isinstance(value, int | float | str) and not isinstance(value, bool)
    return value if is_plain else json.dumps(value)


def _value(decision: Decision) -> Any:
    is_json = isinstance(decision, str) and _JSON.fullmatch(decision)
    return json.loads(decision) if is_json else decision  # type: ignore[arg-type]
