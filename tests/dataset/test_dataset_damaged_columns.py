"""Damage in dataset files is an error that can be acted on; what is read is what was written."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fake_records import fake_measurements

from costmodel.dataset import load_dataset
from costmodel.dataset.table._read import dataset_from_measurements, iter_measurements
from costmodel.dataset.table._records import Records
from costmodel.dataset.table._schema import SCHEMA
from costmodel.errors import CostModelError

pytestmark = pytest.mark.white_box

MEASUREMENTS = list(fake_measurements())[:28]  # of one workload, a failure among them
TABLE = Records.of(MEASUREMENTS).table()
FAILED = next(i for i, each in enumerate(MEASUREMENTS) if not each.latencies_s)


def other_schemas() -> Iterator[tuple[str, Any]]:
    """Tables whose columns are not those of a dataset, as another version of a program may write them."""
    names = TABLE.column_names
    for i, name in enumerate(names):
        yield f"without {name}", TABLE.drop_columns([name])
        yield f"{name} renamed", TABLE.rename_columns([each + "_" * (each == name) for each in names])
        yield f"{name} twice", TABLE.append_column(TABLE.field(name), TABLE[name])
        yield (
            f"{name} in front",
            TABLE.select([name, *names[:i], *names[i + 1 :]]) if i else TABLE.drop([name]),
        )
        yield f"{name} may be null", TABLE.cast(SCHEMA.set(i, SCHEMA.field(i).with_nullable(True)))
        kind = SCHEMA.field(i).type
        other = {pa.string(): pa.binary(), pa.int64(): pa.int32()}.get(kind)
        if other is not None:
            yield f"{name} as {other}", TABLE.cast(SCHEMA.set(i, SCHEMA.field(i).with_type(other)))


def with_value(name: str, value: Any, row: int = 0) -> Any:
    """The table with another value in a row."""
    rows = TABLE.to_pylist()
    rows[row][name] = value
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def lies() -> Iterator[tuple[str, Any]]:
    """Tables of the right columns whose values no measurement has."""
    row = TABLE.slice(0, 1).to_pylist()[0]
    other = TABLE.slice(FAILED, 1).to_pylist()[0]
    for name, value in (
        ("candidate_id", "0123456789abcdef"),
        ("candidate_id", ""),
        ("candidate_id", other["candidate_id"]),
        ("config", other["config"]),
        ("config", "{"),
        ("config", "[1]"),
        ("config", '{"tile":null}'),
        ("workload", "matmul-m1-n1-k1"),
        ("workload", "nonsense"),
        ("workload", ""),
        ("space", "another"),
        ("platform_id", "0123456789abcdef"),
        ("isolation", "none"),
        ("isolation", "whole"),
        ("sms_granted", 7),
        ("software", "{"),
        ("software", '{"driver":580}'),
        ("device", row["device"] | {"kind": "tpu"}),
        ("device", row["device"] | {"name": "another"}),
        ("outcome", "fine"),
        ("outcome", "timeout"),
        ("latencies_s", []),
        ("latencies_s", [1.0, None]),
        ("latencies_s", [0.0]),
        ("latencies_s", [-1.0]),
        ("latencies_s", [1.0, float("nan")]),
        ("latencies_s", [float("inf")]),
        ("l2_policy", "cold"),
        ("schema_version", 1),
        ("schema_version", 3),
        ("before", row["before"] | {"throttle_reasons": [None]}),
        ("co_runners", [None]),
    ):
        yield f"{name}: {value}", with_value(name, value)
    yield "a failure with latencies", with_value("latencies_s", [1.0], FAILED)
    yield "a failure that is ok", with_value("outcome", "ok", FAILED)
    yield (
        "no UTF-8",
        TABLE.set_column(
            TABLE.column_names.index("error"),
            SCHEMA.field("error"),
            pa.array([b"\xff"] * len(TABLE), pa.binary()).view(pa.string()),
        ),
    )


def refused(path: Path) -> str:
    """The message with which a file is refused, which names it."""
    with pytest.raises(CostModelError) as caught:
        load_dataset(path)
    assert path.name in str(caught.value)
    return str(caught.value)


def test_what_is_whole_is_read_whole(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "a.parquet")
    assert list(iter_measurements(tmp_path / "a.parquet")) == MEASUREMENTS


def test_other_columns_are_refused(tmp_path: Path) -> None:
    schemas = list(other_schemas())
    assert len(schemas) >= 150
    for what, table in schemas:
        pq.write_table(table, tmp_path / "a.parquet")
        assert "must have the columns of a costmodel dataset" in refused(tmp_path / "a.parquet"), what


@pytest.mark.parametrize("table", [pytest.param(table, id=what) for what, table in lies()])
def test_values_that_no_measurement_has_are_refused(tmp_path: Path, table: Any) -> None:
    pq.write_table(table, tmp_path / "a.parquet")
    refused(tmp_path / "a.parquet")


def test_a_wrong_entry_of_a_dictionary_is_refused(tmp_path: Path) -> None:
    """One place of a dictionary stands for many rows: all of them would be of another config."""
    configs = TABLE["config"].combine_chunks().dictionary_encode()
    swapped = pa.DictionaryArray.from_arrays(configs.indices, configs.dictionary[::-1])
    at = TABLE.column_names.index("config")
    table = TABLE.set_column(at, SCHEMA.field("config"), swapped.cast(pa.string()))
    pq.write_table(table, tmp_path / "a.parquet")
    assert "candidate_id of" in refused(tmp_path / "a.parquet")


def test_cut_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(TABLE, path, row_group_size=7, write_page_checksum=True)
    whole = path.read_bytes()
    for size in np.linspace(0, len(whole) - 1, 40).astype(int):
        path.write_bytes(whole[:size])
        refused(path)
    # A group of rows that is cut out of the middle: the end still says where it was.
    for start in np.linspace(4, len(whole) // 2, 20).astype(int):
        path.write_bytes(whole[:start] + whole[start + 64 :])
        refused(path)


@pytest.mark.parametrize("seed", range(3))
def test_a_changed_byte_is_refused_or_harmless(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(TABLE, path, row_group_size=7, write_page_checksum=True)
    whole = path.read_bytes()
    rng = np.random.default_rng(seed)
    noticed = 0
    for at in rng.choice(len(whole), 60, replace=False):
        broken = bytearray(whole)
        broken[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(broken)
        try:
            assert list(iter_measurements(path)) == MEASUREMENTS
            some = load_dataset(path, workloads=[MEASUREMENTS[0].candidate.workload.name])
            assert some.to_measurements() == MEASUREMENTS
        except CostModelError:
            noticed += 1
    assert noticed > 10


def test_a_dataset_in_memory_has_no_objects_until_they_are_asked_for() -> None:
    dataset = dataset_from_measurements(MEASUREMENTS)
    assert not any(map(pd.api.types.is_object_dtype, dataset.measurements.dtypes))
    assert dataset.candidates[0] is dataset.candidates[0]
    assert dataset.candidates[-1] == dataset.candidates[len(dataset.candidates) - 1]
    assert dataset.candidates[:3] == tuple(dataset.candidates)[:3]
