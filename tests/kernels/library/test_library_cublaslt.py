"""Products by cuBLASLt, of which a stand-in computes on the host what NVIDIA documents."""

import ctypes
from pathlib import Path
from shutil import which

import numpy as np
import pytest
from stand_in_blas import load_stand_in

pytest.importorskip("torch")

from costmodel.errors import InvalidConfigError
from costmodel.kernels._reference import agrees
from costmodel.kernels.library._cublaslt import CuBlasLt
from costmodel.kernels.library._source import LibrarySource, load_call
from costmodel.products import Product
from costmodel.products._operator import _Prepared
from costmodel.products._product import LAYOUTS
from costmodel.records import Config, Workload
from costmodel.records._operators import OPERATORS

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not which("cc"), reason="no C compiler"),
    pytest.mark.white_box,
]

NAME = "libcublasLt.so.999"


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The library, loaded as PyTorch loads that of its CUDA: the linker knows it by its name."""
    return load_stand_in(tmp_path_factory.mktemp("blas"), NAME)


@pytest.fixture(autouse=True)
def _its_cuda(stand_in: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.version.cuda", "999.1")


def computed(workload: Workload, folder: Path, algorithm: int = 0, sm_target: int = 0) -> np.ndarray:
    import torch

    source = LibrarySource()
    config = Config({"call": "cublaslt", "algorithm": algorithm, "sm_target": sm_target})
    built = source.build(source.space(workload, "cuda").candidate(config), "cuda", "sm_90", folder)
    assert built.library
    tensors = [torch.from_numpy(array) for array in source.arguments(workload)]
    output = load_call(built.library)(tensors)
    assert output is tensors[-1]
    return np.asarray(output.numpy())


@pytest.mark.parametrize("kind", [kind for kind in OPERATORS if kind.startswith("matmul")])
def test_a_product_with_any_epilogue(stand_in: ctypes.CDLL, tmp_path: Path, kind: str) -> None:
    workload = Workload(kind, {"m": 5, "n": 9, "k": 7})
    (reference,) = LibrarySource().reference(workload) or []
    assert agrees(computed(workload, tmp_path), reference, 1e-5)
    assert ctypes.c_int.in_dll(stand_in, "descriptors").value == 0


@pytest.mark.parametrize(("algorithm", "taken"), [(0, 0), (1, 2)])
def test_algorithms_are_counted_without_those_that_cannot_run(
    stand_in: ctypes.CDLL, tmp_path: Path, algorithm: int, taken: int
) -> None:
    workload = Workload.parse("matmul_bias-m4-n6-k8")
    (reference,) = LibrarySource().reference(workload) or []
    assert agrees(computed(workload, tmp_path, algorithm, 32), reference, 1e-5)
    assert ctypes.c_int.in_dll(stand_in, "asked_algorithm").value == taken
    assert ctypes.c_int.in_dll(stand_in, "asked_sm_target").value == 32


def test_an_algorithm_that_is_not_offered_is_no_config(stand_in: ctypes.CDLL, tmp_path: Path) -> None:
    with pytest.raises(InvalidConfigError, match="one of the 2 that cuBLASLt offers, but got 2"):
        computed(Workload.parse("matmul-m4-n6-k8"), tmp_path, algorithm=2)
    assert ctypes.c_int.in_dll(stand_in, "descriptors").value == 0


def test_what_cublaslt_refuses_is_told_by_name(stand_in: ctypes.CDLL, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"cublasLtMatmulAlgoGetHeuristic .* CUBLAS_STATUS_NOT_SUPPORTED"):
        computed(Workload.parse("matmul-m4-n6-k8-float16"), tmp_path)  # the stand-in has float32 only
    assert ctypes.c_int.in_dll(stand_in, "descriptors").value == 0


def test_without_cuda_there_is_no_cublaslt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.version.cuda", None)
    with pytest.raises(OSError, match="libcublasLt"):
        computed(Workload.parse("matmul-m4-n6-k8"), tmp_path)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_operator_describes_and_runs_what_is_offered(stand_in: ctypes.CDLL, layout: str) -> None:
    prepared = _Prepared(CuBlasLt(NAME), Product(5, 9, 7, dtype="float32", layout=layout), 32)
    assert [prepared.describe(i)[2:4] for i in range(2)] == [(128, 128)] * 2
    assert prepared.describe(1).algorithm == 62
    assert ctypes.c_int.in_dll(stand_in, "asked_sm_target").value == 32
