"""What is read of TVM's kernels, in the PTX of the source that it makes."""

import pytest
from small_spaces import drawn

pytest.importorskip("tvm")

from costmodel.kernels._sources import open_sources
from costmodel.kernels.cuda._nvrtc import nvrtc_version
from costmodel.records._workload import Workload

pytestmark = [pytest.mark.tvm, pytest.mark.white_box]


@pytest.mark.skipif(nvrtc_version() is None, reason="needs NVRTC")
@pytest.mark.parametrize("name", ["matmul-m64-n64-k64-float16", "conv2d-n1-c8-h14-w14-o8-k3-s1"])
def test_facts_of_a_program_agree_with_what_its_schedule_says(name: str) -> None:
    (source,) = open_sources(["metaschedule"])
    workload = Workload.parse(name)
    read = 0
    for candidate in drawn(name, "cuda", 4):
        reading = source.read(candidate, "cuda", "sm_90")
        assert reading.note == ""
        facts, (launch,) = reading.facts, candidate.launches
        read += 1
        assert (facts.programs, facts.threads) == (launch.blocks, launch.threads_per_block)
        assert facts.shared_bytes == launch.shared_bytes
        assert facts.tensor_flops * facts.programs == launch.tensor_flops
        if not launch.tensor_flops:
            done = facts.float_ops * facts.programs
            lanes = 32 * -(-launch.threads_per_block // 32)  # those that the last warp lacks count too
            assert workload.flops <= done <= 1.01 * launch.flops * lanes / launch.threads_per_block
        stored = workload.operator.output(workload.dims)
        assert facts.written_array_bytes <= facts.store_bytes * facts.programs
        assert facts.written_array_bytes % stored[-1] == 0
        assert facts.load_bytes * facts.programs >= facts.read_array_bytes / 2
        assert facts.guessed_bounds == facts.guessed_branches == 0
    assert read == 4
