"""The experiment in miniature: nothing is measured, and no GPU is asked for."""

import sys
from argparse import Namespace
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from experiment_folder import found_beside

pytest.importorskip("tvm")

from costmodel.dataset import load_dataset
from costmodel.kernels import open_space
from costmodel.kernels.metaschedule.programs._source import ProgramSource
from costmodel.records import Measurement, Outcome, find_device, read_records
from costmodel.records._platform import part_of
from costmodel.workloads import recognise_program

pytestmark = [pytest.mark.tvm, pytest.mark.white_box]

FOLDER = Path(__file__).parents[2] / "experiments" / "unrecognised_programs"
DATASET = Path(__file__).parents[2] / "datasets" / "tensor-programs"
MODULES = ("collect", "live", "programs", "run", "limited", "searches", "stock_part", "options")
SMALL = ("row_sums", "relax_log_softmax")


@pytest.fixture(autouse=True)
def folder_on_path() -> Iterator[None]:
    """The experiment's modules are found beside each other."""
    with found_beside(FOLDER, MODULES):
        yield


def test_there_are_enough_programs_and_none_is_an_operator() -> None:
    programs = import_module("programs").PROGRAMS
    modules = [make() for make in programs.values()]
    written = lambda workload: open_space(workload, "cuda").module["main"]  # noqa: E731
    assert len(programs) >= 10
    assert [recognise_program(module["main"], written) for module in modules] == [None] * len(programs)
    assert len(set(ProgramSource.of(*modules).workloads)) == len(programs)


def test_the_dataset_has_the_launches_that_spaces_find() -> None:
    """Of the program whose threads may read far apart."""
    source = ProgramSource.of(import_module("programs").PROGRAMS["column_maxima"]())
    (workload,) = source.workloads
    space = source.space(workload, "cuda")
    recorded = [c for c in load_dataset(DATASET).candidates if c.workload == workload]
    assert {candidate.config.decisions["sketch"] for candidate in recorded} == {0, 1}
    assert [space.candidate(candidate.config) for candidate in recorded] == recorded


@pytest.fixture
def drawn(tmp_path: Path) -> Path:
    """Kernels of two programs, as collect.py draws them."""
    collect, path = import_module("collect"), tmp_path / "drawn.json"
    path.write_bytes(msgspec.json.encode(collect.draw(SMALL, Namespace(runner="cuda", count=10))))
    return path


def test_what_is_drawn_is_measured_in_turns_and_chosen_from(drawn: Path, tmp_path: Path, monkeypatch) -> None:
    """Kernels with more blocks are made to be faster; a model that knows it chooses the best."""
    collect, run = import_module("collect"), import_module("run")
    kernels = msgspec.json.decode(drawn.read_bytes(), type=collect.Drawn)
    assert [len(own) for own in kernels.values()] == [10, 10]
    asked = []
    monkeypatch.setitem(collect._RUNNERS, "cuda", lambda sources: FakeRunner(sources, asked))
    out = tmp_path / "measured.jsonl"
    collect.collect(kernels, Namespace(out=out, runner="cuda", sms=[8, 132], time_limit=60.0))
    assert asked[:2] == [{kernels[name][0].workload} for name in SMALL]
    records = list(read_records(out))
    assert len(records) == 20 * 2 * 2
    scores = run.measure(records, {"by blocks": SimpleNamespace(predict=by_blocks)})
    assert set(scores["by blocks"]) == {f"{name}@{sms}" for name in SMALL for sms in (8, 132)}
    assert set(scores["by blocks"].values()) == {1.0}
    assert all(score < 1.0 for score in scores["random"].values())
    assert run.noise(records) == {"median": pytest.approx(0.0), "p99": pytest.approx(0.0), "pairs": 40}
    assert "| mean |" in run.table(scores)


def by_blocks(features):
    from costmodel.features._extract import COLUMNS

    position = [column.name for column in COLUMNS].index("log2_blocks")
    return SimpleNamespace(score=features[:, position])


class FakeRunner:
    """Measures nothing: a kernel takes a second over its blocks, on any number of SMs."""

    def __init__(self, sources, asked) -> None:
        self._sources, self._asked = sources, asked

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        pass

    def platform(self, sms):
        return part_of(find_device("NVIDIA H100 80GB HBM3"), sms)

    def submit(self, requests):
        assert all(self._sources[0].makes(r.candidate.workload, "cuda") for r in requests)
        self._asked.append({r.candidate.workload for r in requests})
        found = [
            Measurement(
                candidate=r.candidate,
                platform=r.platform,
                outcome=Outcome.OK,
                latencies_s=(1.0 / blocks(r.candidate),),
                runs_per_repeat=1,
                visit=r.visit,
                measured_at="",
            )
            for r in requests
        ]
        return SimpleNamespace(result=lambda timeout: found)


def blocks(candidate) -> int:
    """Of the kernel that the model calls dominant, the last."""
    return max(launch.blocks for launch in candidate.launches)


def test_the_table_of_live_searches_says_when_ours_was_as_fast() -> None:
    live = import_module("live")

    def search(name, *steps):
        improvements = [{"elapsed_s": s, "trial": 1, "run_s": run_s} for s, run_s in steps]
        return {"program": "p", "search": name, "batches": [{"measured": 32, "improvements": improvements}]}

    found = [search(live.OURS, (5.0, 3e-5), (10.0, 2e-5)), search(live.STOCK, (20.0, 5e-5), (40.0, 2e-5))]
    assert live.table(found).splitlines()[-1] == "| p | 20.0 | 40 | 32 | 20.0 | 32 | 10 | 75% |"
    never = [search(live.OURS, (5.0, 3e-5)), search(live.STOCK, (20.0, 2e-5))]
    assert "| never |" in live.table(never).splitlines()[-1]


def batch(elapsed_s, *steps):
    improvements = [{"elapsed_s": elapsed_s, "trial": 1, "run_s": run_s, "trace": "[]"} for run_s in steps]
    return {"elapsed_s": elapsed_s, "measured": 16, "failed": 0, "improvements": improvements}


def test_a_live_search_tells_of_the_batch_in_which_its_time_is_up() -> None:
    live, sent = import_module("live"), []
    for elapsed_s in (0.0, 59.0):
        live._send_until(sent.append, "p", live.OURS, 60.0, batch(elapsed_s))
    with pytest.raises(live.TimeUpError):
        live._send_until(sent.append, "p", live.OURS, 60.0, batch(61.0))
    assert [one["elapsed_s"] for _, _, one in sent] == [0.0, 59.0, 61.0]


def test_live_searches_are_kept_as_they_go(tmp_path: Path, monkeypatch, capsys) -> None:
    live, out, kept = import_module("live"), tmp_path / "live.json", []

    def messages(function, plan, *, limit_s):
        for program in plan.programs:
            for name in (live.OURS, live.STOCK):
                yield program, name, batch(5.0, 3e-5)
                kept.append(msgspec.json.decode(out.read_bytes()))
        raise live.ProcessFailedError("the process died")

    monkeypatch.setattr(live, "messages", messages)
    monkeypatch.setattr(sys, "argv", ["live.py", "--json", str(out)])
    live.main()
    assert [sum(len(row["batches"]) for row in rows) for rows in kept] == [1, 2, 3, 4, 5, 6]
    assert "trace" not in kept[-1][0]["batches"][0]["improvements"][0]
    told = capsys.readouterr()
    assert told.out.count("| 30.0 | 5 | 16 | 30.0 |") == 3
    assert "the process died" in told.err
