"""Every reader of the package refuses what is no file of its kind in one sentence with the file's name."""

import gzip
import os
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from costmodel import reading
from costmodel.collector.campaign._config import CampaignConfig
from costmodel.dataset.importers._read import read_source
from costmodel.dataset.importers._table_rows import read_column_map
from costmodel.dataset.publish._card import read_card_header
from costmodel.dataset.sources._base import ReadOptions, read_platform_file
from costmodel.errors import CostModelError
from costmodel.evaluation._config import EvaluationConfig
from costmodel.kernels.cuda._description import read_description
from costmodel.planner.graphs._json_graph import read_graph
from costmodel.planner.graphs._trace import read_kineto
from costmodel.planner.placement._problem import read_placement
from costmodel.records._device_table import read_devices
from costmodel.records._store import RecordStore, read_records
from costmodel.search._dispatch import load_dispatch_table
from costmodel.service._job import JobFile
from costmodel.service._stage_times import load_times
from costmodel.serving._forms import read_table_file
from costmodel.serving._model_config import read_served_model
from costmodel.serving._row_model import RowModel
from costmodel.transfer._call_latency import load_call_models
from costmodel.transfer._read_ranker import ReadRanker
from costmodel.transfer.prediction._calls import read_measured_calls
from costmodel.transfer.prediction._devices import read_device
from costmodel.transfer.prediction._model import load_model

pytestmark = pytest.mark.white_box

READERS: dict[str, Callable[[Path], object]] = {
    "campaign.toml": CampaignConfig.load,
    "card.toml": read_card_header,
    "columns.toml": read_column_map,
    "device.toml": read_device,
    "devices.toml": read_devices,
    "evaluation.toml": EvaluationConfig.load,
    "job.toml": JobFile.load,
    "platform.toml": read_platform_file,
    "cache.json": lambda path: list(read_source(path, ReadOptions()).entries),
    "dispatch.json": load_dispatch_table,
    "family.json": read_description,
    "graph.json": read_graph,
    "calls.npz": load_call_models,
    "measured.json": read_measured_calls,
    "placement.json": read_placement,
    "times.json": load_times,
    "served.json": read_served_model,
    "E=8,N=64,device_name=a.json": read_table_file,
    "trace.json": read_kineto,
    "model.costmodel": load_model,
    "ranker.npz": ReadRanker.load,
    "rows.npz": RowModel.load,
    "records.jsonl": lambda path: list(read_records(path)),
    "store.jsonl": RecordStore,
    "records.db": lambda path: list(read_records(path)),
}
DEEP, LONG = b"[" * 3000, b"1" * 5000
CONTENTS = {
    "no UTF-8": b'{"tasks": "\xff\xfe"}\n{}',
    "nested brackets in TOML": b"name = " + DEEP,
    "nested brackets in JSON": b'{"tasks": ' + DEEP,
    "nested keys": b'{"cache": ' + b'{"a":' * 3000,
    "a number of 5,000 digits in TOML": b"sms = " + LONG,
    "a number of 5,000 digits in JSON": b'{"tasks": [{"id": "a", "duration_s": ' + LONG + b"}]}",
    "half a character": b'{"tasks": [{"id": "\\ud800", "duration_s": 1}]}\n{}',
    "gzip that is cut": gzip.compress(os.urandom(9999))[:-99],
    "UTF-16": "name = 'a'\n".encode("utf-16"),
    "nulls": b"\0" * 1000,
}


@pytest.mark.parametrize("content", CONTENTS.values(), ids=list(CONTENTS))
@pytest.mark.parametrize("name", READERS)
def test_content_of_another_kind_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    # What ends a store without an end of its line may be one that is being written.
    (tmp_path / name).write_bytes(content + b"\n{}\n" if name.endswith(".jsonl") else content)
    with pytest.raises(CostModelError) as caught:
        READERS[name](tmp_path / name)
    assert name in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("kind", ["folder", "pipe", "device"])
@pytest.mark.parametrize("name", READERS)
def test_what_is_no_file_is_refused(tmp_path: Path, name: str, kind: str) -> None:
    {
        "folder": Path.mkdir,
        "pipe": os.mkfifo,
        "device": lambda path: path.symlink_to("/dev/zero"),
    }[kind](tmp_path / name)
    with pytest.raises(CostModelError, match=name):
        READERS[name](tmp_path / name)


@pytest.mark.parametrize(
    "record", [b'"\xb8"', b"[" * 3000 + b"]" * 3000, LONG, b"null", b'{"candidate": "\xff"}']
)
@pytest.mark.parametrize("name", ["records.jsonl", "store.jsonl"])
def test_what_a_line_with_the_right_checksum_holds_is_refused(
    tmp_path: Path, name: str, record: bytes
) -> None:
    line = b'{"crc32":"%08x","record":%s}\n' % (zlib.crc32(record), record)
    (tmp_path / name).write_bytes(line * 2)
    with pytest.raises(CostModelError, match=rf"{name}, line 1 is"):
        READERS[name](tmp_path / name)


def test_arrays_that_unpack_to_more_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_UNASKED", 2**20)
    np.savez_compressed(tmp_path / "ranker.npz", splits=np.zeros(2**20, np.uint8))
    assert (tmp_path / "ranker.npz").stat().st_size < 2**12
    with pytest.raises(CostModelError, match=r"ranker.npz must be a ranker.*must unpack to at most"):
        ReadRanker.load(tmp_path / "ranker.npz")
