"""What is measured of kernels beside each other on a machine that is made up, and how it is judged."""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import msgspec
import numpy as np
import pytest
from experiment_folder import found_beside
from fake_streams import FakeStreams, call

from costmodel.errors import CostModelError
from costmodel.kernels._sources import open_sources
from costmodel.planner import SharedMemory
from costmodel.planner.whatif._sharing import Waits
from costmodel.records import find_device
from costmodel.records._measurement import DeviceState

pytestmark = pytest.mark.white_box

FOLDER = Path(__file__).parents[2] / "experiments" / "neighbours"
MODULES = ["measure", "machine", "kernels", "measured", "shares", "learned", "run"]
KERNELS = ["a", "b", "c"]
DEVICE = find_device("NVIDIA H100 80GB HBM3")
ALONE_S = {"a": 1e-5, "b": 4e-5, "c": 2e-4}


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with found_beside(FOLDER, MODULES):
        import measure

        yield measure


@pytest.fixture(scope="module")
def judge() -> Iterator[ModuleType]:
    with found_beside(FOLDER, MODULES):
        import run

        yield run


class MadeUpMachine:
    """Each kernel takes half as long again beside ``c``, three times as long beside itself."""

    def __init__(self, refused: tuple[int, int] = (0, 0), breaks: str = "") -> None:
        self.refused, self.breaks, self.is_used_up = refused, breaks, False

    def split(self, layout: tuple[int, int]) -> tuple[int, int]:
        if layout == self.refused:
            raise RuntimeError("CUDA_ERROR_INVALID_RESOURCE")
        return layout

    def describe(self) -> dict[str, Any]:
        return {"device": {"name": "made up"}}

    def is_broken(self) -> bool:
        return self.is_used_up

    def time(self, kernels: Sequence[tuple[str, Any]], window_s: float) -> list[float]:
        names = [name for name, _ in kernels]
        if self.breaks in names[1:]:
            self.is_used_up = True
            raise RuntimeError("CUDA_ERROR_ILLEGAL_ADDRESS")
        others = [names[:i] + names[i + 1 :] for i in range(len(names))]
        factors = [
            3.0 if name in each else 1.5 if "c" in each else 1.0
            for name, each in zip(names, others, strict=True)
        ]
        return [ALONE_S[name] * factor for name, factor in zip(names, factors, strict=True)]

    def time_cold(self, name: str, place: Any, window_s: float, rounds: int) -> list[float]:
        return [2 * ALONE_S[name]] * rounds

    def sensors(self) -> dict[str, Any]:
        return {"clock_mhz": 1980.0}


def test_each_pair_on_each_layout_is_measured_and_some_again(script, tmp_path: Path) -> None:
    rows = script.Rows(tmp_path)
    script.measure(MadeUpMachine(), KERNELS, rows, script.time.time() + 5)
    pairs = rows.read("pairs")
    first = {(*row["kernels"], *row["sms"]): row for row in pairs if row["visit"] == 0}
    assert len(first) == 6 + 9 + 9 + 9
    assert len(pairs) == 2 * len(first)
    found = {pair: script.slowdowns(row).tolist() for pair, row in first.items()}
    assert found["a", "c", 32, 100] == pytest.approx([1.5, 1.0])
    assert found["c", "a", 32, 100] == pytest.approx([1.0, 1.5])
    assert found["b", "b", 16, 116] == pytest.approx([3.0, 3.0])
    assert {(row["kernel"], row["visit"]) for row in rows.read("whole")} == {
        (name, visit) for name in KERNELS for visit in (0, 1)
    }
    assert "| 64 + 64 | 6 | 2.250 | 3.000 | 3.000 |" in script.table(rows)


def test_a_layout_that_is_refused_is_written_down_and_left_out(script, tmp_path: Path) -> None:
    rows = script.Rows(tmp_path)
    script.measure(MadeUpMachine(refused=(32, 100)), KERNELS, rows, script.time.time() + 5)
    assert {tuple(row["sms"]) for row in rows.read("pairs")} == {(64, 64), (16, 116), (40, 80)}
    assert [row["error"] for row in rows.read("errors")] == ["CUDA_ERROR_INVALID_RESOURCE"]


def test_no_pair_starts_once_the_time_is_over(script, tmp_path: Path) -> None:
    rows = script.Rows(tmp_path)
    script.measure(MadeUpMachine(), KERNELS, rows, script.time.time())
    assert rows.read("pairs") == []


def test_a_device_that_breaks_is_left_to_another_process_without_the_kernels(
    script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(script.os, "execv", lambda _, command: started.append(command))
    monkeypatch.setattr(script, "Machine", lambda: MadeUpMachine(breaks="b"))
    monkeypatch.setattr(script, "load_all", lambda *_: KERNELS)
    monkeypatch.setattr(sys, "argv", ["measure.py", "--out", str(tmp_path), "--without", "d"])
    script.main()
    (command,) = started
    assert command[command.index("--until") + 1].replace(".", "").isdigit()
    without = [command[i + 1] for i, word in enumerate(command) if word == "--without"]
    assert without[0] == "d"
    assert "b" in without
    (error,) = script.Rows(tmp_path).read("errors")
    assert error["error"] == "CUDA_ERROR_ILLEGAL_ADDRESS"


def test_without_a_gpu_it_says_so(script, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = sys.modules["machine"]

    def no_driver() -> None:
        raise RuntimeError("no driver")

    monkeypatch.setattr(machine, "GreenContexts", no_driver)
    with pytest.raises(CostModelError, match=r"on an NVIDIA GPU .* \(no driver\)"):
        machine.Machine()


class FakeContexts:
    """Partitions on streams of a fake driver, on which each kernel takes a third longer beside another."""

    total_sms = 132

    def __init__(self) -> None:
        self.driver = FakeStreams(lambda stream, others: 3e-5 if not others else 4e-5)
        self.driver.cuMemAlloc = lambda size: (0, size)
        self.driver.cuMemsetD8Async = self._memset
        self.call = call
        self.sm_ids: dict[int, set[int]] = {}

    def streams(self, sms: int, partitions: int = 1) -> tuple[list[int], int]:
        return [stream for stream, _ in self.disjoint([sms] * partitions)], sms

    def _memset(self, *_: Any) -> tuple[int]:
        self.driver.launch()
        return (0,)

    def rest(self, sms: int) -> tuple[int, int]:
        (found,) = self.disjoint([self.total_sms - sms])
        self.sm_ids[found[0]] = set(range(sms, self.total_sms))
        return found

    def disjoint(self, sizes: Sequence[int]) -> list[tuple[int, int]]:
        found, first = [], 0
        for sms in sizes:
            stream = 100 + len(self.sm_ids)
            self.sm_ids[stream] = set(range(first, first + sms))
            found.append((stream, sms))
            first += sms
        return found

    def make_current(self) -> None:
        pass

    def synchronize(self) -> None:
        pass


class CopyRuntime:
    """Its only kernel copies its first array into its last; a broken one does not."""

    software: ClassVar[dict[str, str]] = {}

    def __init__(self, driver: FakeStreams) -> None:
        self.driver, self.streams = driver, set[int]()

    def load(self, artifact: Path) -> Any:
        def kernel(*arrays: Any) -> None:
            if self.driver.is_capturing:
                self.driver.launch()
            elif "broken" not in artifact.name:
                arrays[-1][:] = arrays[0]

        return kernel

    def copies(self, arrays: Any) -> Any:
        return [array.copy() for array in arrays]

    def read(self, array: Any) -> Any:
        return array.copy()

    def use_stream(self, stream: int) -> None:
        self.streams.add(stream)


class CopySource:
    artifact = ".cubin"

    def arguments(self, workload: Any) -> Any:
        return [np.arange(8.0), np.full(8, np.nan)]

    def outputs(self, workload: Any) -> tuple[int, ...]:
        return (1,)

    def tolerance(self, workload: Any) -> float:
        return 0.0


@pytest.fixture
def contexts(script, monkeypatch: pytest.MonkeyPatch) -> FakeContexts:
    """A GPU whose driver is a fake, for ``Machine``."""
    module, contexts = sys.modules["machine"], FakeContexts()
    spin = SimpleNamespace(sm_ids=contexts.sm_ids.__getitem__, hold=contexts.driver.hold)
    reader = SimpleNamespace(read=lambda: DeviceState(clock_mhz=1980.0, power_w=300.0))
    monkeypatch.setattr(module, "GreenContexts", lambda: contexts)
    monkeypatch.setattr(module, "SpinKernel", lambda *_: spin)
    monkeypatch.setattr(module, "pci_bus_id", lambda *_: "")
    monkeypatch.setattr(module, "StateReader", lambda _: reader)
    monkeypatch.setattr(module, "CubinRuntime", lambda driver, _: CopyRuntime(driver))
    return contexts


def test_the_machine_runs_kernels_with_buffers_of_their_own_beside_each_other(
    contexts: FakeContexts, tmp_path: Path
) -> None:
    module = sys.modules["machine"]
    machine = module.Machine()
    machine.open_runtimes({".cubin"})
    np.savez(tmp_path / "right.npz", np.arange(8.0))
    for name in ("copy", "other"):
        data = machine.data(CopySource(), None, tmp_path / "right.npz")
        assert not any(np.shares_memory(a, b) for a in data.copies(2)[0] for b in data.copies(2)[1])
        machine.load(name, Path(f"{name}.cubin"), data)
    with pytest.raises(RuntimeError, match="differs from the reference"):
        machine.load("broken", Path("broken.cubin"), machine.data(CopySource(), None, tmp_path / "right.npz"))
    for layout in ((64, 64), (32, 100), (40, 80)):
        assert machine.split(layout) == layout
        for pair in (("copy", "other"), ("copy", "copy")):
            both = [(pair[0], (layout, 0)), (pair[1], (layout, 1))]
            assert [machine.time([one], 1e-3)[0] for one in both] == pytest.approx([3e-5, 3e-5])
            assert machine.time(both, 1e-3) == pytest.approx([4e-5, 4e-5])
    assert machine.time([("copy", (module.WHOLE, 0))], 1e-3) == pytest.approx([3e-5])
    cold = machine.time_cold("copy", ((40, 80), 1), 1e-3, 2)
    assert cold == pytest.approx([3e-5, 3e-5])  # twice 30 us with what fills the cache
    assert machine.sensors() == {"clock_mhz": 1980.0, "power_w": 300.0, "throttle_reasons": []}
    assert not machine.is_broken()


def test_partitions_that_overlap_are_refused(contexts: FakeContexts) -> None:
    machine = sys.modules["machine"].Machine()
    contexts.disjoint = lambda sizes: [(1, 40), (2, 80)]  # type: ignore[method-assign]
    contexts.sm_ids |= {1: set(range(40)), 2: set(range(16, 96))}
    with pytest.raises(RuntimeError, match=r"partitions of \(40, 80\) must be disjoint"):
        machine.split((40, 80))


def test_every_kernel_has_a_candidate(script) -> None:
    kernels = sys.modules["kernels"]
    names = ("cuda", "triton", "library")
    sources = dict(zip(names, open_sources(names), strict=True))
    made = {each.name: kernels.candidate(each, sources) for each in kernels.KERNELS}
    assert len(made) == len(kernels.KERNELS) >= 24
    assert {each.source for each in made.values()} == set(names)


def test_kernels_that_are_wrong_are_not_timed(script, tmp_path: Path, monkeypatch) -> None:
    kernels = sys.modules["kernels"]
    small = [kernels.Kernel("cuda", f"cuda.{name}") for name in ("nbody-n64", "transpose-m16-n16")]
    monkeypatch.setattr(script, "KERNELS", small)

    class Loader(MadeUpMachine):
        def open_runtimes(self, artifacts: Any) -> None:
            assert artifacts == {".cubin"}

        def data(self, source: Any, workload: Any, reference: Path) -> Any:
            assert reference.exists()
            return SimpleNamespace(bytes=2 * sum(array.nbytes for array in source.arguments(workload)))

        def load(self, name: str, artifact: Path, data: Any) -> None:
            assert artifact.exists()
            if "nbody" in name:
                raise RuntimeError("its output differs from the reference")

    args = script.parse(["--out", str(tmp_path / "out"), "--builds", str(tmp_path / "builds")])
    rows = script.Rows(args.out)
    assert script.load_all(Loader(), args, rows) == ["cuda:cuda.transpose-m16-n16"]
    assert [row["argument_bytes"] for row in rows.read("kernels")] == [2 * 16 * 16 * 4]
    assert [row["kernels"] for row in rows.read("errors")] == [["cuda:cuda.nbody-n64"]]


def test_kernels_that_are_not_built_in_time_are_left_out(script, tmp_path: Path) -> None:
    name = "cuda:cuda.transpose-m1000-n1000"
    args = script.parse(["--out", str(tmp_path / "out"), "--time-limit", "1e-3", "--only", name])
    args.builds = tmp_path / "builds"
    machine = SimpleNamespace(open_runtimes=lambda artifacts: None)
    rows = script.Rows(args.out)
    assert script.load_all(machine, args, rows) == []
    assert rows.read("errors") == [{"kernels": [name], "error": "not built in time"}]


def recorded(folder: Path, slowdown: Any, again: float = 1.0) -> Path:
    """A folder of pairs of three kernels, whose slowdowns a function of their names says."""
    sizes = {"a": 4 * 10**7, "b": 10**8, "c": 3 * 10**8}
    rows = {
        "about": [{"device": msgspec.to_builtins(DEVICE)}],
        "kernels": [{"kernel": k, "argument_bytes": size, "candidate": {}} for k, size in sizes.items()],
        "whole": [
            {"kernel": k, "visit": visit, "latency_s": [ALONE_S[k] / 1.5] * 3}
            for k in KERNELS
            for visit in (0, 1)
        ],
        "cold": [
            {"kernel": k, "sms": [64, 64], "side": side, "latency_s": [ALONE_S[k] * 1.2] * 3}
            for k in KERNELS
            for side in (0, 1)
        ],
        "pairs": [
            {
                "kernels": [left, right],
                "sms": [64, 64],
                "visit": visit,
                "alone_s": [[ALONE_S[k]] * 3 for k in (left, right)],
                "beside_s": [
                    [ALONE_S[k] * factor * (again if visit else 1)] * 3
                    for k, factor in zip((left, right), slowdown(left, right), strict=True)
                ],
            }
            for left in KERNELS
            for right in KERNELS
            for visit in ((0, 1) if left == "a" else (0,))
        ],
    }
    folder.mkdir()
    for name, each in rows.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in each))
    return folder


def test_what_is_fitted_here_is_what_the_planner_says(judge, tmp_path: Path) -> None:
    sizes = {"a": 4 * 10**7, "b": 10**8, "c": 3 * 10**8}
    true = SharedMemory(DEVICE)

    def by_planner(left: str, right: str) -> list[float]:
        return true.slowdowns([ALONE_S[left], ALONE_S[right]], [sizes[left], sizes[right]])

    measured = judge.read(recorded(tmp_path / "data", by_planner, again=1.02))
    learned = sys.modules["learned"]
    exact = judge.judge(measured, learned.slowdowns(np.array(Waits()), measured, learned.waits))
    assert (exact["mean"], exact["p90"], exact["right"]) == pytest.approx((0, 0, 1))
    assert judge.judge(measured, learned.by_waits(measured, measured))["mean"] < 0.005
    assert judge.judge(measured, np.ones((9, 2)))["mean"] > 0.2
    assert judge.repeats(measured)["mean"] == pytest.approx(0.02)
    assert judge.repeats(measured)["pairs"] == 3


def test_what_is_learned_has_seen_neither_kernel(judge, tmp_path: Path) -> None:
    own = {"a": 1.0, "b": 2.0, "c": 4.0}
    measured = judge.read(recorded(tmp_path / "data", lambda left, right: [own[left], own[right]]))
    groups = np.vectorize(KERNELS.index)(measured.kernels)
    predicted = sys.modules["learned"].held_out(measured, groups, judge.mean_of_others)
    by_pair = {
        tuple(pair): each for pair, each in zip(measured.kernels.tolist(), predicted.tolist(), strict=True)
    }
    assert by_pair["a", "b"] == by_pair["b", "a"] == [4, 4]
    assert by_pair["a", "a"] == [3, 3]  # bb, bc, cb and cc


def test_kernels_of_one_operator_are_of_one_group(judge) -> None:
    learned = sys.modules["learned"]
    names = np.array(
        [["cuda:cuda.softmax-m1-n2", "triton:softmax-m3-n4-float16"], ["library:matmul-m1", "cuda:lrn-n1"]]
    )
    assert learned.operators(names).tolist() == [["softmax", "softmax"], ["matmul", "lrn"]]
    groups = learned.random_groups(learned.operators(names), 3)
    assert groups[0, 0] == groups[0, 1]
    assert len(np.unique(groups)) == 3


def test_what_a_cold_kernel_takes_is_known_by_its_side(judge, tmp_path: Path) -> None:
    data = recorded(tmp_path / "data", lambda left, right: [1.0, 1.0])
    rows = [json.loads(line) for line in (data / "cold.jsonl").read_text().splitlines()]
    kept = [row for row in rows if (row["kernel"], row["side"]) != ("b", 1)]
    (data / "cold.jsonl").write_text("".join(json.dumps(row) + "\n" for row in kept))
    measured = judge.read(data)
    missing = np.isnan(measured.cold_s)
    assert (measured.kernels[:, 1][missing[:, 1]] == "b").all()
    assert missing.sum() == 3
    assert measured.cold_s[~missing] == pytest.approx(1.2 * measured.alone_s[~missing])


def test_kernels_run_together_where_that_takes_less_than_in_turn_on_all_sms(judge, tmp_path: Path) -> None:
    """``b`` takes 27 us on all SMs, 53 us twice; beside another 40 us, or 100 us where that slows it."""
    measured = judge.read(recorded(tmp_path / "data", lambda left, right: [2.5, 2.5]))
    rows = [i for i, pair in enumerate(measured.kernels.tolist()) if pair == ["b", "b"]]
    of_pair = measured.take(np.array(rows))
    assert judge.judge(of_pair, np.full((1, 2), 1.0))["right"] == 0
    assert judge.judge(of_pair, np.full((1, 2), 2.4))["right"] == 1


def test_of_a_table_only_what_is_looked_up_counts(judge) -> None:
    measured = sys.modules["measured"]
    launch = {"global_load_bytes": 300, "device_bytes": 200}
    row = {"argument_bytes": 1000, "candidate": {"launches": [launch]}}
    assert measured.moved_bytes(row) == 200
    del launch["device_bytes"]
    assert measured.moved_bytes(row) == 300
    assert measured.moved_bytes({"argument_bytes": 1000, "candidate": {}}) == 1000


def test_a_table_and_a_file_come_out(judge, tmp_path: Path, monkeypatch, capsys) -> None:
    data = recorded(tmp_path / "data", lambda left, right: [1.2, 1.0])
    monkeypatch.setattr(sys, "argv", ["run.py", "--data", str(data), "--json", str(tmp_path / "result.json")])
    judge.main()
    assert "| no slowdown | 8.3 % |" in capsys.readouterr().out
    content = json.loads((tmp_path / "result.json").read_text())
    assert content["pairs"] == 9
    assert content["never_seen"]["operators"]["no slowdown"]["mean_of_slowed"] == pytest.approx(1 - 1 / 1.2)
