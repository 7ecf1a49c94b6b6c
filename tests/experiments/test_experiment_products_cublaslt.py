"""The collector of products puts what cuBLASLt offers on a stream; a stand-in computes on the host."""

import ctypes
from pathlib import Path
from shutil import which

import numpy as np
import pytest
from experiment_folder import found_beside
from stand_in_blas import load_stand_in

pytest.importorskip("torch")

from costmodel.kernels.library._cublaslt import WORKSPACE_BYTES, CuBlasLt
from costmodel.products import Product
from costmodel.products._product import LAYOUTS

with found_beside(Path(__file__).parents[2] / "experiments" / "products", ["cublaslt"]):
    import cublaslt

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not which("cc"), reason="no C compiler"),
    pytest.mark.white_box,
]
NAME = "libcublasLt.so.998"


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return load_stand_in(tmp_path_factory.mktemp("blas"), NAME)


def operands(layout: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A and B as they are stored, and their product."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(size).astype(np.float32) for size in ((5, 7), (7, 9)))
    stored = [
        np.ascontiguousarray(each.T if how == "t" else each) for each, how in zip((a, b), layout, strict=True)
    ]
    return stored[0], stored[1], a @ b


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("told", [0, 32])
def test_the_collector_of_products_runs_what_is_offered(
    stand_in: ctypes.CDLL, layout: str, told: int
) -> None:
    a, b, expected = operands(layout)
    c, workspace = np.empty((5, 9), np.float32), np.empty(WORKSPACE_BYTES, np.uint8)
    pointers = tuple(each.ctypes.data for each in (a, b, c, c))
    shape = Product(5, 9, 7, dtype="float32", layout=layout)
    descriptors = cublaslt.Descriptors(CuBlasLt(NAME), shape, pointers, workspace.ctypes.data)
    offered = descriptors.algorithms(told, 4)
    assert ctypes.c_int.in_dll(stand_in, "asked_sm_target").value == told
    assert [(each.position, each.config["id"], each.config["tile"]) for each in offered] == [
        (0, 60, 20),
        (1, 62, 20),
    ]
    assert offered[0].config["stages"] == -1
    for each in offered:
        c[:] = np.nan
        each.launch(0)
        np.testing.assert_allclose(c, expected, rtol=1e-5)
    descriptors.close()
    assert ctypes.c_int.in_dll(stand_in, "descriptors").value == 0
