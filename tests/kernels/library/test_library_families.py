"""Calls that families say a user of PyTorch would make, and what they say of them."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from costmodel.features import extract
from costmodel.features._extract import extract_batch
from costmodel.kernels import CudaFamily, CudaSource, TritonFamily
from costmodel.kernels._reference import agrees
from costmodel.kernels.library._source import LibrarySource
from costmodel.kernels.triton._source import TritonSource
from costmodel.records import Config, Outcome, Platform, Workload, find_device
from costmodel.records._candidate import ConfigBatch, KernelLaunch

pytestmark = pytest.mark.white_box

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
    from costmodel.kernels.library._source import load_call

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


CUDA_WITH_CALLS = [family for family in CudaSource.shipped() if family.library_calls]
PRUNED = "cuda.sparse_linear_float16-m8-n64-k128-s75-g32-v32-u1"
BAGS = "cuda.embedding_bag-r10000-d16-b64-l8-v2-h11-w11-x47-y143-z387"


def facts_of(workload: Workload, call: str) -> KernelLaunch:
    (launch,) = LibrarySource().space(workload, "cuda").candidate(Config({"call": call})).launches
    return launch


@pytest.mark.parametrize("family", CUDA_WITH_CALLS, ids=lambda family: family.name)
def test_what_a_call_does_is_known_before_it_runs_as_it_is_recorded(family: CudaFamily) -> None:
    space = LibrarySource().space(family.workload(), "cuda")
    columns = space.launches(ConfigBatch.from_configs(family.workload(), space.starts))
    for i, config in enumerate(space.starts):
        (launch,) = space.candidate(config).launches
        assert launch.blocks == 0
        assert min(launch.flops, launch.device_bytes, launch.global_load_bytes) > 0
        for name in KernelLaunch.__struct_fields__:
            assert np.nan_to_num(columns[name][i, 0]) == getattr(launch, name)


@pytest.mark.parametrize("family", CUDA_WITH_CALLS, ids=lambda family: family.name)
def test_features_of_a_call_are_the_same_before_and_after_it_ran(family: CudaFamily) -> None:
    platform = Platform(find_device("NVIDIA H100 80GB HBM3"), "green_context", 32, 32)
    space = LibrarySource().space(family.workload(), "cuda")
    for config in space.starts:
        batch, candidate = ConfigBatch.from_configs(family.workload(), [config]), space.candidate(config)
        before = extract_batch(batch, platform, space.launches(batch), candidate.family)
        after = extract([candidate], [platform])
        assert before.columns == after.columns
        np.testing.assert_array_equal(before.values, after.values)
        assert np.isfinite(after.values[0, after.index("log2_roofline_s")])
        assert np.isnan(after.values[0, after.index("log2_blocks")])


def test_a_dense_call_works_with_the_zeros_and_a_sparse_one_without() -> None:
    workload = Workload.parse(PRUNED)
    source = CudaSource()
    x, weights, *_ = source.arguments(workload)
    weights = weights.reshape(64, 128)
    dense, csr = facts_of(workload, "dense"), facts_of(workload, "csr")
    kept = scipy.sparse.csr_matrix(weights.astype(np.float32))
    assert dense.flops == dense.tensor_flops == 2 * 8 * weights.size
    assert (csr.flops, csr.tensor_flops) == (2 * 8 * kept.nnz, 0)
    output = 2 * 8 * 64
    assert dense.device_bytes == x.nbytes + weights.nbytes + output
    indices = kept.indices.astype(np.int32).nbytes + kept.indptr.astype(np.int32).nbytes
    assert csr.device_bytes == x.nbytes + 2 * kept.nnz + indices + output


def test_bags_load_the_rows_that_are_looked_up() -> None:
    workload = Workload.parse(BAGS)
    _, _, indices, offsets, weights = CudaSource().arguments(workload)
    launch = facts_of(workload, "eager")
    assert launch.flops == 2 * 16 * len(indices)
    assert (
        launch.global_load_bytes == 4 * 16 * len(indices) + indices.nbytes + weights.nbytes + offsets.nbytes
    )


def test_a_call_takes_what_the_kernels_beside_it_take() -> None:
    for name, source in ((BAGS, CudaSource()), ("matmul-m8-n16-k8", CudaSource())):
        workload, library = Workload.parse(name), LibrarySource()
        for own, other in zip(library.arguments(workload), source.arguments(workload), strict=True):
            np.testing.assert_array_equal(own, other)
        assert library.outputs(workload) == source.outputs(workload)
        assert library.tolerance(workload) == source.tolerance(workload)
