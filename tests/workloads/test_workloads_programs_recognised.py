"""Functions of others that are workloads, and some that are not."""

from typing import Any

import pytest

pytest.importorskip("tvm")

from tvm import te

from costmodel.kernels import open_space
from costmodel.records import Workload
from costmodel.workloads import recognise_program
from costmodel.workloads._recognise import relax_kernels

pytestmark = [pytest.mark.tvm, pytest.mark.white_box]

NAMES = ("matmul_bias_gelu-m32-n64-k32", "conv2d_bias_relu-n1-c8-h14-w14-o8-k3-s1", "softmax-m64-n32")


def own(workload: Workload) -> Any:
    return open_space(workload, "cuda").module["main"]


@pytest.mark.parametrize("name", NAMES)
def test_a_workload_is_recognised_in_both_spellings_and_whatever_it_is_called(name: str) -> None:
    workload = Workload.parse(name)
    for function in (own(workload), *relax_kernels(workload)):
        assert recognise_program(function, own) == workload
        assert recognise_program(function.with_attr("global_symbol", "other"), own) == workload


@pytest.mark.parametrize("shape", [(8, 8), (te.var("n"), 8)])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_what_computes_something_else_is_not(shape: Any, dtype: str) -> None:
    x = te.placeholder(shape, dtype, name="x")
    function = te.create_prim_func([x, te.compute(shape, lambda i, j: x[i, j] + x[i, j])])
    assert recognise_program(function, own) is None


def test_arguments_that_are_no_arrays_are_no_workload() -> None:
    n = te.var("n")
    x = te.placeholder((8,), name="x")
    function = te.create_prim_func([n, x, te.compute((8,), lambda i: x[i] + n.astype("float32"))])
    assert recognise_program(function, own) is None
