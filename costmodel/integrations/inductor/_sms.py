"""How many SMs the current stream has, and streams that have as many as asked for."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch

from costmodel.errors import CostModelError
from costmodel.records._platform import Device, Platform
from costmodel.threads import cpu_model


def platform_here() -> Platform:
    """Return the device that PyTorch uses, with the SMs of the current stream; a CPU with its threads.

    Takes microseconds once the device is known.
    """
    if torch.cuda.is_available():
        from costmodel.integrations.triton._platform import current_platform  # loads Triton, as Inductor does

        return current_platform()
    return _cpu(torch.get_num_threads())


@contextmanager
def on_part(sms: int) -> Iterator[None]:
    """Let what follows run on a part of the GPU with so many SMs, unless the current stream has as many."""
    if not torch.cuda.is_available() or platform_here().sms_granted == sms:
        yield
        return
    current, stream = torch.cuda.current_stream(), _stream(sms, torch.cuda.current_device())
    stream.wait_stream(current)
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        current.wait_stream(stream)


@cache
def _stream(sms: int, ordinal: int) -> torch.cuda.Stream:
    if sms >= torch.cuda.get_device_properties(ordinal).multi_processor_count:
        return torch.cuda.Stream(ordinal)
    context = _green_context(sms, ordinal)
    return context.Stream()


@cache
def _green_context(sms: int, ordinal: int) -> Any:
    """A green context that is kept: its streams die with it, and then any call of CUDA fails."""
    from torch.cuda.green_contexts import GreenContext

    try:
        if hasattr(GreenContext, "create"):
            return GreenContext.create(num_sms=sms, device_id=ordinal)
        return GreenContext(num_sms=sms, device_id=ordinal)
    except RuntimeError as error:
        raise CostModelError(
            f"A part of {sms} SMs must be made to compile for it, but PyTorch says: {error}. Call the "
            "compiled model first on a stream that has these SMs."
        ) from error


@cache
def _cpu(threads: int) -> Platform:
    device = Device(cpu_model() or "cpu", "cpu", "cpu", threads, 0.0)
    return Platform(device, "threads", threads, threads)
