"""The file of what is in the machine code of a dataset's kernels."""

from pathlib import Path

import pytest

import costmodel
from costmodel.dataset._machine_code import MACHINE_CODE_NAME, load_machine_code, write_machine_code
from costmodel.errors import CostModelError
from costmodel.kernels._machine_code import MACHINE_CODE_FACTS, MachineCode

pytestmark = pytest.mark.white_box


def code(registers: float) -> MachineCode:
    return MachineCode(**{**dict.fromkeys(MACHINE_CODE_FACTS, 7.0), "registers": registers})


def test_what_was_written_is_read_and_the_bytes_are_the_same(built: Path) -> None:
    counted = {"b": code(32.0), "a": code(255.0)}
    file = write_machine_code(built, counted)
    first = file.read_bytes()

    assert load_machine_code(costmodel.load_dataset(built)) == counted
    assert write_machine_code(built, dict(reversed(counted.items()))).read_bytes() == first


def test_a_dataset_without_the_file_says_how_to_make_it(built: Path) -> None:
    with pytest.raises(CostModelError, match=f"must have {MACHINE_CODE_NAME}"):
        load_machine_code(costmodel.load_dataset(built))


def test_a_damaged_file_is_refused_in_a_sentence(built: Path) -> None:
    file = write_machine_code(built, {"a": code(32.0)})
    file.write_bytes(file.read_bytes()[:200])

    with pytest.raises(CostModelError, match="must match its checksum"):
        load_machine_code(costmodel.load_dataset(built))
    (built / "SHA256SUMS").unlink()
    with pytest.raises(CostModelError, match="table of machine code"):
        load_machine_code(costmodel.load_dataset(built))


def test_the_sampled_pool_has_it_of_most_kernels() -> None:
    dataset = costmodel.load_dataset("sampled-sm-budgets")
    known = load_machine_code(dataset)

    assert set(known) <= set(dataset.columns.ids)
    assert len(known) > 0.8 * len(set(dataset.columns.ids))
