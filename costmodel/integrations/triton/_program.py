"""A user's program that launches Triton kernels, run without a GPU as far as it gets: what it launches first.

Its tensors have shapes and no data (torch's device ``meta``, which calls itself a GPU here), and launches are
noted and not made. A program that goes on by what a kernel computed ends there; its launches before count.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import triton
from torch.overrides import TorchFunctionMode
from triton.runtime.driver import driver

from costmodel.errors import CostModelError
from costmodel.integrations.triton._running import (
    ProgramLaunch,
    StoppedError,
    TimeLimit,
    nothing_launched,
    replaced,
    run_answered,
)
from costmodel.kernels.triton._lower import target_of
from costmodel.records._platform import Device, check_compute_capability

_GPU = torch.device("cuda", 0)
# What makes a number of a tensor, and the number that it is taken to be, as loaded bounds of loops are.
_NUMBERS = {getattr(torch.Tensor, name) for name in ("item", "__bool__", "__int__", "__float__", "__index__")}
_NUMBER = 64
_MOST_REPEATED = 10_000  # launches without a new kernel, after which a program would go on for ever
_MOST_SHARED = 232_448  # bytes of a block, where a program asks for them


@dataclass(frozen=True)
class _Compiled:
    """Stands for a compiled kernel, which a program may ask for registers and shared memory, and launch.

    Attributes:
        launch: What it was compiled for.
        note: Is told its launches.
    """

    launch: ProgramLaunch
    note: Callable[[ProgramLaunch], None]
    n_regs: int = 32
    n_spills: int = 0
    metadata: Any = field(default_factory=lambda: SimpleNamespace(shared=4096))

    def _init_handles(self) -> None: ...

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        def run(*args: Any) -> None:
            given = dict(zip(self.launch.function.arg_names, args, strict=False))
            arguments = {**self.launch.arguments, **given}
            self.note(replace(self.launch, arguments=arguments, grid=grid, is_warmup=False))

        return run


@dataclass(frozen=True)
class Launched:
    """What a program launched.

    Attributes:
        launches: The first launch of each kernel.
        ended_by: What ended the program before its end; empty where nothing did.
    """

    launches: Sequence[ProgramLaunch]
    ended_by: str


def first_launches(file: Path, device: Device, limit: TimeLimit | None = None) -> Launched:
    """Run a program without a GPU, and tell what it launches first of each kernel.

    Args:
        file: The program; it is run as ``python file`` would.
        device: What it is told that it runs on.
        limit: Ends it.

    Raises:
        CostModelError: It launches nothing, or Triton interprets.
    """
    if triton.knobs.runtime.interpret:
        raise CostModelError(
            "TRITON_INTERPRET must not be set where kernels are read, but is. Unset it: no GPU is needed."
        )
    found: dict[Any, ProgramLaunch] = {}
    repeated = 0

    def note(launch: ProgramLaunch) -> None:
        nonlocal repeated
        if launch.function in found:
            found[launch.function].times += 1
            repeated += 1
            if repeated > _MOST_REPEATED:
                raise StoppedError(f"it launched {_MOST_REPEATED:,} times without a kernel that is new")
        else:
            repeated = 0
            found[launch.function] = replace(launch, grid=_asked_there(launch.grid, device))

    def answer(launch: ProgramLaunch, _: Callable[[], Any]) -> Any:
        return _Compiled(launch, note) if launch.is_warmup else note(launch)

    with _without_gpu(device), redirect_stdout(StringIO()):
        ended_by = run_answered(file, answer, limit)
    if not found:
        raise nothing_launched(file, ended_by)
    return Launched(list(found.values()), ended_by)


def _asked_there(grid: Any, device: Device) -> Any:
    """Let a grid that is a function find the GPU that the program found."""
    if not callable(grid):
        return grid

    def asked(told: Mapping[str, Any]) -> Any:
        with _without_gpu(device):
            return grid(told)

    return asked


class _MetaTensors(TorchFunctionMode):  # type: ignore[misc]
    """Puts tensors of a GPU onto the device ``meta``, where they call themselves those of a GPU.

    What a program asks of their data is guessed.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _NUMBERS and args[0].is_meta:
            return func(torch.full((), True if args[0].dtype == torch.bool else _NUMBER, dtype=args[0].dtype))
        if func == torch.Tensor.is_cuda.__get__:
            return True
        if func == torch.Tensor.device.__get__:
            return _GPU
        if func == torch.Tensor.cuda:
            return args[0].to("meta")
        moved = {name: _moved(value) for name, value in (kwargs or {}).items()}
        return func(*map(_moved, args), **moved)


def _moved(value: Any) -> Any:
    is_gpu = str(value).startswith("cuda") if isinstance(value, str | torch.device) else False
    return torch.device("meta") if is_gpu else value


@contextmanager
def _without_gpu(device: Device) -> Iterator[None]:
    """Let a program believe that it has a GPU, as long as it computes nothing there."""
    capability = check_compute_capability(device.architecture)
    properties = SimpleNamespace(
        name=device.name,
        major=capability // 10,
        minor=capability % 10,
        multi_processor_count=device.sms,
        warp_size=32,
        max_threads_per_multi_processor=device.max_threads_per_sm,
        shared_memory_per_block_optin=_MOST_SHARED,
        regs_per_multiprocessor=device.registers_per_sm,
        L2_cache_size=device.l2_bytes,
    )
    of_torch: dict[str, Any] = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "synchronize": lambda *_: None,
        "empty_cache": lambda: None,
        "set_device": lambda *_: None,
        "device": lambda *_: nullcontext(),
        "get_device_name": lambda *_: device.name,
        "get_device_capability": lambda *_: (properties.major, properties.minor),
        "get_device_properties": lambda *_: properties,
    }
    of_driver = {
        "multiprocessor_count": device.sms,
        "max_shared_mem": _MOST_SHARED,
        "max_num_regs": device.registers_per_sm,
        "warpSize": 32,
    }
    stand_in: Any = SimpleNamespace(
        get_current_target=lambda: target_of(device.architecture),
        get_active_torch_device=lambda: _GPU,
        get_current_device=lambda: 0,
        get_current_stream=lambda *_: 0,
        get_device_interface=lambda: torch.cuda,
        utils=SimpleNamespace(get_device_properties=lambda *_: of_driver),
    )

    def bench(call: Callable[[], object], *_: Any, quantiles: Any = None, **__: Any) -> Any:
        call()
        return [float("nan")] * len(quantiles) if quantiles else float("nan")

    before = getattr(driver, "_active", None)
    with ExitStack() as stack:
        stack.enter_context(replaced(torch.cuda, **of_torch))
        stack.enter_context(replaced(triton.testing, do_bench=bench, do_bench_cudagraph=bench))
        stack.enter_context(_MetaTensors())
        driver.set_active(stand_in)
        try:
            yield
        finally:
            driver.set_active(before)  # none: found again when it is asked for
