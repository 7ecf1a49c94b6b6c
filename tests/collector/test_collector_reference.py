"""Reference outputs on disk."""

from pathlib import Path

import numpy as np
import pytest

from costmodel.collector._build import write_reference
from costmodel.kernels._reference import make_arguments, reference_output
from costmodel.kernels.metaschedule._source import MetaSchedule
from costmodel.records import Workload

pytestmark = pytest.mark.white_box


class Unknown(MetaSchedule):
    """A source that cannot say what its kernels should compute."""

    def reference(self, workload: Workload) -> None:
        return None


def test_a_reference_is_written_once(tmp_path: Path) -> None:
    workload = Workload.parse("matmul_bias_relu-m4-n5-k6-float16")
    path = write_reference(MetaSchedule(), workload, "right.npz", tmp_path)
    *inputs, output = make_arguments(workload)
    (kept,) = np.load(path).values()
    np.testing.assert_allclose(kept, reference_output(workload, inputs), rtol=1e-6)
    assert kept.shape == output.shape
    before = path.stat().st_mtime_ns
    assert write_reference(MetaSchedule(), workload, "right.npz", tmp_path) == path
    assert path.stat().st_mtime_ns == before


def test_where_nobody_knows_the_output_nothing_is_written(tmp_path: Path) -> None:
    assert write_reference(Unknown(), Workload.parse("matmul-m4-n5-k6"), "right.npz", tmp_path) is None
    assert not list(tmp_path.iterdir())
