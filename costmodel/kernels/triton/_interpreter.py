"""Runs kernels in Triton's interpreter, on a CPU, and compares them with the reference.

Triton is told to interpret before it is imported, so that this happens in a process of its own:
``python -m costmodel.kernels.triton._interpreter``.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from costmodel.errors import CostModelError, MissingExtraError
from costmodel.kernels._artifact import PassedValue, Position
from costmodel.kernels._reference import agrees
from costmodel.kernels.family._source import find_in, load_module
from costmodel.kernels.triton._build import Constant, KernelParameter, list_parameters
from costmodel.kernels.triton._family import TritonFamily
from costmodel.kernels.triton._source import TritonSource
from costmodel.records._candidate import Config, ConfigBatch
from costmodel.records._workload import Workload

_TELLS_TRITON = {"TRITON_INTERPRET": "1"}


class InterpreterJob(msgspec.Struct, frozen=True):
    """What is interpreted.

    Attributes:
        places: Families of the user's own.
        workload: Name of the workload.
        configs: Decisions of each config.
    """

    places: tuple[str, ...]
    workload: str
    configs: tuple[dict[str, Any], ...]


def interpret(
    places: Sequence[str], workload: Workload, configs: Sequence[Config], *, timeout_s: float = 300.0
) -> list[str]:
    """Run configs of a workload in Triton's interpreter, which needs torch and is slow: take small dims.

    Args:
        places: Families of the user's own, as ``TritonSource`` takes them.
        workload: What is computed.
        configs: Its configs.
        timeout_s: Seconds that all of them have.

    Returns:
        Why each config is wrong; empty where its outputs are those of the reference.

    Raises:
        CostModelError: Nothing could be run.
        MissingExtraError: torch is not installed.
    """
    if find_spec("torch") is None:
        raise MissingExtraError("Running kernels in Triton's interpreter", "torch")
    job = InterpreterJob(tuple(places), workload.name, tuple(config.decisions for config in configs))
    try:
        done = subprocess.run(  # noqa: S603 (this module, in this interpreter of Python)
            [sys.executable, "-m", __name__],
            input=msgspec.json.encode(job),
            capture_output=True,
            timeout=timeout_s,
            env={**os.environ, **_TELLS_TRITON},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CostModelError(
            f"Triton's interpreter must be done with {len(configs)} configs of {workload.name} in "
            f"{timeout_s:g} s, but is not. Take smaller dims."
        ) from None
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise CostModelError(f"Triton's interpreter must run {workload.name}, but: {' '.join(last)}")
    return msgspec.json.decode(done.stdout, type=list[str])


def interpret_here(job: InterpreterJob) -> list[str]:
    """Run the configs of a job in this process, where Triton was told to interpret; why each is wrong."""
    source, workload = TritonSource(job.places), Workload.parse(job.workload)
    family = next(family for family in source.families if family.computes(workload))
    assert isinstance(family, TritonFamily)
    reference = source.reference(workload)
    if reference is None:
        raise CostModelError(f"{family.name} must have a reference to be compared with.")
    return [_wrong(source, family, workload, Config(each), reference) for each in job.configs]


def _wrong(
    source: TritonSource,
    family: TritonFamily,
    workload: Workload,
    config: Config,
    reference: Sequence[NDArray[Any]],
) -> str:
    """Tell why a config is wrong; empty where it is right, twice: work memory must be left as it was.

    What the first run wrote is undone, so that a second run that writes nothing is seen.
    """
    import torch

    arguments = source.arguments(workload)
    tensors = [torch.from_numpy(array.copy()) for array in arguments]
    parameters = list_parameters(family, workload, config, tuple(str(t.numpy().dtype) for t in tensors))
    told = {name: _told(parameter, tensors) for name, parameter in parameters.items()}
    columns = ConfigBatch.from_configs(workload, [config]).decisions
    grid = tuple(family.geometry(workload, columns, 1).grid[0].tolist())
    kernel = find_in(load_module(family.kernel), family.function, family.kernel)
    for run in ("first", "second"):
        for tensor, array in zip(tensors, arguments, strict=True):
            tensor.copy_(torch.from_numpy(array))
        try:
            kernel[grid](**told)
        except Exception as error:  # noqa: BLE001 (of any kind: it is the answer)
            return f"{type(error).__name__}: {error}"
        for position, right in zip(source.outputs(workload), reference, strict=True):
            if not agrees(tensors[position].numpy(), right, source.tolerance(workload)):
                return f"Argument {position} differs from the reference after the {run} run."
    return ""


def _told(parameter: KernelParameter, tensors: Sequence[Any]) -> Any:
    """Tell what the interpreter is called with."""
    import torch

    if isinstance(parameter, Constant | PassedValue):
        return parameter.value
    if isinstance(parameter.to, Position):
        return tensors[parameter.to.position]
    return torch.from_numpy(np.zeros(parameter.to.size_bytes, np.uint8).view(parameter.dtype))


if __name__ == "__main__":
    sys.stdout.buffer.write(
        msgspec.json.encode(interpret_here(msgspec.json.decode(sys.stdin.buffer.read(), type=InterpreterJob)))
    )
