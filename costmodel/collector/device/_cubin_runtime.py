"""Kernels in CUDA machine code, through the driver alone.

A kernel is a ``CUkernel``, which belongs to no context: a launch takes the context of its stream, so that one
handle serves the whole device and every green context (CUDA driver API, ``cuLaunchKernel``).
"""

import ctypes
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from costmodel.collector.device._runtimes import Runtime
from costmodel.kernels._artifact import LaunchNote, PassedValue, Position, Scratch

_FREE_SHARED_BYTES = 48 << 10  # what a block may have without asking for more


@dataclass(frozen=True)
class DeviceArray:
    """An array in device memory.

    Attributes:
        address: Where it is.
        like: Its values when it was made; shape and dtype stay.
    """

    address: int
    like: NDArray[Any]


class CubinRuntime(Runtime):
    """The CUDA driver: machine code with a ``LaunchNote`` beside it.

    Args:
        driver: ``cuda.bindings.driver``, initialised, with a context current.
        call: Gives the value of a driver call, or raises.
    """

    def __init__(self, driver: Any, call: Callable[[Any], Any]) -> None:
        self._driver, self._call = driver, call
        self._local = threading.local()

    @property
    def software(self) -> Mapping[str, str]:
        """Nothing but the driver, which a device's description has."""
        return {}

    def load(self, artifact: Path) -> "CubinKernel":
        """The kernel of machine code; its launch is in ``<name>.launch.json``."""
        launch = msgspec.json.decode(artifact.with_suffix(".launch.json").read_bytes(), type=LaunchNote)
        return CubinKernel(self._driver, self._call, artifact.read_bytes(), launch, self._stream)

    def copies(self, arrays: Sequence[NDArray[Any]]) -> list[Any]:
        """Arrays in device memory; what has no axes stays a value."""
        return [self._copy(array) if array.ndim else array for array in arrays]

    def _copy(self, array: NDArray[Any]) -> DeviceArray:
        address = int(self._call(self._driver.cuMemAlloc(max(1, array.nbytes))))
        copy = DeviceArray(address, array)
        _when_gone(copy, self._driver.cuMemFree, address)
        self.write(copy, array)
        return copy

    def write(self, array: DeviceArray, values: NDArray[Any]) -> None:
        """Copy values into device memory."""
        values = np.ascontiguousarray(values)
        self._call(self._driver.cuMemcpyHtoD(array.address, values.ctypes.data, values.nbytes))

    def read(self, array: DeviceArray) -> NDArray[Any]:
        """A copy of an array."""
        copy = np.empty_like(array.like)
        self._call(self._driver.cuMemcpyDtoH(copy.ctypes.data, array.address, copy.nbytes))
        return copy

    def use_stream(self, stream: int) -> None:
        """Launch what follows in this thread on a stream, given by its handle."""
        self._local.stream = stream

    def _stream(self) -> int:
        stream: int = self._local.stream
        return stream


class CubinKernel:
    """A kernel that is launched as it was built to be.

    Args:
        driver: ``cuda.bindings.driver``.
        call: Gives the value of a driver call, or raises.
        code: Machine code.
        launch: How to launch it.
        stream: Gives the stream of the calling thread.
    """

    def __init__(
        self,
        driver: Any,
        call: Callable[[Any], Any],
        code: bytes,
        launch: LaunchNote,
        stream: Callable[[], int],
    ) -> None:
        self._driver, self._call, self._launch, self._stream = driver, call, launch, stream
        self._library = call(driver.cuLibraryLoadData(code, [], [], 0, [], [], 0))
        _when_gone(self, driver.cuLibraryUnload, self._library)
        kernel = call(driver.cuLibraryGetKernel(self._library, launch.kernel.encode()))
        if launch.shared_bytes > _FREE_SHARED_BYTES:
            most = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            device = call(driver.cuCtxGetDevice())
            call(driver.cuKernelSetAttribute(most, launch.shared_bytes, kernel, device))
        self._kernel = driver.CUfunction(int(kernel))
        self._filled_from: tuple[int, ...] = ()
        self._order = [self._prepared(parameter) for parameter in launch.parameters or ()]

    def __call__(self, *arguments: Any) -> None:
        """Launch it on the stream of this thread."""
        if self._launch.constants:
            self._fill_constants(arguments)
        values, types = zip(*map(_parameter, self._parameters(arguments)), strict=True)
        grid, block, shared = self._launch.grid, self._launch.block, self._launch.shared_bytes
        launch = self._driver.cuLaunchKernel
        self._call(launch(self._kernel, *grid, *block, shared, self._stream(), (values, types), 0))

    def _parameters(self, arguments: tuple[Any, ...]) -> Sequence[Any]:
        """What the kernel takes, in its order."""
        if self._launch.parameters is None:
            return arguments
        return [arguments[each.position] if isinstance(each, Position) else each for each in self._order]

    def _prepared(self, parameter: Position | PassedValue | Scratch) -> Any:
        """What is the same at every launch: values, and work memory, zeroed here; a position as it is."""
        if isinstance(parameter, Position):
            return parameter
        if isinstance(parameter, PassedValue):
            return np.array(parameter.value, parameter.dtype)
        if not parameter.size_bytes:
            return np.array(0, np.uint64)
        address = int(self._call(self._driver.cuMemAlloc(parameter.size_bytes)))
        scratch = DeviceArray(address, np.zeros(0, np.uint8))
        _when_gone(scratch, self._driver.cuMemFree, address)
        self._call(self._driver.cuMemsetD8(address, 0, parameter.size_bytes))
        return scratch

    def _fill_constants(self, arguments: tuple[Any, ...]) -> None:
        """Copy to constant memory what stands there, unless it is there from the last launch."""
        addresses = tuple(arguments[position].address for position in self._launch.constants.values())
        if addresses == self._filled_from:
            return
        for symbol, address in zip(self._launch.constants, addresses, strict=True):
            place, size = self._call(self._driver.cuLibraryGetGlobal(self._library, symbol.encode()))
            self._call(self._driver.cuMemcpyDtoD(place, address, size))
        self._filled_from = addresses


def _when_gone(owner: object, free: Callable[[Any], Any], what: Any) -> None:
    """Free something on the device with its owner; what is left at the end goes with the process."""
    weakref.finalize(owner, free, what).atexit = False


def _parameter(argument: Any) -> tuple[Any, Any]:
    """Value and C type of a kernel's parameter, as the bindings take them."""
    if isinstance(argument, DeviceArray):
        return argument.address, ctypes.c_void_p
    return argument.item(), np.ctypeslib.as_ctypes_type(argument.dtype)
