"""Partitions, on a driver that splits a GPU of 132 SMs in steps of 8, or of 2 from anywhere on the chip."""

import sys
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from costmodel.collector import GreenContexts

SMS, STEP = 132, 8
ANYWHERE, UNIT = 1, 2
MOST = 15  # parts of 8 SMs, as an H200 had them
SUCCESS, REFUSED = SimpleNamespace(name="CUDA_SUCCESS"), SimpleNamespace(name="CUDA_ERROR_INVALID_RESOURCE")


def resource(ids: Sequence[int]) -> Any:
    return SimpleNamespace(ids=set(ids), sm=SimpleNamespace(smCount=len(ids)))


class FakeDriver:
    """Each stream knows the SMs of its context."""

    CUresult = SimpleNamespace(CUDA_SUCCESS=SUCCESS)
    CUdevResourceType = SimpleNamespace(CU_DEV_RESOURCE_TYPE_SM="sm")
    CUdevSmResourceSplitByCount_flags = SimpleNamespace(
        CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING=ANYWHERE
    )
    CUstream_flags = SimpleNamespace(CU_STREAM_NON_BLOCKING=1)
    CUgreenCtxCreate_flags = SimpleNamespace(CU_GREEN_CTX_DEFAULT_STREAM=1)

    def __init__(self) -> None:
        self.splits: list[tuple[int, int]] = []
        self.streams: dict[int, set[int]] = {}
        self.current: Any = None

    def cuInit(self, flags: int) -> Any:  # noqa: N802 (the driver's names, here and below)
        return (SUCCESS,)

    def cuDeviceGet(self, position: int) -> Any:  # noqa: N802
        return SUCCESS, f"device{position}"

    def cuDevicePrimaryCtxRetain(self, device: str) -> Any:  # noqa: N802
        return SUCCESS, "primary"

    def cuCtxSetCurrent(self, context: str) -> Any:  # noqa: N802
        self.current = context
        return (SUCCESS,)

    def cuDeviceGetDevResource(self, device: str, kind: str) -> Any:  # noqa: N802
        assert kind == "sm"
        return SUCCESS, resource(range(SMS))

    def cuDevSmResourceSplitByCount(self, count: int, whole: Any, flags: int, least: int) -> Any:  # noqa: N802
        self.splits.append((count, least))
        step = UNIT if flags == ANYWHERE else STEP
        size = max(step, -(-least // step) * step)
        if size > SMS:
            return (REFUSED, None, None, None)
        made = min(count, MOST if size == STEP else whole.sm.smCount // size)
        ids = sorted(whole.ids)
        groups = [resource(ids[i * size : (i + 1) * size]) for i in range(made)]
        return SUCCESS, groups, made, resource(ids[made * size :])

    def cuDevResourceGenerateDesc(self, resources: list[Any], count: int) -> Any:  # noqa: N802
        assert len(resources) == count
        return SUCCESS, SimpleNamespace(ids=set().union(*(part.ids for part in resources)))

    def cuGreenCtxCreate(self, description: Any, device: str, flags: int) -> Any:  # noqa: N802
        return SUCCESS, description

    def cuGreenCtxStreamCreate(self, context: Any, flags: int, priority: int) -> Any:  # noqa: N802
        return SUCCESS, self._stream(context.ids)

    def cuStreamCreate(self, flags: int) -> Any:  # noqa: N802
        return SUCCESS, self._stream(set(range(SMS)))

    def _stream(self, ids: set[int]) -> int:
        handle = 1000 + len(self.streams)
        self.streams[handle] = ids
        return handle


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    fake = FakeDriver()
    monkeypatch.setitem(sys.modules, "cuda", SimpleNamespace(bindings=SimpleNamespace(driver=fake)))
    monkeypatch.setitem(sys.modules, "cuda.bindings", SimpleNamespace(driver=fake))
    return fake


def test_the_whole_device_is_a_stream_of_its_own(driver: FakeDriver) -> None:
    contexts = GreenContexts()
    assert contexts.total_sms == SMS
    (stream,), granted = contexts.streams(SMS)
    assert (len(driver.streams[stream]), granted) == (SMS, SMS)
    assert stream != 0  # the default stream cannot be captured
    assert driver.splits == []
    assert driver.current == "primary"


@pytest.mark.parametrize(("sms", "granted"), [(1, 8), (8, 8), (9, 16), (48, 48), (125, 128)])
def test_a_budget_is_granted_rounded_up(driver: FakeDriver, sms: int, granted: int) -> None:
    (stream,), told = GreenContexts().streams(sms)
    assert len(driver.streams[stream]) == told == granted
    assert driver.splits == [(1, sms)]


@pytest.mark.parametrize(("sms", "partitions"), [(8, 15), (32, 4), (30, 4), (64, 2), (40, 3)])
def test_partitions_are_disjoint_and_of_one_split(driver: FakeDriver, sms: int, partitions: int) -> None:
    streams, granted = GreenContexts().streams(sms, partitions)
    groups = [driver.streams[stream] for stream in streams]
    assert len(groups) == partitions
    assert all(len(group) == granted >= sms for group in groups)
    assert len(set().union(*groups)) == partitions * granted
    assert driver.splits == [(partitions, sms)]


def test_partitions_are_made_once(driver: FakeDriver) -> None:
    contexts = GreenContexts()
    two = contexts.streams(32, 2)
    one = contexts.streams(32)
    assert contexts.streams(32, 2) == two
    assert contexts.streams(32) == one
    assert not set(one[0]) & set(two[0])
    assert driver.splits == [(2, 32), (1, 32)]


@pytest.mark.parametrize(("sms", "left"), [(16, 116), (9, 116), (128, 4)])
def test_the_rest_is_what_a_first_partition_leaves(driver: FakeDriver, sms: int, left: int) -> None:
    contexts = GreenContexts()
    stream, granted = contexts.rest(sms)
    (part,), _ = contexts.streams(sms)
    assert len(driver.streams[stream]) == granted == left
    assert driver.streams[stream] | driver.streams[part] == set(range(SMS))
    assert not driver.streams[stream] & driver.streams[part]


@pytest.mark.parametrize("sizes", [(64, 64), (32, 96), (96, 32), (16, 112), (9, 20, 41)])
def test_partitions_of_any_sizes_are_disjoint(driver: FakeDriver, sizes: tuple[int, ...]) -> None:
    found = GreenContexts().disjoint(sizes)
    groups = [driver.streams[stream] for stream, _ in found]
    assert [len(group) for group in groups] == [granted for _, granted in found]
    assert all(sms <= granted < sms + UNIT for sms, (_, granted) in zip(sizes, found, strict=True))
    assert len(set().union(*groups)) == sum(granted for _, granted in found)


def test_sizes_that_do_not_fit_together_are_refused(driver: FakeDriver) -> None:
    with pytest.raises(RuntimeError, match=r"whole units of 2 SMs, up to 132, but got 96 to 160"):
        GreenContexts().disjoint((96, 64))


def test_more_partitions_than_fit_are_refused(driver: FakeDriver) -> None:
    with pytest.raises(RuntimeError, match="the driver made 4 of 5 partitions of 32 SMs"):
        GreenContexts().streams(32, 5)


def test_lanes_of_any_size_are_the_sms_that_they_are_called_by(driver: FakeDriver) -> None:
    contexts = GreenContexts()
    lanes = [range(0, 32), range(32, 48), range(48, 128), range(64, 96)]
    for lane in lanes:
        assert driver.streams[contexts.lane(lane)] == set(lane)
    assert driver.splits == [(1, 1), (66, 2)]  # all of them of one split
    assert contexts.lane(range(0, 32)) == contexts.lane(range(0, 32))


@pytest.mark.parametrize("lane", [range(0, 11), range(3, 12), range(96, 136)])
def test_a_lane_that_the_driver_cannot_make_is_refused(driver: FakeDriver, lane: range) -> None:
    with pytest.raises(RuntimeError, match="a lane must be of whole units of 2 SMs, up to 132, but got"):
        GreenContexts().lane(lane)


def test_what_the_driver_refuses_is_named(driver: FakeDriver) -> None:
    with pytest.raises(RuntimeError, match="CUDA_ERROR_INVALID_RESOURCE"):
        GreenContexts().streams(200)
    assert driver.streams == {}


def test_the_driver_has_what_the_fake_has() -> None:
    real = pytest.importorskip("cuda.bindings.driver")
    for name in vars(FakeDriver):
        if not name.startswith("_"):
            assert hasattr(real, name), name
