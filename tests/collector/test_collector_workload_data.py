from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costmodel.collector._build import write_reference
from costmodel.collector.device._runtimes import Runtime, TorchRuntime, TvmRuntime
from costmodel.collector.device._workload_data import KeptData, WorkloadData, Written
from costmodel.kernels.metaschedule._source import MetaSchedule
from costmodel.records import Workload

pytestmark = pytest.mark.white_box

WORKLOADS = [Workload.parse(f"softmax-m16-n{n}") for n in (16, 32, 48)]


class HostRuntime(Runtime):
    """Arrays in host memory."""

    software: Mapping[str, str] = {}

    def load(self, artifact: Path) -> Any:
        raise NotImplementedError

    def copies(self, arrays: Sequence[Any]) -> list[Any]:
        return [array.copy() for array in arrays]

    def write(self, array: Any, values: Any) -> None:
        array[...] = values

    def read(self, array: Any) -> Any:
        return array.copy()


def make(workload: Workload, folder: Path) -> WorkloadData:
    reference = write_reference(MetaSchedule(), workload, f"{workload.name}.npz", folder)
    return WorkloadData(MetaSchedule(), workload, reference, HostRuntime())


def test_only_a_whole_right_output_is_right(tmp_path: Path) -> None:
    data = make(WORKLOADS[0], tmp_path)
    output = data.arguments[-1]
    (right,) = np.load(tmp_path / f"{WORKLOADS[0].name}.npz").values()
    assert not data.are_right(data.written())  # nothing was written yet
    output[...] = right
    assert data.are_right(data.written())
    output[3, 4] *= 2
    assert not data.are_right(data.written())
    output[...] = right
    data.reset()
    assert np.isnan(output).all()
    output[1:] = right[1:]  # a kernel that forgets a row leaves NaN there
    assert not data.are_right(data.written())


@pytest.mark.parametrize(("runtime", "package"), [(TorchRuntime, "torch"), (TvmRuntime, "tvm")])
def test_what_a_kernel_wrote_stays_as_others_write_there(runtime: Any, package: str) -> None:
    """All kernels of a job run before what they wrote is compared."""
    pytest.importorskip(package)
    on_cpu = runtime("cpu")
    (array,) = on_cpu.copies([np.zeros(4, np.float32)])
    written = on_cpu.read(array)
    on_cpu.write(array, np.ones(4, np.float32))
    assert not written.any()
    assert on_cpu.read(array).all()


def test_a_kernel_may_give_its_output_back(tmp_path: Path) -> None:
    data = make(WORKLOADS[0], tmp_path)
    (right,) = np.load(tmp_path / f"{WORKLOADS[0].name}.npz").values()
    assert data.are_right(data.written(right))
    assert not data.are_right(data.written(right + 1))


def test_without_a_reference_the_first_kernel_stands_for_all() -> None:
    data = WorkloadData(MetaSchedule(), WORKLOADS[0], None, HostRuntime())
    first = np.ones_like(data.arguments[-1])
    assert data.are_right(data.written(first))
    assert data.are_right(data.written(first * np.float32(1.00001)))
    assert not data.are_right(data.written(first * np.float32(1.001)))


@pytest.mark.parametrize(("kernels_held", "most"), [(0, 0), (2, 2), (9, 5)])
def test_what_is_held_is_bounded_and_none_is_forgotten(tmp_path: Path, kernels_held: int, most: int) -> None:
    data = make(WORKLOADS[0], tmp_path)
    (right,) = np.load(tmp_path / f"{WORKLOADS[0].name}.npz").values()
    written, held = Written(data, limit_bytes=kernels_held * right.nbytes), []
    for id_, is_right in {"a": False, "b": True, "c": False, "d": True, "e": False}.items():
        written.add(id_, [right if is_right else right + 1])
        held.append(written.bytes // right.nbytes)
    assert max(held) == most
    assert written.find_wrong() == ["a", "c", "e"]
    assert written.bytes == 0


def test_of_unknown_outputs_those_of_the_first_kernel_are_right_however_little_is_held() -> None:
    data = WorkloadData(MetaSchedule(), WORKLOADS[0], None, HostRuntime())
    written, first = Written(data, limit_bytes=0), np.ones_like(data.arguments[-1])
    for id_, outputs in {"a": first, "b": first + 1, "c": first}.items():
        written.add(id_, [outputs])
    assert written.find_wrong() == ["b"]


def test_data_stay_where_they_are(tmp_path: Path) -> None:
    kept = KeptData()
    first = [kept.get("metaschedule", w, lambda w=w: make(w, tmp_path)) for w in WORKLOADS]
    again = [kept.get("metaschedule", w, lambda: pytest.fail("made again")) for w in reversed(WORKLOADS)]
    assert first == again[::-1]


def test_those_used_longest_ago_make_room(tmp_path: Path) -> None:
    sizes = [make(workload, tmp_path).bytes for workload in WORKLOADS]
    assert sizes == [2 * 4 * 16 * n for n in (16, 32, 48)]  # input and output, float32
    kept = KeptData(limit_bytes=sizes[1] + sizes[2])
    assert gets(kept, tmp_path, 0, 1, 2) == [0, 1, 2]  # 0 was used longest ago, and does not fit
    assert gets(kept, tmp_path, 1, 2) == []
    assert gets(kept, tmp_path, 0) == [0]  # in the place of 1
    assert gets(kept, tmp_path, 2, 0, 1) == [1]


def test_the_current_one_stays_however_large(tmp_path: Path) -> None:
    kept = KeptData(limit_bytes=0)
    assert gets(kept, tmp_path, 1, 1, 0, 1) == [1, 0, 1]


def gets(kept: KeptData, folder: Path, *positions: int) -> list[int]:
    """Ask for the data of some workloads in turn; those that are made."""
    made: list[int] = []

    def get(position: int) -> None:
        kept.get(
            "metaschedule",
            WORKLOADS[position],
            lambda: made.append(position) or make(WORKLOADS[position], folder),
        )

    for position in positions:
        get(position)
    return made
