"""Tables by a column map: cells to measurements, rejected rows with their number, CSV and Parquet."""

import gzip
import io
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fake_foreign import COLUMN_MAP, HEADER, PLATFORM_TOML, csv_text, fake_rows

from costmodel.dataset import build_dataset, load_dataset
from costmodel.dataset.importers._read import read_source
from costmodel.dataset.importers._table import read_config_table
from costmodel.dataset.sources._base import ReadOptions
from costmodel.errors import CostModelError
from costmodel.opening import lines_of
from costmodel.records import Outcome

pytestmark = pytest.mark.white_box


def read(tmp_path: Path, text: str | bytes, column_map: str = COLUMN_MAP, name: str = "runs.csv"):
    path, columns = tmp_path / name, tmp_path / "map.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape"))
    columns.write_text(column_map)
    return read_source(path, ReadOptions(columns=columns))


def changed(**cells: Any) -> str:
    first, *others = fake_rows()
    return csv_text([{**first, **cells}, *others])


def assert_all_read(source) -> None:
    assert source.rejects == []
    first, _, third, failed = source.measurements
    assert first.latencies_s == (10.0 / 1e6, 11.0 / 1e6)
    assert first.candidate.workload.name == "suite.gemm-x4096"
    assert first.candidate.config.decisions == {"block": 16, "order": "row", "tile": (4, 1)}
    assert first.platform.name == "NVIDIA GeForce RTX 3090/whole/82"
    assert first.measured_at == "2023-01-29T03:49:35+00:00"
    assert third.latencies_s == (30.0 / 1e6,)
    assert (failed.outcome, failed.latencies_s, failed.error) == (
        Outcome.COMPILE_ERROR,
        (),
        "compile_error",
    )


def test_csv_plain_gzipped_and_with_a_mark_in_front(tmp_path: Path) -> None:
    text = csv_text(fake_rows()).encode()
    for data in (text, gzip.compress(text), b"\xef\xbb\xbf" + text):
        assert_all_read(read(tmp_path, data))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_configs_need_no_measurements(tmp_path: Path, end: str) -> None:
    lines = ["kernel,block_x,layout,tile", "gemm,16,row,4x1", "gemm,32,row,4x2"]
    (tmp_path / "configs.csv").write_bytes(b"\xef\xbb\xbf" + end.join([*lines, ""]).encode())
    measured = list(read(tmp_path, csv_text(fake_rows())).measurements)
    found = read_config_table(tmp_path / "configs.csv", tmp_path / "map.toml")
    assert found == [each.candidate for each in measured[:2]]
    for wrong, message in (("gemm,wide,row,4x1", "values of column block_x must"), ("gemm", "as many cells")):
        (tmp_path / "configs.csv").write_text(end.join([*lines, wrong]))
        with pytest.raises(CostModelError, match=rf"configs\.csv, row 3: .*{message}"):
            read_config_table(tmp_path / "configs.csv", tmp_path / "map.toml")


def test_parquet_with_types_of_its_own(tmp_path: Path) -> None:
    rows = [
        {**row, "tile": [int(factor) for factor in row["tile"].split("x")]}
        | {name: row[name] or None for name in ("run_1", "run_2")}
        for row in fake_rows()
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "runs.parquet")
    (tmp_path / "map.toml").write_text(COLUMN_MAP)
    assert_all_read(read_source(tmp_path / "runs.parquet", ReadOptions(columns=tmp_path / "map.toml")))


def test_repeats_in_one_cell_constants_and_another_delimiter(tmp_path: Path) -> None:
    column_map = """
    workload = "suite.gemm-x4096"
    device = "RTX 3090"
    sms = 8
    isolation = "mps"
    delimiter = ";"
    software = { cuda = "13.0" }
    [parameters]
    block = "b"
    [latency]
    columns = ["times"]
    separator = "|"
    unit = "s"
    runs_per_repeat = 7
    """
    (one,) = read(tmp_path, "b;times\n2.0;0.5|0.25|\n", column_map).measurements
    assert one.candidate.config.decisions == {"block": 2}
    assert (one.latencies_s, one.runs_per_repeat) == ((0.5, 0.25), 7)
    assert (one.platform.isolation, one.platform.sms_granted) == ("mps", 8)
    assert one.platform.software["cuda"] == "13.0"


DIMS_MAP = """
workload = "suite.gemm"
device = "RTX 3090"
dims = { m = "M", n = "N" }
[parameters]
block = "b"
[latency]
columns = ["ms"]
unit = "ms"
"""


def test_sizes_in_columns_stand_behind_the_name_of_the_workload(tmp_path: Path) -> None:
    rows = ["M,N,b,ms", "512,64,2,1.5", "1024,64,2,3", "1e3,64,2,4", "0,64,2,5", "x,64,2,6", '"9",64,2,7']
    for last in (6, 7):  # columns at once, and with a quote row by row
        source = read(tmp_path, "\n".join(rows[:last]) + "\n", DIMS_MAP)
        found = {each.candidate.workload.name for each in source.measurements}
        assert found - {"suite.gemm-m9-n64"} == {f"suite.gemm-m{m}-n64" for m in (512, 1000, 1024)}
        assert [each.record["number"] for each in source.rejects] == [4, 5]
        assert [each.reason.partition(" must")[0] for each in source.rejects] == [
            "workload",
            "dims (column M)",
        ]
    with pytest.raises(CostModelError, match="'M' is there 0 times"):
        read(tmp_path, "N,b,ms\n1,2,3\n", DIMS_MAP).measurements  # noqa: B018


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"run_1": "fast"}, "latencies (column run_1) must be numbers"),
        ({"run_1": "nan"}, "latencies must be finite"),
        ({"run_1": "-5"}, "latencies must be finite"),
        ({"run_1": "inf"}, "latencies must be finite"),
        ({"run_1": "1e30"}, "stand for a failure"),
        ({"run_1": "", "run_2": " "}, "a row without a latency must have an outcome"),
        ({"status": "ugly"}, "or be mapped to one, but is 'ugly'"),
        (
            {"block_x": "row"},
            'column block_x must be numbers; if they are texts, write `block = { column = "block_x", ',
        ),
        ({"block_x": ""}, "each parameter must have a value, but column block_x has none"),
        ({"block_x": "1e300"}, "text or a finite number"),
        ({"tile": "4x"}, "factors (column tile) must be numbers"),
        ({"tile": "4x-1"}, "a list of positive integers"),
        ({"kernel": "../gemm"}, "workload must have the form"),
        ({"gpu": "Voodoo 2"}, "or be mapped to a listed one, but is 'Voodoo 2'"),
        ({"sms": "8.5"}, "sms must be an integer"),
        ({"sms": "-1"}, "sms must be an integer"),
        ({"sms": "8"}, "sms must be all SMs of the device"),
        ({"sms": "", "how": "mps"}, "sms must be numbers"),
        ({"how": "alone"}, "isolation must be one of whole"),
        ({"when": "yesterday"}, "timestamp must be ISO 8601"),
        ({"layout": "\udcff"}, "text must be UTF-8"),
        ({"layout": "x" * 200_000}, "a row must be CSV"),
    ],
)
def test_a_row_that_cannot_be_believed_is_rejected_with_its_number(
    tmp_path: Path, cells: dict, reason: str
) -> None:
    source = read(tmp_path, changed(**cells))
    assert len(source.measurements) == 3
    (reject,) = source.rejects
    assert reason in reject.reason
    assert reject.record["number"] == 1


def test_few_of_many_wrong_devices_are_named(tmp_path: Path) -> None:
    (row, *_) = csv_text(fake_rows()).splitlines()[1:]
    header = csv_text(fake_rows()).splitlines()[0]
    column = header.split(",").index("gpu")
    lines = [row.split(",") for _ in range(40)]
    for number, line in enumerate(lines):
        line[column] = f"Voodoo {number % 20}"
    rejects = read(tmp_path, "\n".join([header, *map(",".join, lines)]) + "\n").rejects
    assert len(rejects) == 40
    assert len({each.reason for each in rejects}) == 9  # eight names, and one message for all others


def test_a_number_has_no_underscore(tmp_path: Path) -> None:
    """Python takes one for a separator of thousands: the tile 16_16 would be one of 1616."""
    for cells in ({"block_x": "16_16"}, {"run_1": "1_0"}, {"tile": "4_0x1"}):
        (reject,) = read(tmp_path, changed(**cells)).rejects
        assert "must be numbers" in reject.reason


def test_a_blank_cell_tells_no_time(tmp_path: Path) -> None:
    first, *_ = read(tmp_path, changed(when="  ")).measurements
    assert first.measured_at == ""


def test_another_delimiter_is_told(tmp_path: Path) -> None:
    for delimiter in (";", "\t", "|"):
        text = csv_text(fake_rows()).replace(",", delimiter)
        with pytest.raises(
            CostModelError, match=r"times; if .* stands between them, write `delimiter = \""
        ) as told:
            list(read(tmp_path, text).measurements)
        assert "It looks like" not in str(told.value)


def test_rows_of_another_length(tmp_path: Path) -> None:
    lines = csv_text(fake_rows()).splitlines()
    source = read(tmp_path, "\n".join([*lines, "", lines[1] + ",more", "few"]))
    assert [r.record["number"] for r in source.rejects] == [5, 6]
    assert {r.reason for r in source.rejects} == {"a row must have as many cells as the header"}


def test_a_quote_that_is_never_closed_costs_what_it_swallows(tmp_path: Path) -> None:
    header, first, *others = csv_text(fake_rows()).splitlines()
    source = read(tmp_path, "\n".join([header, first, '"' + others[0], *others[1:]]))
    assert len(source.measurements) == 1
    (reject,) = source.rejects
    assert reject.reason.startswith("a row must be CSV: quotes closed")
    assert reject.record["entry"] == "it ends in line 5 of the file"


def test_wrong_tables_and_maps_are_one_error(tmp_path: Path) -> None:
    rows = csv_text(fake_rows())
    for text, column_map, message in (
        ("", COLUMN_MAP, "'kernel' is there 0 times, 'gpu' is there 0 times"),
        (rows.replace("status", "gpu"), COLUMN_MAP, "'gpu' is there 2 times, 'status' is there 0 times"),
        ("x" * 2_000_000, COLUMN_MAP, "a line must have at most"),
        (rows, COLUMN_MAP.replace("us", "days"), "must be a map of the columns"),
        (rows, COLUMN_MAP + "\nmore = 1", "must be a map of the columns"),
        (rows, "workload = ", "must be a map of the columns"),
        (rows, 'sms = "sms"\n' + COLUMN_MAP.replace("sms = ", "# "), r"write `sms = \{ column = "),
        (rows, COLUMN_MAP.replace("device", "# device"), "Give `--platform"),
    ):
        with pytest.raises(CostModelError, match=message):
            read(tmp_path, text, column_map)
    with pytest.raises(CostModelError, match=r"Cannot read .*nowhere"):
        read_source(tmp_path / "runs.csv", ReadOptions(columns=tmp_path / "nowhere.toml"))
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    with pytest.raises(CostModelError, match=r"needs `--columns map\.toml`"):
        read_source(tmp_path / "a.parquet")
    (tmp_path / "map.toml").write_text(COLUMN_MAP)
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:-20])
    with pytest.raises(CostModelError, match="must be a table in CSV or Parquet"):
        read_source(tmp_path / "cut.parquet", ReadOptions(columns=tmp_path / "map.toml"))


def test_a_small_file_cannot_unpack_to_any_size(tmp_path: Path) -> None:
    (tmp_path / "map.toml").write_text(COLUMN_MAP)
    pq.write_table(pa.table(dict.fromkeys(HEADER, pa.nulls(20_000_001))), tmp_path / "runs.parquet")
    with pytest.raises(CostModelError, match="at most 20,000,000 rows"):
        read_source(tmp_path / "runs.parquet", ReadOptions(columns=tmp_path / "map.toml"))
    with pytest.raises(ValueError, match="at most 100 bytes unpacked"):
        list(lines_of(io.BytesIO(b"row\n" * 26), most_bytes=10, most_total=100))
    with pytest.raises(CostModelError, match="a line must have at most"):
        read(tmp_path, gzip.compress(b" " * 10**7))


def test_a_platform_file_stands_in_for_the_device(tmp_path: Path) -> None:
    (tmp_path / "runs.csv.platform.toml").write_text(PLATFORM_TOML)
    column_map = "\n".join(line for line in COLUMN_MAP.splitlines() if not line.startswith("device"))
    one = next(iter(read(tmp_path, csv_text(fake_rows()), column_map).measurements))
    assert one.platform.device.name == "NVIDIA GeForce RTX 3090"
    assert one.platform.software["driver"] == "580.1"


def test_a_table_becomes_a_dataset(tmp_path: Path, header) -> None:
    read(tmp_path, csv_text(fake_rows()))
    options = ReadOptions(columns=tmp_path / "map.toml")
    report = build_dataset([tmp_path / "runs.csv"], tmp_path / "out", header=header, options=options)
    assert (report.measurements, report.rejects) == (4, {})
    assert len(load_dataset(tmp_path / "out").rows) == 4


ODD = (
    {},
    {"run_1": " 10 "},
    {"run_1": "1_0"},
    {"run_1": "+10"},
    {"run_1": "ten"},
    {"run_1": "nan"},
    {"run_1": "", "run_2": "5"},
    {"run_2": ""},
    {"block_x": "16.0"},
    {"block_x": "1e2"},
    {"block_x": "many"},
    {"status": "ugly"},
    {"status": "bad", "run_1": ""},
    {"when": ""},
    {"when": "yesterday"},
    {"gpu": "Voodoo 2"},
    {"layout": "\u00fcber"},
)


def test_blocks_of_plain_lines_and_single_rows_are_read_alike(tmp_path: Path) -> None:
    """Quotes are what makes rows be read one by one; the order and the numbers of rows stay."""
    first = next(iter(fake_rows()))
    rows = [{**first, **cells, "layout": f"{i}"} for i, cells in enumerate(ODD * 3)]
    plain = csv_text(rows)
    header, *lines = plain.splitlines()
    quoted = "\n".join([header, *(f'"{line.split(",")[0]}",{line.partition(",")[2]}' for line in lines)])
    by_block, by_row = (read(tmp_path, text) for text in (plain, quoted))
    assert len(by_row.rejects) == 3 * 7
    assert len(by_block.measurements) == 3 * (len(ODD) - 7)
    without_file = [
        [msgspec.structs.replace(m, platform=msgspec.structs.replace(m.platform, software={})) for m in s]
        for s in (by_block.measurements, by_row.measurements)
    ]
    assert without_file[0] == without_file[1]
    reasons = [[(r.reason, r.record["number"]) for r in each.rejects] for each in (by_block, by_row)]
    assert reasons[0] == reasons[1]


def test_rows_of_json_are_told_how_to_become_a_table(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text('[{"block": 16, "ms": 1.5}]')
    with pytest.raises(CostModelError, match=r"Convert its rows to a table with `pandas\.read_json"):
        read_source(tmp_path / "mine.json")


def test_a_folder_of_files_is_told_to_name_them(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text("block,ms\n16,1.5\n")
    with pytest.raises(CostModelError, match=r"has neither measurements\.parquet nor .* Name its files"):
        read_source(tmp_path)
