"""Workloads that are kernels of other suites."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.errors import CostModelError
from costmodel.records import Workload


@given(
    kind=st.from_regex(r"[a-z][a-z0-9_]{0,8}(\.[A-Za-z0-9_]{1,8}){1,2}", fullmatch=True),
    dims=st.dictionaries(st.sampled_from("mnkxyz"), st.integers(1, 10**6), max_size=4),
)
def test_a_foreign_name_is_read_back(kind: str, dims: dict[str, int]) -> None:
    workload = Workload(kind, dims, "")
    assert Workload.parse(workload.name) == workload
    assert workload.is_foreign
    assert (workload.flops, workload.min_bytes) == (0, 0)


@pytest.mark.parametrize("name", ["a.b-x0", "a.b-xy3", "a.b-x3-float32", "a.-x3", ".b-x3", "a.b c-x3", "A.b"])
def test_wrong_foreign_names(name: str) -> None:
    with pytest.raises(CostModelError, match="Unknown workload"):
        Workload.parse(name)


def test_a_foreign_kernel_has_no_operator() -> None:
    with pytest.raises(CostModelError, match="kernel of another suite"):
        _ = Workload.parse("kernel_tuner.gemm-x4096").operator
