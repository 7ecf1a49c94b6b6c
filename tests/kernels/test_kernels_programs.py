"""Any tensor program: what its blocks say, and what its kernels launch before they are lowered."""

from dataclasses import asdict

import pytest

pytest.importorskip("tvm")

import foreign_programs
import numpy as np
import tvm
from small_spaces import SMALL

from costmodel.errors import CostModelError
from costmodel.features._workload import WorkloadFacts
from costmodel.kernels import open_space
from costmodel.kernels.metaschedule._estimate import estimate_launches
from costmodel.kernels.metaschedule._workload_ir import workload_module
from costmodel.kernels.metaschedule.programs._facts import program_workload
from costmodel.kernels.metaschedule.programs._source import ProgramSource
from costmodel.kernels.metaschedule.programs._space import ProgramSpace
from costmodel.records import Workload
from costmodel.records._candidate import ConfigBatch, KernelLaunch
from costmodel.records._program_facts import ProgramFacts

pytestmark = [pytest.mark.tvm, pytest.mark.white_box]

FIELDS = KernelLaunch.__struct_fields__
FLOAT32 = [name for name in SMALL if not name.endswith("float16")]
FOREIGN = (
    "int8_dense",
    "dilated_conv2d",
    "grouped_conv2d",
    "layer_norm",
    "gated_product",
    "column_maxima",
    "row_sums",
)
TRAFFIC = {"global_load_bytes", "global_store_bytes"}


@pytest.mark.parametrize("name", SMALL)
def test_the_blocks_of_an_operator_say_what_its_definition_says(name: str) -> None:
    """But for operations of padding and epilogues, which are counted as they are written."""
    workload = Workload.parse(name)
    found, known = (
        asdict(WorkloadFacts.of(w)) for w in (program_workload(workload_module(workload)), workload)
    )
    counted = {"flops", "epilogue_flops", "epilogue_loads"}
    assert {k: v for k, v in found.items() if k not in counted} == {
        k: v for k, v in known.items() if k not in counted
    }
    assert known["flops"] / 2 < found["flops"] < known["flops"] * 2


def test_facts_of_a_product_of_integers() -> None:
    workload = program_workload(foreign_programs.int8_dense())
    facts = ProgramFacts.of(workload.dims)
    assert (facts.rows, facts.columns, facts.reduction) == (64, 96, 128)
    assert workload.flops == 2 * 64 * 96 * 128
    assert workload.min_bytes == 64 * 128 + 96 * 128 + 4 * 64 * 96
    assert facts.operand_loops() == ((0,), (1,))
    assert (facts.element_bytes, workload.dtype) == (1, "")


def test_facts_of_a_dilated_window() -> None:
    facts = ProgramFacts.of(program_workload(foreign_programs.dilated_conv2d()).dims)
    assert (facts.instances, facts.rows, facts.columns, facts.window) == (2, 14 * 14, 16, 3)
    assert (facts.reduction, facts.epilogue_flops) == (16 * 9, 1)


def test_a_program_is_named_alike_whatever_its_names_are() -> None:
    first, second = foreign_programs.layer_norm(), foreign_programs.layer_norm()
    assert program_workload(first) == program_workload(second)
    assert program_workload(first) != program_workload(foreign_programs.layer_norm(rows=97))
    name = program_workload(first).name
    assert name.startswith("tir.")
    assert Workload.parse(name).name == name


def test_what_is_no_program_is_refused() -> None:
    with pytest.raises(CostModelError, match="must be one function of blocks"):
        program_workload(tvm.IRModule({}))


def wrong_fields(space: ProgramSpace, sketch: int, count: int = 8) -> dict[str, float]:
    """Fields that are not those of fresh candidates, which were lowered, with the largest relative error."""
    batch = space.draw(sketch, count, np.random.default_rng(77))
    told, errors = space.launches(batch), dict.fromkeys(FIELDS, 0.0)
    checked = 0
    for row, config in enumerate(batch.configs()):
        try:
            lowered = space.candidate(config).launches
        except CostModelError:
            continue
        checked += 1
        assert told["blocks"].shape[1] == len(lowered)
        for field in FIELDS:
            for column, launch in enumerate(lowered):
                true = getattr(launch, field)
                error = abs(told[field][row, column] - true) / max(1, true)
                errors[field] = max(errors[field], np.inf if np.isnan(error) else error)
    assert checked >= count // 3
    return {field: error for field, error in errors.items() if error > 1e-9}


@pytest.mark.parametrize("name", FLOAT32)
def test_launches_are_those_of_the_lowered_programs(name: str) -> None:
    """The operators stand for programs that nobody recognises."""
    space = ProgramSpace(workload_module(Workload.parse(name)), "cuda")
    assert [wrong_fields(space, sketch) for sketch in range(len(space.sketches))] == [{}] * len(
        space.sketches
    )


@pytest.mark.parametrize("name", FOREIGN)
def test_launches_of_programs_that_are_no_operator_are_exact_too(name: str) -> None:
    space = ProgramSpace(getattr(foreign_programs, name)(), "cuda")
    last = len(space.sketches) - 1
    assert [wrong_fields(space, sketch) for sketch in sorted({0, last})] == [{}] * len({0, last})


def test_of_tensor_cores_only_the_shared_memory_is_not_exact() -> None:
    """TVM merges its buffers by their lifetimes."""
    space = ProgramSpace(workload_module(Workload.parse("matmul-m256-n128-k128-float16")), "cuda")
    tensorised = [i for i, sketch in enumerate(space.sketches) if sketch.tensorized]
    assert tensorised
    for sketch in tensorised:
        wrong = wrong_fields(space, sketch)
        assert set(wrong) <= {"shared_bytes"}
        assert wrong.get("shared_bytes", 0.0) < 0.7


@pytest.mark.parametrize(
    ("name", "otherwise"),
    [
        ("matmul-m32-n32-k32", set()),
        ("conv2d-n1-c8-h14-w14-o8-k3-s1", set()),
        ("softmax-m64-n32", TRAFFIC),
    ],
)
def test_launches_are_those_that_decisions_tell_of_the_operator(name: str, otherwise: set[str]) -> None:
    """Two ways that share nothing but TVM's rules: coefficients from samples, and formulas by hand.

    Of operators what statements read and write is told, of programs what memory moves for it, which is
    the same where operands are staged in shared memory.
    """
    workload = Workload.parse(name)
    space = ProgramSpace(workload_module(workload), "cuda")
    for sketch in range(len(space.sketches)):
        batch = space.draw(sketch, 200, np.random.default_rng(5))
        expected = estimate_launches(ConfigBatch(workload, batch.size, batch.decisions))
        told = space.launches(batch)
        for field in set(FIELDS) - otherwise:
            assert np.allclose(told[field], expected[field]), field


def test_nothing_is_told_of_launches_on_a_cpu() -> None:
    space = ProgramSpace(foreign_programs.layer_norm(), "cpu")
    launches = space.launches(space.draw(0, 5, np.random.default_rng(0)))
    assert all(np.isnan(values).all() and values.shape == (5, 1) for values in launches.values())


def test_a_space_is_told_from_that_of_an_operator_by_its_name() -> None:
    source = ProgramSource.of(workload_module(Workload.parse("matmul-m32-n32-k32")))
    space = source.space(source.workloads[0], "cuda")
    operator = open_space(Workload.parse("matmul-m32-n32-k32"), "cuda")
    assert space.name.replace("tir-", "metaschedule-") == operator.name
    assert space is source.space(source.workloads[0], "cuda")
