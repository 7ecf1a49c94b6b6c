"""The families that ship, run exactly on the CPU and compared with their references; no GPU is needed.

Sizes are small and no multiples of tiles, where a family takes such.
"""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from emulator import EmulationError, Emulator, Launch
from numpy.typing import NDArray
from own_kernels import needs_nvrtc

from costmodel.dataset import load_dataset
from costmodel.kernels import CudaFamily, CudaSource
from costmodel.kernels.family._check import FamilyCheck, check_family
from costmodel.kernels.family._space import FamilySpace
from costmodel.records import Config, Outcome, Workload
from costmodel.records._candidate import ConfigBatch

pytestmark = pytest.mark.white_box

CONFIGS = 4
FAMILIES = {family.name: family for family in CudaSource().families}
SMALL: Mapping[str, list[dict[str, int]]] = {
    "conv2d": [{"w": 70, "h": 45}],
    "embedding_bag": [
        {"r": 900, "d": 20, "b": 37, "l": 6, "v": 3, "h": 96, "w": 96, "x": 96, "y": 400, "z": 700},
        {"r": 50, "d": 33, "b": 5, "l": 19, "v": 4, "h": 96, "w": 96, "x": 96, "y": 96, "z": 500},
    ],
    "embedding_bag_backward": [
        {"r": 300, "d": 64, "b": 20, "l": 25, "v": 3, "h": 1, "w": 1, "x": 1, "y": 1, "z": 101},
        {"r": 60, "d": 33, "b": 37, "l": 12, "v": 4, "h": 11, "w": 11, "x": 11, "y": 11, "z": 101},
    ],
    "gemm": [{"m": 64, "n": 128, "k": 64}],
    "histogram": [{"n": 9996, "b": 50}],
    "lif_update": [{"n": 3360, "r": 5000}, {"n": 333, "r": 20000}],
    "matmul_float16": [{"m": 72, "n": 136, "k": 104}, {"m": 5, "n": 40, "k": 24}],
    "matmul_float32": [{"m": 72, "n": 136, "k": 104}, {"m": 37, "n": 51, "k": 23}],
    "nbody": [{"n": 333}],
    "reduction": [{"m": 5, "n": 1032}, {"m": 37, "n": 99}],
    "sparse_linear_float16": [
        {"m": 40, "n": 144, "k": 256, "s": 75, "g": 64, "v": 16, "u": 1},
        {"m": 5, "n": 96, "k": 128, "s": 50, "g": 4, "v": 1, "u": 1},
        {"m": 20, "n": 128, "k": 512, "s": 80, "g": 64, "v": 64, "u": 1},
        {"m": 1, "n": 64, "k": 192, "s": 90, "g": 96, "v": 2, "u": 8},
    ],
    "sparse_linear_float32": [
        {"m": 37, "n": 48, "k": 320, "s": 60, "g": 32, "v": 8, "u": 2},
        {"m": 3, "n": 40, "k": 136, "s": 80, "g": 8, "v": 1, "u": 1},
        {"m": 6, "n": 72, "k": 640, "s": 95, "g": 80, "v": 4, "u": 16},
    ],
    "spike_delivery": [{"n": 1500, "c": 40, "r": 8000, "d": 3}, {"n": 333, "c": 7, "r": 300, "d": 16}],
    "transpose": [{"m": 140, "n": 72}, {"m": 45, "n": 70}],
}
# ||output - reference|| / ||reference|| that rounding explains on sizes as small as these; 0 of integers.
ROUNDING = {"float16": 4e-4, "float32": 1e-6}

CASES = [(name, dims) for name, all_dims in SMALL.items() for dims in all_dims]


def compiled(family: CudaFamily, **settings: Any) -> FamilyCheck:
    return check_family(CudaSource(), family, **settings)


def launch_of(family: CudaFamily, workload: Workload, config: Config) -> Launch:
    geometry = family.geometry(workload, config.decisions, 1)
    specification = family.description.kernel_specification
    return Launch(
        specification.kernel_name,
        geometry.grid[0].tolist(),
        geometry.block[0].tolist(),
        int(geometry.dynamic_bytes[0]),
        {**config.decisions, **{f"DIM_{dim}": size for dim, size in workload.dims.items()}},
        {
            argument.name: position
            for position, argument in enumerate(specification.arguments)
            if argument.mem_type == "Constant"
        },
        family.folder,
    )


def drawn_configs(space: FamilySpace, count: int, seed: int) -> list[Config]:
    """As many drawn configs; of a family with variants one of each that the workload has."""
    rng = np.random.default_rng(seed)
    if "variant" not in space.default.decisions:
        return space.draw(0, count, rng).configs()
    found = {config.decisions["variant"]: config for config in space.draw(0, 400, rng).configs()}
    return list(found.values())


def error_of(
    emulator: Emulator, source: str, family: CudaFamily, workload: Workload, config: Config
) -> float:
    """How far the output is from the reference, where rounding explains 1."""
    kernels = CudaSource()
    arguments = kernels.arguments(workload)
    left = emulator.run(source, launch_of(family, workload, config), arguments)
    specified = family.description.kernel_specification.arguments
    for before, after, argument in zip(arguments, left, specified, strict=True):
        written = argument.access_type != "ReadOnly"
        assert written or np.array_equal(before, after), f"{argument.name} was written"
    reference = kernels.reference(workload)
    assert reference is not None
    outputs = (left[output] for output in kernels.outputs(workload))
    errors = [
        in_roundings(got, np.asarray(wanted).reshape(got.shape))
        for got, wanted in zip(outputs, reference, strict=True)
    ]
    return float(np.max(errors))  # NaN if one is


def in_roundings(output: NDArray[Any], wanted: NDArray[Any]) -> float:
    """How far an output is from what it should be, where rounding explains 1."""
    rounding = ROUNDING.get(output.dtype.name)
    if rounding is None:
        return 0.0 if np.array_equal(output, wanted) else np.inf
    expected = wanted.astype(np.float64)
    return float(np.linalg.norm(output.astype(np.float64) - expected) / np.linalg.norm(expected)) / rounding


@pytest.mark.parametrize(("name", "dims"), CASES)
def test_drawn_configs_compute_the_reference(name: str, dims: dict[str, int], emulator: Emulator) -> None:
    family = FAMILIES[name]
    workload = family.workload(**dims)
    space = family.space(workload)
    for config in (space.default, *drawn_configs(space, CONFIGS - 1, seed=1)):
        assert error_of(emulator, family.source, family, workload, config) <= 1, config.decisions


# An atomic addition reads and writes, as += does; the compiler has the second access unwatched.
UNSEEN = {
    "embedding_bag_backward": {"global_store_bytes"},
    "histogram": {"global_store_bytes", "shared_store_bytes"},
    "spike_delivery": {"global_store_bytes", "shared_store_bytes"},
}


# The second sizes of this family are for sparse Tensor Cores.
MOVED = [
    *((name, dims[0]) for name, dims in SMALL.items()),
    ("sparse_linear_float16", SMALL["sparse_linear_float16"][1]),
]


@pytest.mark.parametrize(("name", "dims"), MOVED)
def test_descriptions_say_what_the_kernels_move(name: str, dims: dict[str, int], emulator: Emulator) -> None:
    family = FAMILIES[name]
    workload = family.workload(**dims)
    space = family.space(workload)
    for config in (space.default, *drawn_configs(space, 2, seed=2)):
        said = space.launches(ConfigBatch.from_configs(workload, [config]))
        launch = launch_of(family, workload, config)
        counted = emulator.traffic(family.source, launch, CudaSource().arguments(workload))
        for field in counted.keys() - UNSEEN.get(name, set()):
            # Within what is left out where data say so, such as bins that nobody met.
            assert counted[field] == pytest.approx(said[field].item(), rel=0.03), (field, config.decisions)


def test_every_family_that_ships_is_tried() -> None:
    assert set(FAMILIES) == set(SMALL)


@pytest.mark.parametrize("name", ["cuda-sm-budgets", "sparse-sm-budgets"])
def test_recorded_kernels_are_of_the_families_as_they_ship(name: str) -> None:
    """A family is known by its files, ``data.py`` included: whoever edits one makes its records another's."""
    recorded = {each.space for each in load_dataset(name).candidates if each.space.startswith("cuda-")}
    assert recorded
    assert recorded <= {family.space_name for family in CudaSource.shipped()}


def test_every_variant_is_tried() -> None:
    for name in ("sparse_linear_float16", "sparse_linear_float32"):
        spaces = (FAMILIES[name].space(FAMILIES[name].workload(**dims)) for dims in SMALL[name])
        tried = {
            config.decisions["variant"] for space in spaces for config in drawn_configs(space, 0, seed=1)
        }
        assert tried == set(FAMILIES[name].choices["variant"])


# What a config must have for the breaks of its family to matter.
TELLING: Mapping[str, dict[str, Any]] = {
    "histogram": {"copies": 2},
    "matmul_float32": {"double_buffer": 0},
    "reduction": {"rows_per_block": 4},
    "sparse_linear_float16": {"variant": "gather_tensor", "block_m": 16, "block_n": 128, "warps_n": 8},
    "sparse_linear_float32": {"variant": "gather"},
}

BREAKS = [
    pytest.param("transpose", "__syncthreads();", "", id="no barrier between writing and reading"),
    pytest.param("transpose", "x < DIM_n && y < DIM_m", "true", id="reads outside the matrix"),
    pytest.param(
        "reduction",
        "sum = add_within_warp",
        "if (thread % 2) sum = add_within_warp",
        id="half a warp shuffles",
    ),
    pytest.param(
        "reduction", "if (thread == 0 && inside)", "if (thread == 0)", id="writes outside the output"
    ),
    pytest.param("histogram", "shared_memory[i] = 0;", "", id="shared memory without a start"),
    pytest.param(
        "histogram", "if (sum) atomicAdd(counts + bin, sum);", "if (sum) counts[bin] = sum;", id="not added"
    ),
    pytest.param("nbody", "j < count", "j < tile_size", id="reads behind what was staged"),
    pytest.param("conv2d", "__syncthreads();", "", id="reads what others have yet to stage"),
    pytest.param(
        "matmul_float16", "wait_for_copies<stages - 2>", "wait_for_copies<stages - 1>", id="waits too little"
    ),
    pytest.param(
        "matmul_float16",
        "lane % 16;\n            load_matrices_tr",
        "lane % 8;\n            load_matrices_tr",
        id="rows",
    ),
    pytest.param("matmul_float16", "source_row < SOURCE_ROWS", "true", id="reads rows behind the last"),
    pytest.param(
        "sparse_linear_float16",
        "turn_round(turned, slab + WEIGHTS_SIZE);\n            __syncthreads();",
        "turn_round(turned, slab + WEIGHTS_SIZE);",
        id="reads what others have yet to turn round",
    ),
    pytest.param("sparse_linear_float16", "- which_slab * TILE_K", "", id="reads rows of another slab"),
    pytest.param(
        "sparse_linear_float16", "first_row + row < SOURCE_ROWS", "true", id="reads weights behind the last"
    ),
    pytest.param(
        "sparse_linear_float32", "if (slab) __syncthreads();", "", id="stages x before all are done"
    ),
    pytest.param("sparse_linear_float32", "row / DIM_v *", "row *", id="reads indices of another vector"),
    pytest.param("sparse_linear_float32", "+ entry % DIM_u", "", id="takes the first of a group for all"),
    pytest.param("sparse_linear_float32", "if (start >= end) break;", "", id="reads weights of another slab"),
    pytest.param(
        "matmul_float32", "if (!double_buffer) __syncthreads();", "", id="overwrites what others still read"
    ),
    pytest.param(
        "gemm", "if (SA || SB) __syncthreads();\n        a +=", "a +=", id="stages before all are done"
    ),
]


def whole_source(family: CudaFamily) -> str:
    """The source with the files of the family that it includes."""
    return re.sub(r'#include "(.+)"', lambda found: (family.folder / found[1]).read_text(), family.source)


@pytest.mark.parametrize(("name", "old", "new"), BREAKS)
def test_a_broken_kernel_is_noticed(name: str, old: str, new: str, emulator: Emulator) -> None:
    family = FAMILIES[name]
    source = whole_source(family)
    assert source.count(old) >= 1
    workload = family.workload(**SMALL[name][0])
    space = family.space(workload)
    broken = source.replace(old, new)
    config = Config({**space.default.decisions, **TELLING.get(name, {})})
    assert space.candidate(config).config == config
    assert error_of(emulator, source, family, workload, config) <= 1
    try:
        error = error_of(emulator, broken, family, workload, config)
    except EmulationError:
        return
    assert not error <= 1


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", FAMILIES)
def test_configs_compile_and_keep_their_results_in_registers(name: str, architecture: str) -> None:
    needs_nvrtc()
    check = compiled(FAMILIES[name], architecture=architecture, configs=3)
    # What is too large for the shared memory of an architecture is no fault of the kernel.
    assert {each.outcome for each in check.configs} <= {Outcome.OK, Outcome.INVALID_CONFIG}, check.failures
    stacks = [each.resources.stack_bytes for each in check.configs if each.resources]
    assert stacks
    assert max(stacks) <= 64  # a few spilled registers
