"""What launches say of data: columns where any launch says it, and the same files as ever where none does."""

import shutil
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fake_records import WORKLOADS, fake_measurement, fake_measurements

from costmodel.dataset import (
    CardHeader,
    append_dataset,
    build_dataset,
    diff_datasets,
    export_dataset,
    load_dataset,
    make_split,
    merge_datasets,
    read_split,
    write_split,
)
from costmodel.dataset.publish._describe import describe_used_dataset
from costmodel.dataset.splits._make import SplitRecipe
from costmodel.dataset.table._candidates import Candidates
from costmodel.dataset.table._parquet import write_parquet
from costmodel.dataset.table._read import iter_measurements
from costmodel.dataset.table._records import LATENCIES, Records
from costmodel.dataset.table._schema import DATA_SCHEMA, SCHEMA
from costmodel.errors import CostModelError
from costmodel.records import Measurement, RecordStore, read_records
from costmodel.records._candidate import DATA_FACTS, KernelLaunch

pytestmark = pytest.mark.white_box


def saying(measurement: Measurement, **facts: int) -> Measurement:
    """The same measurement, with more known of its launch."""
    (launch,) = measurement.candidate.launches
    launches = (msgspec.structs.replace(launch, **facts),)
    candidate = msgspec.structs.replace(measurement.candidate, launches=launches)
    return msgspec.structs.replace(measurement, candidate=candidate)


def facts_of(measurement: Measurement) -> dict[str, int]:
    """Different ones of different kernels."""
    tile = int(str(measurement.candidate.config.decisions["tile"]))
    return {name: i * tile for i, name in enumerate(DATA_FACTS, 1)}


PLAIN = list(fake_measurements())
# One workload, the last by name, says what its data decide.
SAYING = [saying(m, **facts_of(m)) for m in PLAIN if m.candidate.workload.name == WORKLOADS[1]]
SILENT = [m for m in PLAIN if m.candidate.workload.name != WORKLOADS[1]]


def stored(path: Path, records: Sequence[Measurement]) -> Path:
    with RecordStore(path) as store:
        store.append(records)
    return path


def built(folder: Path, records: Sequence[Measurement], header: CardHeader, **options: str) -> Path:
    store = stored(folder.with_suffix(".jsonl"), records)
    return build_dataset([store], folder, header=header, **options).path


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory, header: CardHeader) -> Path:
    """A dataset some of whose launches say them; never written to."""
    return built(tmp_path_factory.mktemp("mixed") / "mixed", SILENT + SAYING, header)


def same_set(found: Sequence[Measurement], expected: Sequence[Measurement]) -> bool:
    return sorted(map(msgspec.json.encode, found)) == sorted(map(msgspec.json.encode, expected))


def parquet(folder: Path) -> bytes:
    return (folder / "measurements.parquet").read_bytes()


def schema_in(file: Path) -> pa.Schema:
    return pq.read_schema(file)


def test_files_have_the_columns_only_where_a_launch_says_them(mixed: Path, built_once: Path) -> None:
    plain = built_once / "measurements.parquet"
    assert schema_in(plain).equals(SCHEMA)
    assert schema_in(plain).metadata == SCHEMA.metadata == {b"format": b"costmodel measurements 2"}
    assert not set(DATA_FACTS) & set(schema_in(plain).field("launches").type.value_type.names)
    wide = mixed / "measurements.parquet"
    assert schema_in(wide).equals(DATA_SCHEMA)
    assert schema_in(wide).metadata == DATA_SCHEMA.metadata == {b"format": b"costmodel measurements 3"}
    for file, records in ((plain, PLAIN), (wide, SILENT + SAYING)):
        assert same_set(load_dataset(file).to_measurements(), records)
        assert same_set(list(iter_measurements(file)), records)
    for file, names in ((plain, set()), (wide, set(DATA_FACTS))):
        launches = describe_used_dataset(file, "training").schema["launches"]["items"]["properties"]
        assert set(launches) & set(DATA_FACTS) == names
    narrow = load_dataset(wide, workloads=[WORKLOADS[1]], facts=LATENCIES)
    assert {each.launches[0].atomics for each in narrow.candidates} == {2, 4, 8, 16, 32}


@pytest.mark.parametrize("name", ["h100-sm-budgets", "cuda-sm-budgets"])
def test_shipped_datasets_are_read_and_written_as_ever(name: str, tmp_path: Path) -> None:
    dataset = load_dataset(name)
    assert dataset.file is not None
    shipped = dataset.file.path
    assert schema_in(shipped).equals(SCHEMA)
    kind = dataset.columns.table["launches"].type.value_type
    assert len(kind.names) == 13  # in memory, too
    export_dataset(shipped, tmp_path / "again.parquet", "parquet")
    assert pq.read_table(tmp_path / "again.parquet").equals(pq.read_table(shipped))
    assert rows_of_groups(tmp_path / "again.parquet") == rows_of_groups(shipped)


def rows_of_groups(file: Path) -> list[int]:
    metadata = pq.read_metadata(file)
    return [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]


@pytest.mark.parametrize(("parts", "says"), [(1, -1), (7, -1), (1, 0), (7, 0)])
def test_one_row_that_says_them_widens_the_file_from_the_first_on(
    parts: int, says: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file in more than one group of rows, of which only the first or the last row has facts."""
    group_rows = 64
    monkeypatch.setattr("costmodel.dataset.table._parquet.GROUP_ROWS", group_rows)
    silent, saying = Records.of(SILENT), Records.of(SAYING[:1])
    many = silent.take(np.arange(2 * group_rows + 5) % len(silent))
    records = Records.concat([many, saying] if says else [saying, many])
    with write_parquet(tmp_path / "cut.parquet") as write:
        for at in np.array_split(np.arange(len(records)), parts):
            write(records.take(at))
    with pq.ParquetWriter(tmp_path / "once.parquet", DATA_SCHEMA, **settings()) as once:
        for start in range(0, len(records), group_rows):
            once.write_table(records.slice(start, group_rows).table())
    assert (tmp_path / "cut.parquet").read_bytes() == (tmp_path / "once.parquet").read_bytes()
    assert {file.name for file in tmp_path.iterdir()} == {"cut.parquet", "once.parquet"}
    found = list(iter_measurements(tmp_path / "cut.parquet"))
    assert found[says] == SAYING[0]
    assert found == list(records.measurements())


def settings() -> dict[str, object]:
    return {"compression": "zstd", "compression_level": 12, "write_page_checksum": True}


def test_rows_that_say_nothing_make_a_plain_file_wherever_they_came_from(tmp_path: Path) -> None:
    mixed = Records.concat([Records.of(SAYING), Records.of(SILENT)])
    chosen = mixed.slice(len(SAYING))  # has the candidates of the others still
    for name, records in (("a", chosen), ("b", Records.of(SILENT))):
        with write_parquet(tmp_path / name) as write:
            write(records)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    silent = Records.of(SILENT)
    assert Candidates(silent.candidates) == Candidates(chosen.take(np.arange(len(SILENT))).candidates)


def test_datasets_with_and_without_are_merged_and_compared(
    mixed: Path, built_once: Path, tmp_path: Path, header: CardHeader
) -> None:
    silent, talking = built(tmp_path / "a", SILENT, header), built(tmp_path / "b", SAYING, header)
    merge_datasets([silent, talking], tmp_path / "merged", header=header)
    assert parquet(tmp_path / "merged") == parquet(mixed)
    assert diff_datasets(tmp_path / "merged", mixed).is_empty
    found = diff_datasets(built_once, mixed)
    assert found.fields == {"launches": len(SAYING)}
    assert load_dataset(mixed).columns != load_dataset(built_once).columns
    assert load_dataset(mixed).columns == load_dataset(tmp_path / "merged").columns


@pytest.mark.parametrize("by", ["workload", "device"])
def test_campaigns_with_and_without_are_appended(by: str, tmp_path: Path, header: CardHeader) -> None:
    for name, (first, second) in {"a": (SILENT, SAYING), "b": (SAYING, SILENT)}.items():
        folder = built(tmp_path / name, first, header, partition_by=by)
        append_dataset(folder, [stored(tmp_path / f"{name}{by}.jsonl", second)])
        assert same_set(load_dataset(folder).to_measurements(), SILENT + SAYING)


def test_facts_that_contradict_those_there_do_not_enter(tmp_path: Path, header: CardHeader) -> None:
    first = fake_measurement()
    other = msgspec.structs.replace(saying(first, atomics=5), visit=1)
    report = build_dataset([stored(tmp_path / "s.jsonl", [first, other])], tmp_path / "d", header=header)
    assert (report.measurements, report.rejects) == (
        1,
        {"launches differ from those of another record of the same candidate": 1},
    )


@pytest.mark.parametrize("form", ["records", "parquet", "kernel-tuner", "t4"])
def test_exports_keep_them(form: str, mixed: Path, tmp_path: Path, header: CardHeader) -> None:
    name = {"records": "a.jsonl", "parquet": "a.parquet"}.get(form, "folder")
    report = export_dataset(mixed, tmp_path / name, form)
    again = build_dataset(report.files, tmp_path / "again", header=header)
    assert parquet(again.path) == parquet(mixed)
    if form == "records":
        assert same_set(list(read_records(tmp_path / name)), SILENT + SAYING)


def test_splits_are_of_the_file_that_they_were_made_of(mixed: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(mixed, tmp_path / "d")
    dataset = load_dataset(folder)
    split = make_split(dataset, SplitRecipe("random"), "fifth")
    write_split(dataset, split)
    assert read_split(load_dataset(folder), "fifth").folds[0].test.tolist() == split.folds[0].test.tolist()


def test_other_columns_of_launches_are_refused(tmp_path: Path) -> None:
    table = Records.of(SAYING).table()
    at = table.schema.get_field_index("launches")
    fields = list(DATA_SCHEMA.field("launches").type.value_type)
    for kept in (fields[:-1], fields[::-1], [*fields, pa.field("more", pa.int64(), nullable=False)]):
        rows = [[{"more": 1, **launch} for launch in row] for row in table["launches"].to_pylist()]
        kind = pa.list_(pa.struct(kept))
        field = pa.field("launches", kind, nullable=False)
        pq.write_table(table.set_column(at, field, pa.array(rows, kind)), tmp_path / "t.parquet")
        with pytest.raises(CostModelError, match="another type of launches"):
            load_dataset(tmp_path / "t.parquet")


def test_facts_are_told_apart_in_all_combinations() -> None:
    """Two records of one candidate are of one only where all that they say agrees."""
    first = fake_measurement()
    told = [dict(zip(DATA_FACTS, values, strict=True)) for values in product((0, 3), repeat=len(DATA_FACTS))]
    several = [saying(first, **facts) for facts in told]
    records = Records.of([first, *several])
    assert len(records.candidates) == 2 ** len(DATA_FACTS)
    assert list(records.measurements()) == [first, *several]
    for each in several:
        assert list(Records.of([each]).measurements()) == [each]


def test_each_launch_keeps_its_own_facts_beside_candidates_with_none_or_several() -> None:
    """In narrow tables that are widened and in wide ones that are narrowed, whole and cut."""
    first, *others = (fake_measurement(tile=tile) for tile in (1, 2, 4, 8))
    launches = [(), (KernelLaunch(2, 32), KernelLaunch(3, 32)), (KernelLaunch(4, 32),)]
    silent = [
        msgspec.structs.replace(each, candidate=msgspec.structs.replace(each.candidate, launches=own))
        for each, own in zip(others, launches, strict=True)
    ]
    saying_first = saying(first, busiest_block_bytes=9)
    mixed = Records.concat([Records.of([saying_first]), Records.of(silent)])
    assert list(mixed.measurements()) == [saying_first, *silent]
    assert list(mixed.slice(2).measurements()) == silent[1:]
    with_facts = Records.concat([Records.of(silent).take(np.array([1, 2])), Records.of([saying_first])])
    assert list(with_facts.measurements()) == [*silent[1:], saying_first]
    narrow = Candidates.of([each.candidate for each in silent])
    assert narrow == Candidates(mixed.take(np.arange(1, 4)).candidates)
