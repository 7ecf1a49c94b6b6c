"""Calls that families of Triton kernels say a user of PyTorch would make."""

from pathlib import Path

import pytest

from costmodel.kernels.library import LibrarySource
from costmodel.kernels.reference import agrees
from costmodel.kernels.triton import TritonFamily, TritonSource
from costmodel.records import Outcome, Workload

SMALL = {"m": 3, "n": 24, "k": 40, "b": 2, "q": 5, "d": 16, "t": 6, "h": 2, "v": 11}
WITH_CALLS = [family for family in TritonSource.shipped() if family.library_calls]


def small_workload(family: TritonFamily) -> Workload:
    return family.workload(**{dim: SMALL[dim] for dim in family.dims})


def test_a_workload_of_a_family_without_calls_is_not_the_library_s() -> None:
    without = [
        family for family in TritonSource.shipped() if not family.library_calls and not family.operators
    ]
    assert without
    assert not any(LibrarySource().makes(family.workload(), "cuda") for family in without)
    assert not LibrarySource().makes(Workload("triton.nobodys", {"x": 3}, ""), "cuda")


@pytest.mark.parametrize("family", WITH_CALLS, ids=lambda family: family.name)
def test_each_call_is_a_config(family: TritonFamily) -> None:
    space = LibrarySource().space(small_workload(family), "cuda")
    assert [config.decisions["call"] for config in space.starts] == list(family.library_calls)


@pytest.mark.torch
@pytest.mark.parametrize("family", WITH_CALLS, ids=lambda family: family.name)
def test_each_call_computes_the_reference(family: TritonFamily, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from costmodel.kernels.library import load_call

    source, workload = LibrarySource(), small_workload(family)
    for config in source.space(workload, "cuda").starts:
        candidate = source.space(workload, "cuda").candidate(config)
        built = source.build(candidate, "cuda", "sm_90", tmp_path)
        assert built.outcome is Outcome.OK
        assert built.library
        tensors = [torch.from_numpy(array.copy()) for array in source.arguments(workload)]
        found = load_call(built.library)(tensors)
        (right,) = source.reference(workload) or []
        assert agrees(found.numpy(), right, source.tolerance(workload))
