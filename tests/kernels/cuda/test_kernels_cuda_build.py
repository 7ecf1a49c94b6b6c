"""Configs compiled by NVRTC, which needs no GPU."""

import json
import pickle
import re
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from own_kernels import NAMES, OWN, needs_nvrtc

from costmodel.kernels import CudaFamily, CudaSource
from costmodel.kernels._sources import source_for, source_of
from costmodel.kernels.cuda._nvrtc import CudaCode, compile_source
from costmodel.kernels.family._check import FamilyCheck, check_family
from costmodel.records import Config, Outcome

pytestmark = pytest.mark.white_box

pytest.importorskip("elftools")


def compiled(family: CudaFamily, **settings: Any) -> FamilyCheck:
    return check_family(CudaSource(), family, **settings)


@pytest.fixture(autouse=True)
def _with_nvrtc() -> None:
    needs_nvrtc()


def family_of(folder: Path, source: str, **changes: object) -> CudaFamily:
    """The family of vector addition with another source, and other fields of its specification."""
    document = json.loads((OWN / "vector_add" / "vector_add.json").read_text())
    document["KernelSpecification"].update(changes)
    (folder / "vector_add.json").write_text(json.dumps(document))
    (folder / "vector_add.cu").write_text(source)
    return CudaFamily.load(folder)


ADD = (OWN / "vector_add" / "vector_add.cu").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_a_users_files_become_a_family_whose_configs_compile(name: str) -> None:
    check = compiled(CudaFamily.load(OWN / name), configs=4)
    assert len(check.configs) == check.compiled == 4, check.failures
    assert all(each.resources and each.resources.registers_per_thread for each in check.configs)
    assert any("There is no reference.py" in remark for remark in check.remarks)


@pytest.mark.parametrize(
    ("architecture", "target"),
    [
        ("sm_80", "sm_80"),
        ("sm_89", "sm_89"),
        ("sm_90", "sm_90a"),
        ("sm_90a", "sm_90a"),
        ("sm_100", "sm_100a"),
    ],
)
def test_a_kernel_may_use_what_only_its_own_architecture_has(
    tmp_path: Path, architecture: str, target: str
) -> None:
    """Such as the ``wgmma`` of Hopper."""
    text = 'extern "C" __global__ void twice(float* a) { a[threadIdx.x] *= 2; }'
    compiled = compile_source(CudaCode(text, "twice.cu", "twice", {}, (), tmp_path), architecture)
    assert re.findall(r"^\.target (\w+)", compiled.ptx, re.MULTILINE) == [target]


def test_a_build_leaves_machine_code_and_how_to_launch_it(tmp_path: Path) -> None:
    source = CudaSource([OWN / "reduction"])
    workload = CudaFamily.load(OWN / "reduction").workload()
    space = source.space(workload, "cuda")
    candidate = space.candidate(Config({"block_size_x": 64, "num_blocks": 128}))
    built = source.build(candidate, "cuda", "sm_90", tmp_path)
    assert built.outcome is Outcome.OK, built.error
    assert built.library == tmp_path / f"{candidate.candidate_id}{source.artifact}"
    assert built.library.read_bytes().startswith(b"\x7fELF")
    note = json.loads(built.library.with_suffix(".launch.json").read_text())
    assert note["kernel"].startswith("_Z10sum_blocksIf")  # the template's, with its argument
    assert (note["grid"], note["block"], note["shared_bytes"]) == ([128, 1, 1], [64, 1, 1], 256)
    assert len(built.resources) == 1
    made = built.library.stat().st_mtime_ns
    assert source.build(candidate, "cuda", "sm_90", tmp_path) == built
    assert built.library.stat().st_mtime_ns == made


def test_the_same_kernel_has_the_same_hash_and_another_has_another(tmp_path: Path) -> None:
    source = CudaSource([OWN / "vector_add"])
    space = source.space(CudaFamily.load(OWN / "vector_add").workload(), "cuda")
    first, second = (space.candidate(Config({"block_size_x": size})) for size in (128, 256))
    hashes = [
        source.build(candidate, "cuda", "sm_90", tmp_path / folder).kernel_hash
        for candidate, folder in ((first, "a"), (first, "b"), (second, "a"))
    ]
    assert hashes[0] == hashes[1] != hashes[2]
    assert re.fullmatch("[0-9a-f]{16}", hashes[0])


def test_constants_are_told_by_symbol_and_position(tmp_path: Path) -> None:
    family = CudaFamily.load(OWN / "convolution")
    source = CudaSource([family.file])
    candidate = source.space(family.workload(), "cuda").candidate(family.space().default)
    built = source.build(candidate, "cuda", "sm_90", tmp_path)
    assert built.library
    assert json.loads(built.library.with_suffix(".launch.json").read_text())["constants"] == {"d_filter": 2}


def test_the_compilers_first_error_is_the_outcomes_and_its_log_is_kept(tmp_path: Path) -> None:
    (tmp_path / "family").mkdir()
    family = family_of(tmp_path / "family", ADD.replace("b[i];", "b[j];"))
    source = CudaSource([family.file])
    candidate = source.space(family.workload(), "cuda").candidate(family.space().default)
    built = source.build(candidate, "cuda", "sm_90", tmp_path)
    assert built.outcome is Outcome.COMPILE_ERROR
    assert built.error == 'vector_add.cu(4): error: identifier "j" is undefined'
    log = (tmp_path / f"{candidate.candidate_id}.log").read_text()
    assert "1 error detected" in log


def test_options_that_nvrtc_refuses_are_told_and_those_of_nvcc_are_left_out(tmp_path: Path) -> None:
    check = compiled(family_of(tmp_path, ADD, CompilerOptions=["-O3", "-arch=sm_80"]), configs=1)
    assert check.compiled == 1
    assert check.remarks[0].endswith("left out: -O3, -arch=sm_80.")
    failed = compiled(family_of(tmp_path, ADD, CompilerOptions=["--no-such-option"]), configs=1)
    assert "compile_error: nvrtc: error: unrecognized option --no-such-option" in next(iter(failed.failures))


def test_a_block_with_more_shared_memory_than_a_device_has_is_no_config(tmp_path: Path) -> None:
    dynamic = compiled(family_of(tmp_path, ADD, SharedMemory=232_449), configs=1)
    assert dynamic.failures == {
        "invalid_config: A block on sm_90 must have at most 232448 bytes of shared memory, but got 232449.": 1
    }
    assert compiled(family_of(tmp_path, ADD, SharedMemory=232_448), configs=1).compiled == 1
    static = ADD.replace(
        "int i", "__shared__ float s[250]; s[threadIdx.x % 250] = n; __syncthreads(); int i"
    ).replace("a[i] +", "a[i] + s[(threadIdx.x + 1) % 250] +")
    assert compiled(family_of(tmp_path, static, SharedMemory=231_448), configs=1).compiled == 1
    (failure,) = compiled(family_of(tmp_path, static, SharedMemory=231_449), configs=1).failures
    assert "but got 232449" in failure


def test_macros_reach_the_source_but_not_its_headers(tmp_path: Path) -> None:
    source = """// A comment, and
/* another
   one */
#include <cuda_fp16.h>

#if DIM_x != 1000000 || kernel_tuner != 1 || grid_size_x * block_size_x < DIM_x || block_size_y != 1
#error "a macro is missing"
#endif
__global__ void vector_add(half *c) { c[threadIdx.x] = __half(block_size_x); }
"""
    changes = {"Arguments": []}
    space = json.loads((OWN / "vector_add" / "vector_add.json").read_text())["ConfigurationSpace"]
    family = family_of(tmp_path, source, **changes)
    check = compiled(family, configs=3)
    assert check.compiled == 3, check.failures
    # A macro with the name of something in a header would break it.
    space["TuningParameters"].append({"Name": "__half_raw", "Type": "int", "Values": [3]})
    document = json.loads(family.file.read_text())
    document["ConfigurationSpace"] = space
    family.file.write_text(json.dumps(document))
    again = compiled(CudaFamily.load(tmp_path), configs=2)
    assert again.compiled == 2, again.failures


def test_lines_of_errors_are_those_of_the_file(tmp_path: Path) -> None:
    source = "#include <cuda_fp16.h>\n// 2\n\n__global__ void vector_add(float *c) { c[0] = none; }\n"
    (failure,) = compiled(family_of(tmp_path, source), configs=1).failures
    assert "vector_add.cu(4): error" in failure


def test_headers_beside_the_kernel_are_found(tmp_path: Path) -> None:
    (tmp_path / "sum.cuh").write_text(
        "__device__ float sum(float a, float b) { return a + b * block_size_x; }\n"
    )
    family = family_of(tmp_path, '#include "sum.cuh"\n' + ADD.replace("a[i] + b[i]", "sum(a[i], b[i])"))
    assert compiled(family, configs=1).compiled == 1


def test_headers_of_the_folder_see_the_macros_in_brackets_too(tmp_path: Path) -> None:
    (tmp_path / "own.cuh").write_text('#ifndef block_size_x\n#error "no macros"\n#endif\n')
    family = family_of(tmp_path, "#include <cuda_fp16.h>\n#include <own.cuh>\n" + ADD)
    check = compiled(family, configs=1)
    assert check.compiled == 1, check.failures


def test_a_candidate_of_files_as_they_were_is_an_outcome(tmp_path: Path) -> None:
    family = family_of(tmp_path, ADD)
    candidate = family.space().candidate(family.space().default)
    family_of(tmp_path, ADD + "// changed")
    built = CudaSource([tmp_path]).build(candidate, "cuda", "sm_90", tmp_path)
    assert built.outcome is Outcome.INVALID_CONFIG
    assert "is no family as its files are now" in built.error


def test_a_source_can_be_sent_to_a_worker_and_is_found_by_its_candidates() -> None:
    source = pickle.loads(pickle.dumps(CudaSource([OWN / "vector_add"])))
    workload = CudaFamily.load(OWN / "vector_add").workload(x=4096)
    assert source.makes(workload, "cuda")
    assert not source.makes(workload, "cpu")
    assert source_for(workload, "cuda", [source]) is source
    candidate = source.space(workload, "cuda").sample(np.random.default_rng(0))
    assert source_of(source.space(workload, "cuda").candidate(candidate), [source]) is source
    assert msgspec.json.decode(msgspec.json.encode(candidate), type=Config) == candidate
