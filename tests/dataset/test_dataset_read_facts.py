"""What was read of a dataset's kernels, in a file beside its measurements."""

from pathlib import Path

import pytest

from costmodel.dataset import load_dataset
from costmodel.dataset._read_facts import READ_FACTS_NAME, load_read_facts, write_read_facts
from costmodel.dataset.table._files import read_checksums
from costmodel.errors import CostModelError
from costmodel.kernels._read_facts import ReadFacts, Reading

pytestmark = pytest.mark.white_box


def test_facts_come_back_with_their_candidates(built: Path) -> None:
    data = load_dataset(built)
    ids = list(data.columns.ids)
    assert len(ids) > 2
    read = Reading(ReadFacts(programs=7.0, load_bytes=2.0**40 + 1))
    file = write_read_facts(built, {ids[1]: read, ids[0]: Reading(note="Broken.")}, {"triton": "3.6.0"})
    found = load_read_facts(load_dataset(built))
    assert list(found) == [ids[1]]
    facts = found[ids[1]]
    assert (facts.programs, facts.load_bytes) == (7.0, 2.0**40 + 1)
    assert facts.stores != facts.stores  # NaN
    assert READ_FACTS_NAME in read_checksums(built)
    once = file.read_bytes()
    write_read_facts(built, {ids[0]: Reading(note="Broken."), ids[1]: read}, {"triton": "3.6.0"})
    assert file.read_bytes() == once


def test_facts_change_no_measurement(built: Path) -> None:
    before = load_dataset(built)
    write_read_facts(built, {before.columns.ids[0]: Reading()})
    after = load_dataset(built)
    assert after.sha256 == before.sha256
    assert after.candidates == before.candidates


def test_without_the_file_a_command_is_named(built: Path) -> None:
    with pytest.raises(CostModelError, match="costmodel dataset read-facts"):
        load_read_facts(load_dataset(built))


def test_a_damaged_file_is_refused(built: Path) -> None:
    file = write_read_facts(built, {load_dataset(built).columns.ids[0]: Reading()})
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(CostModelError, match="must match its checksum"):
        load_read_facts(load_dataset(built))
    (built / "SHA256SUMS").unlink()
    with pytest.raises(CostModelError, match="must be a table of read facts"):
        load_read_facts(load_dataset(built))
