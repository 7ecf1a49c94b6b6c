import os
import shlex
import sys
import tempfile
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from costmodel.kernels.cuda._nvrtc import nvrtc_version
from costmodel.kernels.metaschedule._tvm_start import precompile_headers

pytestmark = pytest.mark.white_box

OPTIONS = "TVM_CUDA_NVRTC_EXTRA_OPTS"
# TVM puts this header in front of every kernel, and two others when it calls NVRTC.
KERNEL = """#include <cuda/std/type_traits>
extern "C" __global__ void scale(float* a, float b) { a[threadIdx.x] *= b; }
"""


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(OPTIONS, "--ftz=false")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "with space"))
    (tmp_path / "with space").mkdir()


def with_nvrtc(monkeypatch: pytest.MonkeyPatch, version: object) -> None:
    bindings = ModuleType("cuda.bindings")
    bindings.nvrtc = SimpleNamespace(nvrtcVersion=version)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cuda", ModuleType("cuda"))
    monkeypatch.setitem(sys.modules, "cuda.bindings", bindings)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Target format and architecture of what NVRTC is asked to compile; nothing is."""
    nvcc = pytest.importorskip("tvm.support.nvcc")
    asked: list[tuple[str, str]] = []

    def compile_cuda(code: str, *, target_format: str, arch: str, compiler: str) -> None:
        assert compiler == "nvrtc"
        asked.append((target_format, arch))
        raise RuntimeError("Cannot find CUDA headers")

    monkeypatch.setattr(nvcc, "compile_cuda", compile_cuda)
    return asked


def library_missing() -> None:
    raise RuntimeError("libnvrtc.so.13 not found")


@pytest.mark.parametrize("version", [(13, 0), (12, 8)])
def test_headers_are_precompiled_into_a_folder_of_their_own(
    monkeypatch: pytest.MonkeyPatch, compiled: list[tuple[str, str]], version: tuple[int, int]
) -> None:
    with_nvrtc(monkeypatch, lambda: (0, *version))
    precompile_headers("sm_80")
    assert compiled == [("cubin", "sm_80")]  # which is when NVRTC does it
    options = shlex.split(os.environ[OPTIONS])
    folders = [Path(option.split("=")[1]) for option in options if option.startswith("--pch-dir=")]
    assert options[0] == "--ftz=false"
    assert "--pch" in options
    assert "--pre-include=cuda/std/limits" in options
    assert [folder.parent for folder in folders if folder.is_dir()] == [Path(tempfile.gettempdir())]


@pytest.mark.parametrize("version", [lambda: (0, 12, 7), lambda: (0, 11, 8), library_missing])
def test_an_old_or_missing_nvrtc_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, compiled: list[tuple[str, str]], version: object
) -> None:
    with_nvrtc(monkeypatch, version)
    precompile_headers("sm_90a")
    assert compiled == []
    assert os.environ[OPTIONS] == "--ftz=false"


def test_missing_bindings_are_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    precompile_headers("sm_90a")
    assert os.environ[OPTIONS] == "--ftz=false"


@pytest.mark.tvm
def test_kernels_are_the_same_to_the_byte() -> None:
    nvcc = pytest.importorskip("tvm.support.nvcc")
    if nvrtc_version() is None:
        pytest.skip("NVRTC is not installed")

    def compiled() -> bytes:
        return bytes(nvcc.compile_cuda(KERNEL, target_format="cubin", arch="sm_90a", compiler="nvrtc"))

    try:
        plain = compiled()
    except RuntimeError as error:
        pytest.skip(f"the headers of CUDA are not installed: {error}")
    precompile_headers("sm_90a")
    headers = list(Path(tempfile.gettempdir()).glob("headers-*/*.pch"))
    assert len(headers) == 1
    assert [compiled(), compiled()] == [plain, plain]
    assert list(Path(tempfile.gettempdir()).glob("headers-*/*.pch")) == headers
