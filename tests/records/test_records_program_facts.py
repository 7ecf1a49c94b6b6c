import pytest

from costmodel.errors import CostModelError
from costmodel.records import Workload
from costmodel.records._program_facts import FAMILIES, ProgramFacts

pytestmark = pytest.mark.white_box

FACTS = ProgramFacts(flops=1 << 20, min_bytes=4096, reduction=64, rows=8, family=3, first_operand=5)


def test_a_program_is_named_by_its_facts() -> None:
    workload = Workload.of_program("ab12", FACTS, "float16")
    assert workload.name == "tir.ab12-f1048576-b4096-k64-m8-a3-x5-float16"
    again = Workload.parse(workload.name)
    assert again == workload
    assert ProgramFacts.of(again.dims) == FACTS
    assert (again.flops, again.min_bytes, again.is_foreign, again.is_program) == (1 << 20, 4096, True, True)


def test_every_fact_comes_back() -> None:
    fields = ProgramFacts.__struct_fields__
    facts = ProgramFacts(**{field: 2 + i for i, field in enumerate(fields)})
    assert len(facts.dims) == len(fields)
    assert ProgramFacts.of(facts.dims) == facts


def test_a_dtype_that_operators_do_not_have_is_left_out() -> None:
    assert Workload.of_program("ab12", FACTS, "int8").dtype == ""


def test_a_float32_program_says_so() -> None:
    workload = Workload.of_program("ab12", FACTS, "float32")
    assert workload.name.endswith("-float32")
    assert Workload.parse(workload.name).dtype == "float32"


def test_a_program_without_its_facts_is_refused() -> None:
    with pytest.raises(CostModelError, match="must say its flops and bytes"):
        Workload.parse("tir.ab12-k64")


def test_other_foreign_kernels_say_nothing_of_flops() -> None:
    other = Workload("suite.kernel", {"f": 8, "b": 8}, "")
    assert (other.flops, other.min_bytes, other.is_program) == (0, 0, False)
    with pytest.raises(ValueError, match="dtype of suite"):
        Workload("suite.kernel", {"f": 8, "b": 8}, "float16")


def test_operands_are_spelled_by_the_loops_that_index_them() -> None:
    assert FACTS.operand_loops() == ((0, 2),)
    assert ProgramFacts(1, 1, first_operand=3, second_operand=4).operand_loops() == ((0, 1), (2,))


def test_families_keep_their_numbers_in_names() -> None:
    assert FAMILIES[:3] == ("matmul", "fused_matmul", "batch_matmul")
