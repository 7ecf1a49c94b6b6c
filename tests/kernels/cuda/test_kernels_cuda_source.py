"""What the kernels of a family read and should write."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from own_kernels import OWN

from costmodel.errors import CostModelError
from costmodel.kernels import CudaFamily, CudaSource
from costmodel.records import Workload


@pytest.fixture
def family(tmp_path: Path) -> Callable[..., CudaFamily]:
    """Vector addition with other arguments, dims, or a reference."""

    def make(
        arguments: list[dict[str, Any]] | None = None, reference: str = "", **section: Any
    ) -> CudaFamily:
        document = json.loads((OWN / "vector_add" / "vector_add.json").read_text())
        if arguments is not None:
            document["KernelSpecification"]["Arguments"] = arguments
        if section:
            document["Workload"] = section
        (tmp_path / "vector_add.json").write_text(json.dumps(document))
        (tmp_path / "vector_add.cu").write_text("")
        if reference:
            (tmp_path / "reference.py").write_text(reference)
        return CudaFamily.load(tmp_path)

    return make


def vector(name: str, kind: str = "float", access: str = "ReadOnly", **more: Any) -> dict[str, Any]:
    return {
        "Name": name,
        "Type": kind,
        "MemoryType": "Vector",
        "AccessType": access,
        "FillType": "Random",
        "Size": 6,
        **more,
    }


ADD = """
import numpy as np

def reference(inputs, dims):
    assert list(inputs) == ["a", "b", "n"] and dims == {"x": 64}, (inputs, dims)
    return {"c": inputs["a"].astype(np.float64) + inputs["b"]}
"""


def test_arguments_are_in_order_and_the_same_in_every_process() -> None:
    workload = Workload.parse("cuda.vector_add-x64")
    c, a, b, n = CudaSource([OWN / "vector_add"]).arguments(workload)
    again = CudaSource([OWN / "vector_add"]).arguments(workload)
    assert np.isnan(c).all()
    assert (a == again[1]).all()
    assert (a != b).all()
    assert c.shape == a.shape == b.shape == (64,)
    assert (n.ndim, n.dtype, int(n)) == (0, np.int32, 1_000_000)


def test_types_and_fills(family: Callable[..., CudaFamily]) -> None:
    made = family(
        [
            vector("halves", "half", FillType="Constant", FillValue=2.5),
            vector("doubles", "double4"),
            vector("counts", "uint8"),
            vector("flags", "bool"),
            vector("bins", "int32", "WriteOnly"),
            vector("sums", "float", "ReadWrite", FillType="Constant", FillValue=0.0),
            {"Name": "rate", "Type": "float", "MemoryType": "Scalar", "FillValue": 0.5},
            {"Name": "last", "Type": "int64", "MemoryType": "Scalar", "FillValue": "x - 1"},
        ],
    )
    halves, doubles, counts, flags, bins, sums, rate, last = CudaSource([made.folder]).arguments(
        made.workload(x=8)
    )
    assert (halves.dtype, set(halves.tolist())) == (np.float16, {2.5})
    assert (doubles.dtype, doubles.shape) == (np.float64, (24,))
    assert counts.dtype == np.uint8
    assert set(counts.tolist()) <= set(range(10))
    assert flags.dtype == np.bool_
    assert (bins.dtype, set(bins.tolist())) == (np.int32, {85})
    assert set(sums.tolist()) == {0.0}
    assert (rate.dtype, float(rate)) == (np.float32, 0.5)
    assert (last.dtype, int(last)) == (np.int64, 7)


@pytest.mark.parametrize(("called", "positions"), [(0, (1, 2)), (1, (2,))])
def test_outputs_are_those_called_so_or_else_what_is_written(
    family: Callable[..., CudaFamily], called: int, positions: tuple[int, ...]
) -> None:
    scratch, out = vector("b", access="WriteOnly"), vector("c", access="ReadWrite", Output=called)
    made = family([vector("a"), scratch, out])
    assert CudaSource([made.folder]).outputs(made.workload()) == positions


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([vector("a", "complex")], "Type of argument a must be one of T1's, but got 'complex'"),
        ([vector("a", Size="2**60")], "Argument a must have 1 byte to 64 GiB"),
        ([vector("a", Size="width")], "must use the names ProblemSize, block_size_x, x, but it uses 'width'"),
        ([vector("a", Size="x / 3")], "must give a whole number"),
        ([vector("a"), vector("a")], "must each have a name of their own"),
    ],
)
def test_what_is_wrong_with_an_argument_is_said(
    family: Callable[..., CudaFamily], arguments: list[dict[str, Any]], message: str
) -> None:
    made = family(arguments)
    with pytest.raises(CostModelError, match=message.replace("*", r"\*")):
        CudaSource([made.folder]).arguments(made.workload())


def test_a_kernel_without_an_output_cannot_be_checked(family: Callable[..., CudaFamily]) -> None:
    made = family([vector("a")])
    with pytest.raises(CostModelError, match="must have the AccessType WriteOnly or ReadWrite"):
        CudaSource([made.folder]).outputs(made.workload())


def test_a_reference_gets_what_the_kernel_reads_and_the_dims(family: Callable[..., CudaFamily]) -> None:
    made = family(reference=ADD)
    source, workload = CudaSource([made.folder]), made.workload(x=64)
    _, a, b, _ = source.arguments(workload)
    reference = source.reference(workload)
    assert reference is not None
    assert np.allclose(reference[0], a.astype(np.float64) + b)
    assert source.tolerance(workload) == 1e-4


def test_without_a_reference_nobody_knows() -> None:
    assert CudaSource([OWN / "vector_add"]).reference(Workload.parse("cuda.vector_add-x64")) is None


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("def other(): pass", r"reference.py must define reference\(inputs, dims\)"),
        ("def reference(inputs, dims): return 1", "must return a dict that has the output 'c'"),
        ("def reference(inputs, dims): return {'d': 1}", "must return a dict that has the output 'c'"),
        (
            "def reference(inputs, dims): return {'c': [1, 2]}",
            r"c must have 64 elements, but reference gave \(2,\)",
        ),
        ("def reference(inputs, dims): raise ValueError('no')", r"reference failed on .*ValueError\('no'\)"),
    ],
)
def test_what_is_wrong_with_a_reference_is_said(
    family: Callable[..., CudaFamily], reference: str, message: str
) -> None:
    made = family(reference=reference)
    with pytest.raises(CostModelError, match=message):
        CudaSource([made.folder]).reference(made.workload(x=64))


def test_tolerance_is_that_of_the_narrowest_output_and_none_of_integers(
    family: Callable[..., CudaFamily],
) -> None:
    made = family(
        [vector("a", "half"), vector("b", "double", "WriteOnly"), vector("c", "float", "WriteOnly")]
    )
    assert CudaSource([made.folder]).tolerance(made.workload()) == 1e-4


def test_tolerance_of_integers_is_none(family: Callable[..., CudaFamily]) -> None:
    made = family([vector("a"), vector("b", "int32", "WriteOnly")])
    assert CudaSource([made.folder]).tolerance(made.workload()) == 0.0


def test_an_operators_family_has_its_arguments_and_reference(family: Callable[..., CudaFamily]) -> None:
    made = family([], Dims={"m": 64, "n": 64, "k": 32}, Operator="matmul", Dtype="float16")
    source, workload = CudaSource([made.folder]), made.workload(m=128)
    assert workload == Workload.parse("matmul-m128-n64-k32-float16")
    a, b, c = source.arguments(workload)
    assert [array.shape for array in (a, b, c)] == [(128, 32), (32, 64), (128, 64)]
    assert source.outputs(workload) == (2,)
    reference = source.reference(workload)
    assert reference is not None
    assert np.allclose(reference[0], a.astype(np.float64) @ b)
    assert source.space(workload, "cuda").candidate(made.space().default).launches[0].flops == workload.flops
    assert not made.computes(Workload.parse("matmul-m128-n64-k32"))


def test_workloads_have_dims_of_the_description(family: Callable[..., CudaFamily]) -> None:
    made = family()
    assert made.workload().name == "cuda.vector_add-x1000000"
    with pytest.raises(CostModelError, match="must be called with sizes of its dims x, but got 'm'"):
        made.workload(m=3)
    with pytest.raises(CostModelError, match="dim x must be a whole number from 1"):
        made.workload(x=0)
    with pytest.raises(CostModelError, match="Give the family's place"):
        CudaSource().space(Workload.parse("cuda.no_family-x3"), "cuda")


def test_ones_own_family_comes_before_others(family: Callable[..., CudaFamily]) -> None:
    mine = family()
    source = CudaSource([mine.folder, OWN / "vector_add"])
    assert source.space(mine.workload(), "cuda").name == mine.space_name
