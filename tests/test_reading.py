"""Whatever is wrong with a file becomes one sentence of the package, and nothing waits or fills memory."""

import gzip
import json
import os
import socket
from pathlib import Path
from typing import Any

import msgspec
import pytest

from costmodel.errors import CostModelError
from costmodel.reading import (
    Finite,
    Whole32,
    detect,
    exists,
    is_file,
    is_folder,
    read_json,
    read_lines,
    read_text,
    read_toml,
    refusing,
)

pytestmark = pytest.mark.white_box

WHAT, REMEDY = "a plan of trains", "Ask the station."


class Plan(msgspec.Struct, forbid_unknown_fields=True):
    trains: Whole32 = 0
    delay_s: Finite = 0.0


@pytest.fixture
def file(tmp_path):
    return tmp_path / "plan"


def refusal_of(read, path, kind=Plan):
    with pytest.raises(CostModelError) as caught:
        read(path, kind, WHAT, remedy=REMEDY)
    (said,) = str(caught.value).splitlines()
    return said


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"trains = ", "at end of document"),
        (b"trains = \xff", "byte 10 is not UTF-8"),
        (b"buses = 1", "it has the unknown buses"),
        (b"trains = 'five'", "trains: Expected `int`, got `str`"),
        (b"trains = 2147483648", "trains"),
        (b"delay_s = inf", "finite"),
        (b"delay_s = -nan", "finite"),
        (b"trains = " + b"[" * 3000, "nested too deeply"),
        (b".".join([b"trains"] * 3000) + b" = 1", "nested at most 100 deep"),
        (b"trains = " + b"9" * 5000, "thousands of digits"),
        (b"trains = " + b"9" * 50, "64 bits"),
        (b"trains = 5 # " + b" " * 2**24, "16,777,216 bytes"),
    ],
)
def test_toml_that_is_refused(file, content, reason):
    file.write_bytes(content)
    with pytest.raises(CostModelError, match=reason) as caught:
        read_toml(file, Plan, WHAT, remedy=REMEDY)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"trains": 1', "truncated"),
        (b'{"trains": 1}}', "byte 14"),
        (b'{"trains": NaN}', "malformed"),
        (b'{"trains": "\\ud800"}', "refuse"),
        (b'{"trains": "\xff"}', "refuse"),
        (b'{"trains": ' + b"9" * 5000 + b"}", "out of range"),
        (b'{"delay_s": 1e400}', "out of range"),
        (b'{"trains": -1}', ">= 0"),
        (b"[" * 3000, "refuse"),
        (b'{"a":' * 3000, "refuse"),
    ],
)
def test_json_that_is_refused(file, content, reason):
    file.write_bytes(content)
    said = refusal_of(read_json, file)
    assert said.startswith(f"{file} must be {WHAT}, but: ")
    assert reason in said or reason == "refuse"


def test_documents_without_a_type_are_bounded_too(file):
    file.write_bytes(b"[" * 500 + b"]" * 500)
    assert "nested at most 100 deep" in refusal_of(read_json, file, Any)


def test_texts_with_a_mark_of_their_encoding_are_read(file):
    file.write_bytes(b"\xef\xbb\xbftrains = 3")
    assert read_toml(file, Plan, WHAT).trains == 3
    file.write_bytes(b'\xef\xbb\xbf{"trains": 3}')
    assert read_json(file, Plan, WHAT).trains == 3


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/dev/zero", "device"),
        ("/dev/null", "device"),
        ("/", "directory"),
        ("no/such/file", "No such file"),
        ("a\0b", "null"),
        ("x" * 10_000, "too long"),
    ],
)
def test_only_files_are_read(path, reason):
    said = refusal_of(read_toml, path)
    assert reason in said
    assert len(said) < 400
    assert not is_file(path)


def test_of_a_missing_file_those_beside_it_with_like_names_are_told(tmp_path):
    for name in ("trace.json.gz", "other.toml", "esc\x1b[31m.txt"):
        (tmp_path / name).touch()
    assert "Did you mean 'trace.json.gz'?" in refusal_of(read_json, tmp_path / "trace.json")
    assert "Did you mean" not in refusal_of(read_json, tmp_path / "zzz")
    assert "Did you mean" not in refusal_of(read_json, tmp_path / "zzz.toml")  # for all that others are TOML
    assert "\x1b" not in refusal_of(read_json, tmp_path / "esc31m.txt")
    (tmp_path / "gone.json").symlink_to(tmp_path / "nothing")
    assert "Did you mean" not in refusal_of(
        read_json, tmp_path / "gone.json"
    )  # which is there, and leads nowhere
    assert f"There is no folder {tmp_path / 'no'}." in refusal_of(read_json, tmp_path / "no" / "such")


def test_pipes_and_sockets_are_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert "named pipe" in refusal_of(read_json, tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        assert "Cannot read" in refusal_of(read_json, tmp_path / "s")


@pytest.mark.parametrize("name", ["a\0b", "x" * 10_000, "\udcff"])
def test_any_name_may_be_asked_for(name):
    assert not any(ask(name) for ask in (exists, is_file, is_folder))


def test_packed_files_are_unpacked_within_bounds(file):
    file.write_bytes(gzip.compress(b'{"trains": 4}'))
    assert read_json(file, Plan, WHAT).trains == 4
    file.write_bytes(gzip.compress(b'{"trains": 4}')[:-6])
    assert "ended before" in refusal_of(read_json, file)
    file.write_bytes(gzip.compress(b" " * 260 * 2**20, 1))
    assert "200 times its size" in refusal_of(read_json, file)


def test_an_error_speaks_of_what_the_file_looks_like(file):
    file.write_text(json.dumps({"schemaVersion": 1, "traceEvents": []}))
    said = refusal_of(read_toml, file)
    assert said.endswith(f"It looks like a trace of PyTorch's profiler. `costmodel plan {file}` reads it.")
    file.write_text("trains = x")
    assert refusal_of(read_toml, file).endswith(f". {REMEDY}")


def test_texts_and_lines(file):
    file.write_text("one\n\ntwo\n")
    assert read_text(file, WHAT) == "one\n\ntwo\n"
    assert list(read_lines(file, WHAT)) == [(1, b"one\n"), (3, b"two\n")]
    with pytest.raises(CostModelError, match="a line must have at most 2 bytes"):
        list(read_lines(file, WHAT, most_line=2))
    with pytest.raises(CostModelError, match="at most 5 bytes"):
        list(read_lines(file, WHAT, most_bytes=5))


def test_faults_of_the_one_who_reads_lines_are_his_own(file):
    file.write_text("one\n")
    with pytest.raises(ZeroDivisionError):
        [1 // 0 for _ in read_lines(file, WHAT)]


def test_whatever_a_decoder_raises_is_told_once():
    told = r"^log, line 3 must be a number, but: 'x' is missing. Mend it.$"
    with pytest.raises(CostModelError, match=told), refusing("log, line 3", "a number", "Mend it."):
        {}["x"]
    with pytest.raises(CostModelError, match=r"^mine$"), refusing(Path("log"), "a number"):
        raise CostModelError("mine")


HEADS = {
    "record-store": '{"crc32": "00", "record": {}}',
    "kernel-tuner-cache": '{"device_name": "A100", "kernel_name": "k", "tune_params_keys": ["x"], "cache": {',
    "t4": '{"schema_version": "1.0.0", "results": [',
    "t1": '{"General": {}, "ConfigurationSpace": {"TuningParameters": []}}',
    "auto-scheduler-log": '{"i": [["[\\"matmul\\"]", "cuda"], []], "r": [[1e-5], 0, 1, 1], "v": "v0.6"}',
    "autotvm-log": '{"input": ["cuda", "dense", []], "config": {}, "result": [], "version": 0.2}',
    "triton-autotune": '{"key": ["1"], "configs_timings": [[{"kwargs": {}}, 0.1]]}',
    "moe-configs": '{"triton_version": "3.1", "1": {"BLOCK_SIZE_M": 16}}',
    "ktt": '{"Metadata": {"ToolVersion": "2.1"}, "Results": []}',
    "chrome-trace": '[{"ph": "X", "name": "a"}]',
    "kernel-graph": '{\n  "tasks": []}',
    "placement": '{"maxSizePerFPGA": 1}',
    "tvm-program": '{"root_index": 1, "nodes": []}',
    "parquet": "PAR1...",
    "tunableop": "Validator,PT_VERSION,2.6.0\n",
    "ncu": '==PROF== Connected\n"ID","Process ID","Kernel Name"\n',
    "nsys": "Start (ns),Duration (ns),CorrId,GrdX\n",
    "rocprof": '"Kind","Agent_Id","Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp"\n',
    "cutlass-profiler": "\n\nProblem,Provider,OperationKind,Operation\n",
    "git-lfs": "version https://git-lfs.github.com/spec/v1\n",
    "web-page": "<!DOCTYPE html><html>",
    "toml": "# words\n[device]\nname = 'x'\n",
    "yaml": "matmul:\n  - block: 16\n",
    "csv": "a,b,c\n1,2,3\n",
}


PACKED = {
    "archive": b"a.txt".ljust(257, b"\0") + b"ustar\0",
    "model": b"PK\x03\x04" + b"\0" * 30 + b"model.json",
    "packed": b"\x28\xb5\x2f\xfd" + b"\0" * 30,
    "picture": b"\x89PNG\r\n\x1a\n",
    "safetensors": (30).to_bytes(8, "little") + b'{"weight": {"dtype": "F16"}}',
    "profiler-database": b"SQLite format 3\0 CREATE TABLE StringIds",
    "sqlite": b"SQLite format 3\0",
    "workbook": b"PK\x03\x04" + b"\0" * 30 + b"[Content_Types].xml",
}


@pytest.mark.parametrize("key", PACKED)
def test_formats_that_are_no_text_are_told_by_their_first_bytes(file, key):
    file.write_bytes(PACKED[key])
    found = detect(file)
    assert found is not None
    assert found.key == key
    assert found.use


@pytest.mark.parametrize("key", HEADS)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_formats_are_told_by_their_first_bytes(file, key, pack):
    file.write_bytes(pack(HEADS[key].encode()))
    found = detect(file)
    assert found is not None
    assert found.key == key


@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"words"])
def test_other_files_look_like_nothing(file, content):
    file.write_bytes(content)
    assert detect(file) is None
