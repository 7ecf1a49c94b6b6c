from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costmodel.collector.device import KeptData, WorkloadData
from costmodel.collector.reference import write_reference
from costmodel.records import Workload

WORKLOADS = [Workload.parse(f"softmax-m16-n{n}") for n in (16, 32, 48)]


class OnDevice:
    """What TVM's tensors do, in host memory."""

    def __init__(self, array: Any) -> None:
        self._array = array.copy()

    def copyfrom(self, array: Any) -> None:
        self._array[...] = array

    def numpy(self) -> Any:
        return self._array


def copies(arrays: Sequence[Any]) -> list[OnDevice]:
    return [OnDevice(array) for array in arrays]


def make(workload: Workload, folder: Path) -> WorkloadData:
    return WorkloadData(workload, write_reference(workload, folder), copies)


def test_only_a_whole_right_output_is_right(tmp_path: Path) -> None:
    data = make(WORKLOADS[0], tmp_path)
    output = data.arguments[-1].numpy()
    right = np.load(tmp_path / f"{WORKLOADS[0].name}.npy")
    assert not data.is_right  # nothing was written yet
    output[...] = right
    assert data.is_right
    output[3, 4] *= 2
    assert not data.is_right
    output[...] = right
    data.poison()
    assert np.isnan(output).all()
    output[1:] = right[1:]  # a kernel that forgets a row leaves NaN there
    assert not data.is_right


def test_data_stay_where_they_are(tmp_path: Path) -> None:
    kept = KeptData()
    first = [kept.get(w, lambda w=w: make(w, tmp_path)) for w in WORKLOADS]
    again = [kept.get(w, lambda: pytest.fail("made again")) for w in reversed(WORKLOADS)]
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
        kept.get(WORKLOADS[position], lambda: made.append(position) or make(WORKLOADS[position], folder))

    for position in positions:
        get(position)
    return made
