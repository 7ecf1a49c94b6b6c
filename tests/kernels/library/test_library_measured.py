from math import isfinite

import pytest

from costmodel.collector import CpuRunner, Timing
from costmodel.kernels.library._source import LibrarySource
from costmodel.records import Candidate, Config, Outcome, Workload

pytestmark = [pytest.mark.torch, pytest.mark.tvm, pytest.mark.white_box]

NAMES = (
    "matmul_bias_relu-m64-n64-k64",
    "conv2d_nhwc_bias_silu-n1-c16-h14-w14-o8-k3-s1-float16",
    "softmax-m32-n64",
)


def test_a_cpu_measures_what_the_library_runs() -> None:
    pytest.importorskip("pebble")
    source = LibrarySource()
    spaces = [source.space(Workload.parse(name), "cpu") for name in NAMES]
    candidates = [space.candidate(config) for space in spaces for config in space.sketches[0].configs]
    unknown = Candidate(spaces[0].workload, spaces[0].name, Config({"call": "guess"}))
    with CpuRunner(sources=[source], timing=Timing(repeats=3, most_repeats=5)) as runner:
        *measured, failed = runner.measure([*candidates, unknown], runner.platform(1))
    assert [m.candidate for m in measured] == candidates
    assert all(m.outcome is Outcome.OK and isfinite(m.latency_s) for m in measured)
    assert "torch" in measured[0].platform.software
    assert failed.outcome is Outcome.INVALID_CONFIG
