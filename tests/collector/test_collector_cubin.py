"""What is read from machine code, against what the compiler says that it made."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("elftools")

from costmodel.kernels._artifact import kernel_resources
from costmodel.records._measurement import KernelResources

pytestmark = pytest.mark.white_box

SOURCE = """
extern "C" __global__ void with_array(float* a, int n) {
    float r[64];
    for (int i = 0; i < 64; i++) r[i] = a[(i * n) % 1024];
    float t = 0;
    for (int i = 0; i < 64; i++) t += r[(i * n + threadIdx.x) % 64];
    a[blockIdx.x] = t;
}
extern "C" __global__ void plain(float* a) { a[threadIdx.x] *= 2; }
"""


def compile_kernels(folder: Path) -> tuple[Path, str]:
    """A cubin and what ptxas says of it."""
    if shutil.which("nvcc") is None:
        pytest.skip("needs nvcc")
    (folder / "k.cu").write_text(SOURCE)
    command = ["nvcc", "-cubin", "-arch=sm_90", "-Xptxas", "-v", "k.cu", "-o", "k.cubin"]
    said = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return folder / "k.cubin", said.stderr


def test_registers_and_stack_are_those_that_ptxas_names(tmp_path: Path) -> None:
    cubin, said = compile_kernels(tmp_path)
    library = tmp_path / "k.so"
    library.write_bytes(b"\x7fELF" + b"\0" * 16 + b"\x3e\0" + b"host code" + cubin.read_bytes())
    expected = []
    for name in ("plain", "with_array"):
        text = said.split(f"Function properties for {name}")[1]
        stack, registers = (
            re.search(r"(\d+) bytes stack frame", text),
            re.search(r"Used (\d+) registers", text),
        )
        assert stack
        assert registers
        expected.append(KernelResources(int(registers[1]), int(stack[1])))
    assert expected[0].stack_bytes == 0 < expected[1].stack_bytes
    assert kernel_resources(library) == tuple(expected)


def test_a_library_without_machine_code_for_a_gpu_has_none(tmp_path: Path) -> None:
    library = tmp_path / "cpu.so"
    library.write_bytes(b"\x7fELF" + b"\0" * 14 + b"\x3e\0" + b"\0" * 100)
    assert kernel_resources(library) == ()
