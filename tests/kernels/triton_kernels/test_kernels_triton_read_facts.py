"""Facts of all Triton kernels of a dataset, beside its measurements: by the command, without a GPU."""

from pathlib import Path

import msgspec
import numpy as np
import pytest
from fake_records import fake_measurement
from typer.testing import CliRunner

pytest.importorskip("triton")

from costmodel.cli import app
from costmodel.dataset import CardHeader, build_dataset, load_dataset
from costmodel.dataset._read_facts import load_read_facts
from costmodel.kernels.triton._source import TritonSource, load_families
from costmodel.records import Candidate, RecordStore, Workload

pytestmark = [pytest.mark.triton, pytest.mark.white_box]

OWN = Path(__file__).parent / "own" / "scale"


def test_kernels_that_ship_and_ones_own_are_read(
    tmp_path: Path, header: CardHeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    source, rng = TritonSource([OWN]), np.random.default_rng(0)
    (scale,) = load_families(str(OWN))
    softmax = source.space(Workload.parse("softmax-m64-n256-float16"), "cuda")
    own = source.space(scale.workload(), "cuda")
    known = [softmax.candidate(softmax.sample(rng)), own.candidate(own.starts[0])]
    gone = Candidate(known[0].workload, "triton-gone-0123abcd", known[0].config)
    measured = [
        msgspec.structs.replace(fake_measurement(), candidate=each, kernel_hash=f"{i:016x}")
        for i, each in enumerate([*known, gone])
    ]
    with RecordStore(tmp_path / "records.jsonl") as store:
        store.append(measured)
    folder = build_dataset([tmp_path / "records.jsonl"], tmp_path / "data", header=header).path
    asked = ["dataset", "read-facts", str(folder), "--family", str(OWN), "--workers", "1"]
    said = CliRunner().invoke(app, asked)
    assert said.exit_code == 0, said.output
    assert "2 kernels were read" in " ".join(said.output.split())
    found = load_read_facts(load_dataset(folder))
    assert set(found) == {each.candidate_id for each in known}
    facts = found[known[0].candidate_id]
    assert facts.read_array_bytes == 64 * 256 * 2
    assert facts.load_bytes * facts.programs >= 64 * 256 * 2
