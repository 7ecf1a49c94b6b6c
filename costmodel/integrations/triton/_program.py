"""A user's program that launches Triton kernels, run without a GPU as far as it gets: what it launches first.

Its tensors have shapes and no data (torch's device ``meta``, which calls itself a GPU here), and launches are
noted and not made. A program that goes on by what a kernel computed ends there; its launches before count.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from functools import partial
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import triton
from torch.overrides import TorchFunctionMode
from triton.runtime import autotuner
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction

from costmodel.errors import CostModelError
from costmodel.integrations.triton._autotuner import Autotuner
from costmodel.kernels.family._source import run_file
from costmodel.kernels.triton._lower import target_of
from costmodel.records._platform import Device

_GPU = torch.device("cuda", 0)
_MAIN = "__main__"
_OPTIONS = ("grid", "warmup")
_MOST_REPEATED = 10_000  # launches without a new kernel, after which a program would go on for ever
_MOST_SHARED = 232_448  # bytes of a block, where a program asks for them


@dataclass
class ProgramLaunch:
    """The first launch of a kernel by a program.

    Attributes:
        function: The ``@triton.jit`` function.
        arguments: What it was called with, by name; options of the compiler too.
        grid: Grid of the launch, or a function of all arguments.
        tuner: What ``@triton.autotune`` made of it; None without it.
        configs: Its configs; none without it.
        times: How often the program launched the kernel.
        is_warmup: Whether the kernel is only to be compiled.
    """

    function: JITFunction[Any]
    arguments: Mapping[str, Any]
    grid: Any
    tuner: Any = None
    configs: Sequence[Any] = ()
    times: int = 1
    is_warmup: bool = False

    @property
    def name(self) -> str:
        """Name of the kernel."""
        return str(self.function.__name__)

    @property
    def rules(self) -> dict[str, Callable[[dict[str, Any]], Any]]:
        """Functions of all arguments that tell further ones, as ``triton.heuristics`` has them."""
        found, inner = dict[str, Any](), self.function if self.tuner is None else self.tuner.fn
        while inner is not self.function:
            found |= inner.values
            inner = inner.fn
        return found


# Answers a launch, given what makes it.
Answer = Callable[[ProgramLaunch, Callable[[], Any]], Any]


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


def first_launches(file: Path, device: Device) -> list[ProgramLaunch]:
    """Run a program without a GPU, and tell what it launches first of each kernel.

    Args:
        file: The program; it is run as ``python file`` would.
        device: What it is told that it runs on.

    Raises:
        CostModelError: It launches nothing, or Triton interprets.
    """
    if triton.knobs.runtime.interpret:
        raise CostModelError("TRITON_INTERPRET must not be set where kernels are read, but is.")
    found: dict[Any, ProgramLaunch] = {}
    repeated = 0

    def note(launch: ProgramLaunch) -> None:
        nonlocal repeated
        if launch.function in found:
            found[launch.function].times += 1
            repeated += 1
            if repeated > _MOST_REPEATED:
                raise SystemExit  # a program that catches exceptions lets it pass
        else:
            repeated = 0
            found[launch.function] = replace(launch, grid=_asked_there(launch.grid, device))

    def answer(launch: ProgramLaunch, _: Callable[[], Any]) -> Any:
        return _Compiled(launch, note) if launch.is_warmup else note(launch)

    failure: CostModelError | None = None
    with _without_gpu(device), redirect_stdout(StringIO()):
        try:
            run_answered(file, answer)
        except CostModelError as error:
            failure = error
    if not found:
        said = f" It ended with: {failure}" if failure else ""
        raise CostModelError(
            f"{file} must launch a Triton kernel when it is run, but launches none.{said} Add a call with "
            'arguments of the usual sizes, such as under `if __name__ == "__main__":`.'
        )
    return list(found.values())


def run_answered(file: Path, answer: Answer) -> None:
    """Run a file as ``python file`` would, but with launches of Triton kernels answered.

    Args:
        file: The program.
        answer: Answers each. Launches that it makes itself are made.

    Raises:
        CostModelError: The program fails.
    """
    before = sys.modules[_MAIN]
    with _answered(answer), _replaced(sys, argv=[str(file)], path=[str(file.resolve().parent), *sys.path]):
        try:
            run_file(file, _MAIN)
        finally:
            sys.modules[_MAIN] = before


@contextmanager
def _answered(answer: Answer) -> Iterator[None]:
    """Let launches be answered, but for those that an answer makes."""
    plain, is_answering = JITFunction.run, False

    def answered(launch: ProgramLaunch, make: Callable[[], Any]) -> Any:
        nonlocal is_answering
        if is_answering:
            return make()
        is_answering = True
        try:
            return answer(launch, make)
        finally:
            is_answering = False

    def run_kernel(self: Any, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        make = partial(plain, self, *args, grid=grid, warmup=warmup, **kwargs)
        arguments = {**dict(zip(self.arg_names, args, strict=False)), **kwargs}
        return answered(ProgramLaunch(self, arguments, grid, is_warmup=warmup), make)

    def of_tuner(kind: Any) -> Callable[..., Any]:
        tuned = kind.run

        def run_tuned(self: Any, *args: Any, **kwargs: Any) -> Any:
            given = {**dict(zip(self.arg_names, args, strict=False)), **kwargs}
            arguments = {name: value for name, value in given.items() if name not in _OPTIONS}
            self.nargs = {name: value for name, value in arguments.items() if name not in kwargs}
            configs = self.prune_configs(kwargs) if self.configs else ()
            launch = ProgramLaunch(_innermost(self), arguments, kwargs["grid"], self, configs)
            return answered(launch, partial(tuned, self, *args, **kwargs))

        return run_tuned

    with ExitStack() as stack:
        stack.enter_context(_replaced(JITFunction, run=run_kernel))
        for each in (autotuner.Autotuner, Autotuner):
            stack.enter_context(_replaced(each, run=of_tuner(each)))
        yield


def _innermost(tuner: Any) -> Any:
    """The ``@triton.jit`` function under decorators of Triton."""
    function = tuner.fn
    while hasattr(function.fn, "arg_names"):
        function = function.fn
    return function


def _asked_there(grid: Any, device: Device) -> Any:
    """Let a grid that is a function find the GPU that the program found."""
    if not callable(grid):
        return grid

    def asked(told: Mapping[str, Any]) -> Any:
        with _without_gpu(device):
            return grid(told)

    return asked


@contextmanager
def _replaced(owner: Any, **values: Any) -> Iterator[None]:
    """Give something other attributes for a while."""
    before = {name: vars(owner)[name] for name in values if name in vars(owner)}
    for name, value in values.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name in values:
            setattr(owner, name, before[name]) if name in before else delattr(owner, name)


class _MetaTensors(TorchFunctionMode):  # type: ignore[misc]
    """Puts tensors of a GPU onto the device ``meta``, where they call themselves those of a GPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
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
    number = int(device.architecture.removeprefix("sm_"))
    properties = SimpleNamespace(
        name=device.name,
        major=number // 10,
        minor=number % 10,
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
        stack.enter_context(_replaced(torch.cuda, **of_torch))
        stack.enter_context(_replaced(triton.testing, do_bench=bench, do_bench_cudagraph=bench))
        stack.enter_context(_MetaTensors())
        driver.set_active(stand_in)
        try:
            yield
        finally:
            driver.set_active(before)  # none: found again when it is asked for
