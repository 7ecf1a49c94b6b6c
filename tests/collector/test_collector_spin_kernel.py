# ruff: noqa: N802, PLR0917 (the fake has the names and arguments of the CUDA driver)

import ctypes
from enum import IntEnum
from itertools import cycle
from types import SimpleNamespace

import pytest

from costmodel.collector import GreenContexts
from costmodel.collector.device._spin_kernel import SpinKernel, nvrtc_cubin, verify_grant
from costmodel.errors import CostModelError

pytestmark = pytest.mark.white_box


class Status(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_LAUNCH_FAILED = 719


class FakeDriver:
    """A device in host memory: a launch writes SM ids when its stream is synchronised, not before."""

    CUfunction = int
    CUdevice_attribute = SimpleNamespace(
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR="major",
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR="minor",
    )

    def __init__(self, *launches: set[int], status: Status = Status.CUDA_SUCCESS) -> None:
        self._results = cycle([sorted(ids) for ids in launches])
        self._status = status
        self._pending: list[tuple[int, int, int]] = []
        self.memory: dict[int, ctypes.Array[ctypes.c_uint32]] = {}
        self.libraries: list[bytes] = []
        self.streams: list[int] = []
        self.launched: list[tuple[int, int]] = []

    def cuCtxGetDevice(self):
        return Status.CUDA_SUCCESS, 0

    def cuDeviceGetAttribute(self, attribute, device):
        return Status.CUDA_SUCCESS, {"major": 9, "minor": 0}[attribute]

    def cuLibraryLoadData(self, code, *options):
        self.libraries.append(code)
        return Status.CUDA_SUCCESS, len(self.libraries) - 1

    def cuLibraryUnload(self, library):
        self.libraries.pop(library)
        return (Status.CUDA_SUCCESS,)

    def cuLibraryGetKernel(self, library, name):
        assert name == b"sm_of_block"
        return Status.CUDA_SUCCESS, 7

    def cuMemAlloc(self, size):
        array = (ctypes.c_uint32 * (size // 4))(*[999_999] * (size // 4))
        self.memory[ctypes.addressof(array)] = array
        return Status.CUDA_SUCCESS, ctypes.addressof(array)

    def cuMemFree(self, pointer):
        del self.memory[pointer]
        return (Status.CUDA_SUCCESS,)

    def cuLaunchKernel(self, kernel, x, y, z, bx, by, bz, shared, stream, arguments, extra):
        values, types = arguments
        assert (kernel, y, z, extra) == (7, 1, 1, 0)
        assert types == (ctypes.c_void_p, ctypes.c_longlong)
        assert values[1] > 0
        self._pending.append((stream, values[0], x))
        self.launched.append((stream, x))
        return (self._status,)

    def cuStreamSynchronize(self, stream):
        for launched_on, pointer, blocks in self._pending:
            assert launched_on == stream
            ids = next(self._results)
            self.memory[pointer][:blocks] = [ids[block % len(ids)] for block in range(blocks)]
        self._pending.clear()
        self.streams.append(stream)
        return (Status.CUDA_SUCCESS,)

    def cuMemcpyDtoH(self, host, pointer, size):
        ctypes.memmove(host, pointer, size)
        return (Status.CUDA_SUCCESS,)


def call(result):
    status, *values = result
    if status is not Status.CUDA_SUCCESS:
        raise RuntimeError(status.name)
    return values[0] if values else None


def spin_kernel(driver: FakeDriver) -> SpinKernel:
    return SpinKernel(driver, call, lambda _: b"cubin")


def test_the_ids_of_all_blocks_are_found() -> None:
    driver = FakeDriver({3, 17, 130})
    assert spin_kernel(driver).sm_ids(42) == {3, 17, 130}
    assert set(driver.streams) == {42}


def test_launches_go_on_until_one_finds_nothing_new() -> None:
    driver = FakeDriver({0, 1}, {2, 3}, {0, 5}, {1, 2}, {99})
    assert spin_kernel(driver).sm_ids(1) == {0, 1, 2, 3, 5}


def test_the_kernel_is_compiled_for_the_device() -> None:
    asked = []
    SpinKernel(FakeDriver({0}), call, lambda architecture: asked.append(architecture) or b"cubin")
    assert asked == ["sm_90"]


def test_what_the_driver_refuses_is_raised_and_all_is_freed() -> None:
    driver = FakeDriver({0, 1}, status=Status.CUDA_ERROR_LAUNCH_FAILED)
    kernel = spin_kernel(driver)
    with pytest.raises(RuntimeError, match="LAUNCH_FAILED"):
        kernel.sm_ids(1)
    kernel.close()
    assert driver.memory == {}
    assert driver.libraries == []


def test_a_stream_is_held_by_one_block() -> None:
    driver = FakeDriver({0})
    spin_kernel(driver).hold(5)
    assert driver.launched == [(5, 1)]


def test_a_grant_that_holds_passes() -> None:
    verify_grant(32, 32)


def test_a_grant_that_does_not_hold_is_told() -> None:
    with pytest.raises(CostModelError, match=r"granted 32 and they ran on 8.*unset CUDA_MPS"):
        verify_grant(32, 8)


def test_cuda_bindings_has_what_the_fake_has() -> None:
    driver = pytest.importorskip("cuda.bindings.driver")
    for name in vars(FakeDriver):
        if not name.startswith("_"):
            assert hasattr(driver, name), name


def test_nvrtc_compiles_the_kernel() -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    try:
        cubin = nvrtc_cubin("sm_90")
    except RuntimeError as error:
        pytest.skip(f"needs NVRTC: {error}")
    assert cubin.startswith(b"\x7fELF")
    assert b"sm_of_block" in cubin


@pytest.mark.gpu
def test_green_contexts_grant_what_they_say() -> None:
    pytest.importorskip("cuda.bindings.driver")
    try:
        contexts = GreenContexts()
    except RuntimeError as error:
        pytest.skip(f"needs an NVIDIA GPU: {error}")
    kernel = SpinKernel(contexts.driver, contexts.call)
    for sms in (8, 32, contexts.total_sms):
        (stream,), granted = contexts.streams(sms)
        verify_grant(granted, len(kernel.sm_ids(stream)))
    one, other = (kernel.sm_ids(stream) for stream in contexts.streams(8, 2)[0])
    assert not one & other
