"""Launching machine code: what the driver is told. The driver is a fake, as it needs a GPU."""

# ruff: noqa: N802, N815 (names of the driver)

import ctypes
import gc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

pytest.importorskip("tvm")  # the runtimes' package holds TVM's too


from costmodel.collector.device._cubin_runtime import CubinRuntime
from costmodel.kernels._artifact import LaunchNote, PassedValue, Position, Scratch

pytestmark = pytest.mark.white_box


class FakeDriver:
    """Device memory is host memory; launches and copies are written down."""

    CUfunction = staticmethod(lambda handle: handle)
    CUfunction_attribute = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES="most shared")

    def __init__(self) -> None:
        self.memory: dict[int, Any] = {}
        self.launches: list[tuple[Any, ...]] = []
        self.attributes: list[tuple[Any, ...]] = []
        self.constant = np.zeros(4, np.float32)
        self.constant_copies = 0
        self.unloaded: list[str] = []

    def cuMemAlloc(self, size: int) -> int:
        buffer = ctypes.create_string_buffer(size)
        self.memory[ctypes.addressof(buffer)] = buffer
        return ctypes.addressof(buffer)

    def cuMemFree(self, address: int) -> None:
        del self.memory[address]

    def cuMemcpyHtoD(self, target: int, source: int, size: int) -> None:
        ctypes.memmove(target, source, size)

    cuMemcpyDtoH = cuMemcpyHtoD

    def cuMemsetD8(self, target: int, value: int, size: int) -> None:
        ctypes.memset(target, value, size)

    def cuMemcpyDtoD(self, target: int, source: int, size: int) -> None:
        self.constant_copies += 1
        ctypes.memmove(target, source, size)

    def cuLibraryLoadData(self, code: bytes, *_: Any) -> str:
        return code.decode()

    def cuLibraryGetKernel(self, library: str, name: bytes) -> int:
        assert (library, name) == ("machine code", b"twice")
        return 77

    def cuLibraryGetGlobal(self, library: str, symbol: bytes) -> tuple[int, int]:
        assert symbol == b"weights"
        return self.constant.ctypes.data, self.constant.nbytes

    def cuLibraryUnload(self, library: str) -> None:
        self.unloaded.append(library)

    def cuCtxGetDevice(self) -> int:
        return 0

    def cuKernelSetAttribute(self, *arguments: Any) -> None:
        self.attributes.append(arguments)

    def cuLaunchKernel(self, *arguments: Any) -> None:
        self.launches.append(arguments)


@pytest.fixture
def driver() -> FakeDriver:
    return FakeDriver()


@pytest.fixture
def runtime(driver: FakeDriver) -> CubinRuntime:
    opened = CubinRuntime(driver, lambda result: result)
    opened.use_stream(5)
    return opened


def artifact(folder: Path, **settings: Any) -> Path:
    path = folder / "0123456789abcdef.cubin"
    path.write_bytes(b"machine code")
    note = LaunchNote("twice", (6, 2, 1), (32, 4, 1), **settings)
    path.with_suffix(".launch.json").write_bytes(msgspec.json.encode(note))
    return path


def test_a_kernel_is_launched_as_its_note_says_on_the_stream_of_the_thread(
    runtime: CubinRuntime, driver: FakeDriver, tmp_path: Path
) -> None:
    arguments = runtime.copies([np.arange(4, dtype=np.float32), np.array(3, np.int32)])
    runtime.load(artifact(tmp_path, shared_bytes=1024))(*arguments)
    runtime.use_stream(9)
    runtime.load(artifact(tmp_path, shared_bytes=1024))(*arguments)
    parameters = ((arguments[0].address, 3), (ctypes.c_void_p, ctypes.c_int32))
    assert driver.launches == [(77, 6, 2, 1, 32, 4, 1, 1024, stream, parameters, 0) for stream in (5, 9)]
    assert driver.attributes == []


def test_a_note_says_in_which_order_a_kernel_takes_arguments_values_and_work_memory(
    runtime: CubinRuntime, driver: FakeDriver, tmp_path: Path
) -> None:
    told = (
        Position(1),
        PassedValue("int32", 7),
        Scratch(16),
        Position(0),
        Scratch(0),
        PassedValue("float32", 0.5),
    )
    first, second = runtime.copies([np.arange(4, dtype=np.float32), np.arange(2, dtype=np.int8)])
    kernel = runtime.load(artifact(tmp_path, parameters=told))
    kernel(first, second)
    kernel(first, second)
    values, types = driver.launches[0][9]
    (scratch,) = set(driver.memory) - {first.address, second.address}
    assert values == (second.address, 7, scratch, first.address, 0, 0.5)
    pointer = ctypes.c_void_p
    assert types == (pointer, ctypes.c_int32, pointer, pointer, ctypes.c_uint64, ctypes.c_float)
    assert ctypes.string_at(scratch, 16) == bytes(16)
    assert driver.launches[1] == driver.launches[0]
    del kernel
    gc.collect()
    assert scratch not in driver.memory


def test_much_shared_memory_is_asked_for(runtime: CubinRuntime, driver: FakeDriver, tmp_path: Path) -> None:
    runtime.load(artifact(tmp_path, shared_bytes=100_000))
    assert driver.attributes == [("most shared", 100_000, 77, 0)]


def test_arrays_come_back_as_they_were_written(runtime: CubinRuntime) -> None:
    values = np.arange(6, dtype=np.float16).reshape(2, 3)
    (array,) = runtime.copies([values])
    np.testing.assert_array_equal(runtime.read(array), values)
    runtime.write(array, values.T.copy().reshape(2, 3))
    np.testing.assert_array_equal(runtime.read(array), values.T.reshape(2, 3))


def test_constant_memory_is_filled_once_for_the_same_arguments(
    runtime: CubinRuntime, driver: FakeDriver, tmp_path: Path
) -> None:
    kernel = runtime.load(artifact(tmp_path, constants={"weights": 1}))
    first = runtime.copies([np.zeros(4, np.float32), np.arange(4, dtype=np.float32)])
    kernel(*first)
    kernel(*first)
    np.testing.assert_array_equal(driver.constant, [0, 1, 2, 3])
    assert driver.constant_copies == 1
    kernel(*runtime.copies([np.zeros(4, np.float32), np.full(4, 7, np.float32)]))
    np.testing.assert_array_equal(driver.constant, [7, 7, 7, 7])


def test_what_nobody_holds_is_freed(runtime: CubinRuntime, driver: FakeDriver, tmp_path: Path) -> None:
    arrays = runtime.copies([np.zeros(4, np.float32), np.ones(8, np.float32)])
    kernel = runtime.load(artifact(tmp_path))
    assert (len(driver.memory), driver.unloaded) == (2, [])
    del arrays, kernel
    gc.collect()
    assert (len(driver.memory), driver.unloaded) == (0, ["machine code"])
