"""What is counted in machine code."""

from pathlib import Path

import pytest

from costmodel.kernels._machine_code import machine_code
from costmodel.kernels.cuda._nvrtc import CudaCode, compile_source

pytestmark = pytest.mark.white_box

# A loop of one product a turn, on operands that come by 16 and by 4 bytes, between a copy and a store.
SOURCE = """
extern "C" __global__ void kernel(const float4* a, const float* b, float* c, int n) {
  __shared__ float s[256];
  s[threadIdx.x] = b[threadIdx.x];
  __syncthreads();
  float sum = 0.0f;
  #pragma unroll 1
  for (int i = 0; i < n; ++i) {
    float4 x = a[i * 256 + threadIdx.x];
    sum = fmaf(x.x, s[(threadIdx.x + i) & 255], sum) + (x.y + x.z) * x.w;
  }
  c[threadIdx.x] = __expf(sum);
}
"""


def compiled(source: str, folder: Path) -> bytes:
    pytest.importorskip("cuda.bindings.nvrtc")
    return compile_source(CudaCode(source, "kernel.cu", "kernel", {}, (), folder), "sm_90").cubin


def test_counts_what_stands_in_the_kernel_and_in_a_turn_of_its_loop(tmp_path: Path) -> None:
    found = machine_code(compiled(SOURCE, tmp_path))

    assert found is not None
    assert found.loops == 1
    assert (found.load, found.load_bytes) == (2, 20)
    assert (found.hot_load, found.hot_load_bytes) == (1, 16)
    assert (found.shared_store, found.shared_store_bytes, found.hot_shared_store) == (1, 4, 0)
    assert (found.hot_shared_load, found.hot_shared_load_bytes) == (1, 4)
    assert (found.store, found.store_bytes, found.hot_store) == (1, 4, 0)
    assert (found.barrier, found.hot_barrier) == (1, 0)
    assert (found.special, found.hot_special) == (1, 0)
    assert found.hot_multiply_add == 2
    assert found.stack_bytes == found.local == 0
    assert 0 < found.hot_instructions < found.instructions


def test_counts_local_memory_of_an_array_with_computed_indices(tmp_path: Path) -> None:
    source = """
    extern "C" __global__ void kernel(const int* at, float* c) {
      float x[64];
      for (int i = 0; i < 64; ++i) x[i] = c[i];
      for (int i = 0; i < 32; ++i) x[at[i] & 63] += 1.0f;
      c[threadIdx.x] = x[at[threadIdx.x] & 63];
    }
    """
    found = machine_code(compiled(source, tmp_path))

    assert found is not None
    assert found.stack_bytes == 256
    assert found.local >= 17  # 16 bytes at a time, and one that is read
    assert found.local_bytes >= 256 + 4


def test_takes_a_kernel_without_a_loop_as_its_own_loop(tmp_path: Path) -> None:
    source = 'extern "C" __global__ void kernel(float* c) { c[threadIdx.x] += 1.0f; }'
    found = machine_code(compiled(source, tmp_path))

    assert found is not None
    assert found.loops == 0
    assert found.hot_instructions == found.instructions
    assert (found.hot_load, found.hot_store, found.hot_floating) == (1, 1, 1)


def test_adds_up_the_kernels_of_a_module(tmp_path: Path) -> None:
    one = 'extern "C" __global__ void kernel(float* c) { c[threadIdx.x] += 1.0f; }'
    both = one + 'extern "C" __global__ void second(float* c) { c[threadIdx.x] += 1.0f; }'
    alone, together = (machine_code(compiled(source, tmp_path)) for source in (one, both))

    assert alone is not None
    assert together is not None
    assert together.instructions == 2 * alone.instructions
    assert together.registers == alone.registers


def test_knows_nothing_of_a_file_without_machine_code() -> None:
    assert machine_code(b"\x7fELF of another machine") is None
