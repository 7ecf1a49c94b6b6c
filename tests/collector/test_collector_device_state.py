# ruff: noqa: N802 (the fake has the names of NVML)

from types import SimpleNamespace

import pytest

from costmodel.collector.device._cuda_device import THROTTLE_REASONS, StateReader, pci_bus_id
from costmodel.records._measurement import DeviceState

pytestmark = pytest.mark.white_box


class NvmlError(Exception):
    pass


class FakeNvml:
    """Two boards; the second is the one that CUDA sees."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0
    NVMLError = NvmlError

    def __init__(self, reasons: int = 0, refused: frozenset[str] = frozenset()) -> None:
        self._reasons = reasons
        self._refused = refused

    def _answer(self, query: str, handle: int, *values: object) -> object:
        if query in self._refused:
            raise NvmlError(query)
        return values[handle]

    def nvmlDeviceGetHandleByPciBusId(self, bus_id):
        try:
            return ["0000:01:00.0", "0000:0A:00.0"].index(bus_id)
        except ValueError:
            raise NvmlError("not found") from None

    def nvmlDeviceGetClockInfo(self, handle, kind):
        return self._answer("clock", handle, *({1: (345, 1980), 2: (405, 2619)}[kind]))

    def nvmlDeviceGetTemperature(self, handle, sensor):
        assert sensor == self.NVML_TEMPERATURE_GPU
        return self._answer("temperature", handle, 25, 61)

    def nvmlDeviceGetPowerUsage(self, handle):
        return self._answer("power", handle, 70_000, 512_345)

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle):
        return self._answer("reasons", handle, 1, self._reasons)

    def nvmlDeviceGetUUID(self, handle):
        return self._answer("uuid", handle, "GPU-first", "GPU-second")


def reader(nvml: FakeNvml, bus_id: str = "0000:0A:00.0") -> StateReader:
    return StateReader(bus_id, lambda: nvml)


def test_the_state_is_that_of_the_device_that_cuda_sees() -> None:
    assert reader(FakeNvml(reasons=0x84)).read() == DeviceState(
        clock_mhz=1980.0,
        memory_clock_mhz=2619.0,
        temperature_c=61.0,
        power_w=512.345,
        throttle_reasons=("sw_power_cap", "hw_power_brake_slowdown"),
    )


@pytest.mark.parametrize("reasons", [0x0, 0x1, 0x2, 0x100, 0x103])
def test_idleness_and_settings_are_no_throttling(reasons: int) -> None:
    state = reader(FakeNvml(reasons)).read()
    assert state is not None
    assert state.throttle_reasons == ()


@pytest.mark.parametrize(
    ("query", "field", "unknown"),
    [
        ("temperature", "temperature_c", 0.0),
        ("power", "power_w", 0.0),
        ("reasons", "throttle_reasons", ()),
    ],
)
def test_a_refused_query_costs_its_field_only(query: str, field: str, unknown: object) -> None:
    whole, partial = (reader(FakeNvml(0x4, frozenset(refused))).read() for refused in ((), (query,)))
    fields = DeviceState.__struct_fields__
    differing = [name for name in fields if getattr(whole, name) != getattr(partial, name)]
    assert differing == [field]
    assert getattr(partial, field) == unknown


def raise_not_found() -> None:
    raise NvmlError("NVML shared library not found")


@pytest.mark.parametrize(
    "unusable",
    [StateReader("0000:0A:00.0", raise_not_found), reader(FakeNvml(), bus_id="0000:FF:00.0")],
)
def test_without_nvml_nothing_is_known(unusable: StateReader) -> None:
    assert unusable.read() is None
    assert unusable.board_id() == ""


def test_boards_are_told_apart_without_their_uuids() -> None:
    first, second = (reader(FakeNvml(), bus_id).board_id() for bus_id in ("0000:01:00.0", "0000:0A:00.0"))
    assert first != second
    assert len(first) == 8
    assert int(first, 16) >= 0
    assert reader(FakeNvml(), "0000:01:00.0").board_id() == first
    assert reader(FakeNvml(refused=frozenset({"uuid"}))).board_id() == ""


def test_the_bus_id_is_that_of_the_current_context() -> None:
    driver = SimpleNamespace(
        cuCtxGetDevice=lambda: 3,
        cuDeviceGetPCIBusId=lambda length, device: {3: b"0000:0A:00.0\0".ljust(length, b"\0")}[device],
    )
    assert pci_bus_id(driver, lambda value: value) == "0000:0A:00.0"


def test_the_bits_are_those_of_nvml() -> None:
    pynvml = pytest.importorskip("pynvml")
    names = ["SwPowerCap", "HwSlowdown", "SyncBoost"]
    names += ["SwThermalSlowdown", "HwThermalSlowdown", "HwPowerBrakeSlowdown"]
    bits = [getattr(pynvml, f"nvmlClocksEventReason{name}") for name in names]
    assert bits == list(THROTTLE_REASONS)
    assert [name.replace("_", "") for name in THROTTLE_REASONS.values()] == [name.lower() for name in names]


def test_pynvml_has_what_the_fake_has() -> None:
    pynvml = pytest.importorskip("pynvml")
    for name in vars(FakeNvml):
        if not name.startswith("_"):
            assert hasattr(pynvml, name), name
    assert (pynvml.NVML_CLOCK_SM, pynvml.NVML_CLOCK_MEM, pynvml.NVML_TEMPERATURE_GPU) == (1, 2, 0)
