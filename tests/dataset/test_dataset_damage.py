"""Damage in files of other programs is an error that can be acted on, or a reject; never anything else."""

import gzip
import tempfile
from itertools import repeat
from pathlib import Path

import msgspec
import pytest
from damaged_files import Damaged, broken_files, lying_files, whole_files, write_damaged
from fake_auto_scheduler import fake_line
from fake_foreign import PLATFORM_TOML, json_lines
from fake_records import fake_measurement
from msgspec.structs import replace

from costmodel.dataset._export import name_file
from costmodel.dataset.checks._sieve import Sieve
from costmodel.dataset.importers._read import read_source
from costmodel.dataset.sources._base import ReadOptions
from costmodel.dataset.sources._source import FileContents, Reject
from costmodel.dataset.table import _parquet
from costmodel.dataset.table._files import find_dataset
from costmodel.dataset.table._parquet import ParquetPart
from costmodel.dataset.table._records import Records
from costmodel.errors import CostModelError
from costmodel.records import Workload

pytestmark = pytest.mark.white_box

LIES = list(lying_files())
# What an undamaged file gives.
WHOLE = {"cache.json": 12, "own_cache.json": 2, "t4.json": 6, "own_t4.json": 2, "runs.csv": 4}
WHOLE |= {"runs.parquet": 4, "database_tuning_record.json": 4, "log.json": 2}


def read(folder: Path, damaged: Damaged) -> FileContents | None:
    """What is read of it; None where it is refused as a whole."""
    path = write_damaged(folder, damaged)
    options = ReadOptions(platform=folder / "platform.toml", columns=folder / "map.toml")
    try:
        source = read_source(path, options)
    except CostModelError:
        return None
    assert msgspec.json.encode(source.rejects)
    validation = Sieve().sift(Records.of(source.measurements))
    assert all(
        Workload.parse(m.candidate.workload.name) == m.candidate.workload
        for m in validation.accepted.measurements()
    )
    return source


def test_there_are_enough_lies() -> None:
    assert len(LIES) >= 200


@pytest.mark.parametrize("file", WHOLE)
def test_what_is_whole_is_read_whole(tmp_path: Path, file: str) -> None:
    source = read(tmp_path, Damaged("whole", file, whole_files()[file]))
    assert source is not None
    assert (len(source.measurements), source.rejects) == (WHOLE[file], [])


def test_every_lie_is_noticed() -> None:
    with tempfile.TemporaryDirectory() as name:
        for lie in LIES:
            source = read(Path(name), lie)
            assert source is None or source.rejects, lie.name


@pytest.mark.parametrize("seed", range(4))
def test_broken_bytes_are_an_error_a_reject_or_harmless(seed: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        for broken in broken_files(150, seed):
            folder = Path(name) / "inside"
            folder.mkdir(exist_ok=True)
            read(folder, broken)
        assert [file.name for file in Path(name).iterdir()] == ["inside"]


def test_a_file_that_unpacks_to_far_too_much_for_its_size_is_refused(tmp_path: Path) -> None:
    bomb, platform = tmp_path / "log.json.gz", tmp_path / "platform.toml"
    platform.write_text(PLATFORM_TOML)
    blank = b" " * (2**22 - 1) + b"\n"
    bomb.write_bytes(gzip.compress(json_lines([fake_line()])) + 80 * gzip.compress(blank))
    with pytest.raises(CostModelError, match="must unpack to at most 200 times its size, but"):
        read_source(bomb, ReadOptions(platform=platform))


def test_a_file_of_nothing_but_bad_entries_is_refused_before_they_fill_memory(tmp_path: Path) -> None:
    endless = repeat(Reject("a row must be good", {"entry": "x" * 4096}))
    with pytest.raises(CostModelError, match=r"but more than 2\d\d,\d\d\d of its entries are not; the first"):
        FileContents.of(tmp_path / "a.csv", endless)


@pytest.mark.parametrize(
    "device", ["../../etc/passwd", "/abs", "..", "", "a\x00b", "\U0001f600" * 300, "x" * 999]
)
def test_names_of_devices_stay_inside_the_folder_of_an_export(tmp_path: Path, device: str) -> None:
    one = fake_measurement()
    platform = replace(one.platform, device=replace(one.platform.device, name=device))
    name = name_file("../" + one.candidate.workload.name, replace(one, platform=platform))
    file = tmp_path / f"{name}.json"
    file.write_text("x")
    assert file.parent == tmp_path
    assert [each.name for each in tmp_path.iterdir()] == [file.name]
    assert not file.name.startswith(".")


def test_rows_that_take_more_than_their_file_accounts_for_are_refused_before_they_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = find_dataset("h100-sm-budgets") / "measurements.parquet"
    assert ParquetPart(file).groups
    monkeypatch.setattr(_parquet, "_MOST_GROUP", 2**20)
    with pytest.raises(CostModelError, match="may be meant to exhaust memory"):
        ParquetPart(file)
