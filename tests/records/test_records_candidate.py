"""What a candidate says of its parameters."""

import pytest

from costmodel.records import Candidate, Config, Workload


@pytest.mark.parametrize(
    ("workload", "space", "family"),
    [
        ("matmul-m8-n8-k8", "metaschedule-cuda-0123abcd", ""),
        ("matmul-m8-n8-k8", "metaschedule-cuda-tensorcore-0123abcd", ""),
        ("matmul-m8-n8-k8", "cuda-matmul_float32-0123abcd", "cuda.matmul_float32"),
        ("matmul-m8-n8-k8", "library-cuda-0123abcd", "library.cuda"),
        ("matmul-m8-n8-k8", "somebodys-gemm-0123abcd", "somebodys.gemm"),
        ("matmul-m8-n8-k8", "auto_scheduler-steps", ""),
        ("cuda.nbody-n4096", "cuda-nbody-0123abcd", "cuda.nbody"),
        ("suite.gemm-x64", "kernel_tuner-gemm-0123abcd", "suite.gemm"),
        ("tir.p0123abcd-f64-b64-float32", "tir-cuda-0123abcd", ""),
    ],
)
def test_parameters_are_known_by_the_family_that_the_space_names(workload, space, family) -> None:
    assert Candidate(Workload.parse(workload), space, Config({"tile": 4})).family == family
