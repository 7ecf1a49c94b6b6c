"""What is found of a GPU: the driver is a library in C that answers as NVIDIA's would, by its own header."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

triton = pytest.importorskip("triton")
pytest.importorskip("torch")

pytestmark = pytest.mark.triton

DRIVER = r"""
#include <cuda.h>
#include <stdlib.h>
#include <string.h>

static int set(const char *name) { return getenv(name) && *getenv(name); }
CUresult cuInit(unsigned flags) { return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int *version) { *version = 13020; return CUDA_SUCCESS; }
CUresult cuDeviceGet(CUdevice *device, int ordinal) { *device = 40 + ordinal; return CUDA_SUCCESS; }
CUresult cuDeviceGetName(char *name, int size, CUdevice device) {
  strncpy(name, device == 40 ? "NVIDIA H100 80GB HBM3" : "NVIDIA X1", size);
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute which, CUdevice device) {
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: *value = 1980000; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = set("LIMITED") ? 32 : 132; break;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: *value = 2619000; break;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: *value = 5120; break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = 52428800; break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: *value = 2048; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = 9; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = 0; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: *value = 233472; break;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR: *value = 65536; break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR: *value = 32; break;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}
CUresult cuStreamGetGreenCtx(CUstream stream, CUgreenCtx *context) {
  if (set("NO_CONTEXT")) return CUDA_ERROR_INVALID_CONTEXT;
  *context = stream == (CUstream)7 ? (CUgreenCtx)9 : 0;
  return CUDA_SUCCESS;
}
CUresult cuGreenCtxGetDevResource(CUgreenCtx context, CUdevResource *resource, CUdevResourceType type) {
  if (context != (CUgreenCtx)9 || type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_VALUE;
  memset(resource, 0xff, sizeof *resource);
  resource->sm.smCount = 40;
  return CUDA_SUCCESS;
}
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
  *status = set("CAPTURING") ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return set("OTHER_CAPTURES") ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
}
CUresult cuCtxSynchronize(void) { return set("BROKEN") ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS; }
"""
NVML = r"""
#include <string.h>
int nvmlInit_v2(void) { return 0; }
int nvmlSystemGetDriverVersion(char *version, unsigned size) {
  strncpy(version, "580.65.06", size);
  return 0;
}
"""
PROGRAM = '''
import json, os, sys, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from msgspec import to_builtins
from triton.runtime.driver import driver
from triton import Config
from costmodel.integrations.triton import autotune, current_platform
from costmodel.records import read_records

class Active:
    device = stream = 0
    def get_current_device(self): return self.device
    def get_current_stream(self, device): return self.stream

active, found = Active(), {}
driver.set_active(active)

def platform(name, device=0, stream=0, **environment):
    active.device, active.stream = device, stream
    os.environ.update(environment)
    found[name] = to_builtins(current_platform())
    for variable in environment: os.environ.pop(variable)

folder = sys.argv[1]
platform("whole", LIMITED="1")
platform("other device", device=1)
platform("green", stream=7)
platform("without a context", stream=7, NO_CONTEXT="1")
mps = {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25", "CUDA_MPS_PIPE_DIRECTORY": folder}
platform("mps", **mps)
platform("green in mps", stream=7, **mps)
platform("no daemon", CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="25", CUDA_MPS_PIPE_DIRECTORY=folder + "/none")
platform("no limit", **{**mps, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "100"})

class Kernel:
    """Stands in for a ``@triton.jit`` function, as there is no GPU to run one."""
    arg_names = ["x", "n", "BLOCK"]
    def __init__(self, fn): self.fn = fn; self.__name__ = fn.__name__
    def run(self, *args, **kwargs):
        if fails: raise RuntimeError("an illegal memory access was encountered")

def fill(x, n, BLOCK): ...

timed, fails = [], False
def bench(kernel_call, quantiles):
    timed.append(1)
    kernel_call()
    return [1.0] * 3

def tuned(store, **environment):
    configs = [Config({"BLOCK": b}) for b in (16, 32)]
    kernel = autotune(configs, ["n"], do_bench=bench, store=Path(folder) / store)
    os.environ.update(environment)
    before = len(timed)
    try:
        kernel(Kernel(fill)).run(None, 64, grid=(1,))
    finally:
        for variable in environment: os.environ.pop(variable)
    return len(timed) - before

platform("again")
found["timed"] = [tuned("a.jsonl", CAPTURING="1"), tuned("a.jsonl", OTHER_CAPTURES="1"), tuned("a.jsonl")]

busy, together = [], []
def alone(kernel_call, quantiles):
    busy.append(1)
    time.sleep(0.01)
    together.append(len(busy))
    busy.pop()
    return [1.0] * 3

kernel = autotune(
    [Config({"BLOCK": b}) for b in (16, 32)], ["n"], do_bench=alone, store=Path(folder) / "threads.jsonl"
)(Kernel(fill))
with ThreadPoolExecutor(8) as threads:
    for _ in range(2):
        list(threads.map(lambda n: kernel.run(None, n, grid=(1,)), range(1, 9)))
found["together"] = together
found["sizes"] = [row.candidate.workload.dims["n"] for row in read_records(Path(folder) / "threads.jsonl")]

fails = True
try: tuned("b.jsonl", BROKEN="1")
except Exception as error: found["broken"] = f"{type(error).__name__}: {error}"
found["kept"] = (Path(folder) / "b.jsonl").read_text().count("launch_error")
print(json.dumps(found))
'''


def compile_library(folder: Path, name: str, source: str) -> None:
    include = Path(triton.__file__).parent / "backends" / "nvidia" / "include"
    (folder / "source.c").write_text(source)
    command = ["cc", "-shared", "-fPIC", "-I", include, "-o", folder / name, folder / "source.c"]
    subprocess.run(command, check=True)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a process finds and does whose driver is ours."""
    folder = tmp_path_factory.mktemp("driver")
    compile_library(folder, "libcuda.so.1", DRIVER)
    compile_library(folder, "libnvidia-ml.so.1", NVML)
    (folder / "program.py").write_text(PROGRAM)
    hidden = ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_MPS_PIPE_DIRECTORY", "TRITON_INTERPRET")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    ended = subprocess.run(
        [sys.executable, folder / "program.py", folder],
        env=environment | {"LD_LIBRARY_PATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    told: dict[str, Any] = json.loads(ended.stdout)
    return told


def place(platform: dict[str, Any]) -> tuple[str, str, int]:
    return platform["device"]["name"], platform["isolation"], platform["sms_granted"]


@pytest.mark.parametrize(
    ("name", "isolation", "sms"),
    [
        ("whole", "whole", 132),
        ("green", "green_context", 40),
        ("without a context", "whole", 132),
        ("mps", "mps", 32),
        ("green in mps", "green_context", 40),
        ("no daemon", "whole", 132),
        ("no limit", "whole", 132),
        ("again", "whole", 132),
    ],
)
def test_the_sms_of_the_current_stream_are_found(
    found: dict[str, Any], name: str, isolation: str, sms: int
) -> None:
    assert place(found[name]) == ("NVIDIA H100 80GB HBM3", isolation, sms)


def test_a_device_and_its_software_are_described_as_campaigns_do(found: dict[str, Any]) -> None:
    assert place(found["other device"]) == ("NVIDIA X1", "whole", 132)
    assert found["whole"]["device"] == {
        "name": "NVIDIA H100 80GB HBM3",
        "kind": "cuda",
        "architecture": "sm_90",
        "sms": 132,
        "clock_mhz": 1980.0,
        "bandwidth_gb_s": 3352.3,
        "l2_bytes": 52428800,
        "shared_bytes_per_sm": 233472,
        "registers_per_sm": 65536,
        "max_threads_per_sm": 2048,
        "max_blocks_per_sm": 32,
        "fp32_lanes_per_sm": 128,
        "tensor_flops_per_sm_clock": 4096,
    }
    versions = {"cuda": "13.2", "driver": "580.65.06", "triton": triton.__version__}
    assert found["whole"]["software"] == versions


def test_nothing_is_timed_while_a_cuda_graph_is_made(found: dict[str, Any]) -> None:
    assert found["timed"] == [0, 0, 2]


def test_threads_that_launch_one_kernel_take_turns_to_time_it(found: dict[str, Any]) -> None:
    assert found["together"] == [1] * 16
    assert sorted(found["sizes"]) == sorted([*range(1, 9)] * 2)


def test_a_config_that_breaks_the_gpu_is_kept_and_ends_the_tuning(found: dict[str, Any]) -> None:
    assert found["broken"].startswith("BrokenContextError: Each config of triton.fill-n64 must leave the GPU")
    assert "illegal memory access" in found["broken"]
    assert found["kept"] == 1
