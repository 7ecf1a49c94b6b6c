"""What a kernel is, by its operator and types, and by names that profilers wrote."""

import pytest
from kernel_names import KERNELS

from costmodel.planner.graphs._kernel_class import (
    KernelKind,
    Precision,
    class_of_call,
    class_of_name,
    class_of_workload,
)
from costmodel.records import Workload

pytestmark = pytest.mark.white_box


@pytest.mark.parametrize(("name", "kind", "precision"), KERNELS)
def test_a_name_says_what_a_kernel_is(name: str, kind: str, precision: str | None) -> None:
    found = class_of_name(name)
    assert found.kind.name == kind
    assert precision in (None, found.precision.name)


def test_there_are_enough_names() -> None:
    assert len({name for name, *_ in KERNELS}) >= 600


@pytest.mark.parametrize(
    ("name", "operator", "types", "kind", "precision"),
    [
        ("my_kernel", "aten::mm", ["float", "float"], "PRODUCT", "FLOAT32"),
        ("my_kernel", "aten::cudnn_convolution", ["c10::Half"], "PRODUCT", "HALF"),
        ("my_kernel", "vllm::fused_moe_gemm", ["c10::BFloat16"], "PRODUCT", "HALF"),
        ("my_kernel", "aten::add_", ["", "float"], "STREAMING", "FLOAT32"),
        ("my_kernel", "mine::op", [], "UNKNOWN", "UNKNOWN"),
        ("gemm_for_copies", "aten::copy_", ["double"], "STREAMING", "FLOAT64"),
        ("void splitKreduce_kernel<32, 16>", "aten::addmm", ["float"], "REDUCING", "FLOAT32"),
        ("void nchwToNhwcKernel<float>", "aten::cudnn_convolution", ["float"], "STREAMING", "FLOAT32"),
        ("cutlass_80_tensorop_s1688gemm_128x128", "aten::mm", ["float"], "PRODUCT", "TF32"),
        ("ampere_sgemm_128x64_tn", "aten::mm", ["float"], "PRODUCT", "FLOAT32"),
        ("void gemv2T_kernel_val<int>", "aten::mm", ["float"], "VECTOR_PRODUCT", "FLOAT32"),
        ("void at::native::elementwise_kernel<128, 2>", "aten::add", ["float"], "SCATTERED", "FLOAT32"),
    ],
)
def test_an_operator_and_its_types_come_before_names(
    name: str, operator: str, types: list[str], kind: str, precision: str
) -> None:
    found = class_of_call(name, operator, types)
    assert (found.kind.name, found.precision.name) == (kind, precision)


@pytest.mark.parametrize(
    ("workload", "name", "kind", "precision"),
    [
        ("matmul_bias-m128-n768-k3072", "layer 1", "PRODUCT", "FLOAT32"),
        ("matmul-m128-n768-k3072-float16", "layer 1", "PRODUCT", "HALF"),
        ("matmul-m128-n768-k3072", "sm80_xmma_gemm_tf32f32", "PRODUCT", "TF32"),
        ("softmax-m128-n768", "layer 2", "REDUCING", "FLOAT32"),
    ],
)
def test_a_workload_says_what_its_kernel_is(workload: str, name: str, kind: str, precision: str) -> None:
    found = class_of_workload(Workload.parse(workload), name)
    assert (found.kind, found.precision) == (KernelKind[kind], Precision[precision])


def test_a_mangled_name_may_say_any_length() -> None:
    assert class_of_name("_ZN" + "9" * 5000 + "gemm").kind in KernelKind
