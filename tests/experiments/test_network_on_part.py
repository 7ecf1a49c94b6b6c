"""The experiment on a network runs through on a CPU, in small; what needs a GPU is driven with fakes."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from experiment_folder import without_tensor_intrinsics

pytest.importorskip("tvm")

pytestmark = pytest.mark.tvm

FOLDER = Path(__file__).parents[2] / "experiments" / "network_on_part"
NETWORK = ("--tokens", 8, "--size", 32, "--heads", 2, "--tune", "softmax")
SEARCH = ("--trials", 2, "--population", 8, "--generations", 1, "--threads", 1, "--sms", 1, "--visits", 3)


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """Import a module of the experiment, which is a folder of scripts; all are forgotten in the end."""
    monkeypatch.syspath_prepend(FOLDER)
    yield import_module
    for script in FOLDER.glob("*.py"):
        sys.modules.pop(script.stem, None)


def run(folder: Path) -> tuple[dict[str, Any], str]:
    """What the experiment writes to its file, and what it prints."""
    result = folder / "result.json"
    command = [sys.executable, FOLDER / "run.py", "--runner", "cpu", "--json", result, *NETWORK, *SEARCH]
    done = subprocess.run(
        list(map(str, command)),
        env=without_tensor_intrinsics(folder),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(result.read_text()), done.stdout


@pytest.mark.rehearsal
def test_a_network_is_tuned_run_and_right(tmp_path: Path) -> None:
    found, printed = run(tmp_path)
    workloads = {row["workload"] for row in found["tasks"] if row["workload"]}
    assert len(workloads) == 8
    assert [row["workload"] for row in found["tasks"] if row["tuned"]] == ["softmax-m16-n8"]
    assert {name: (p["trials"], p["failed"], p["cut"]) for name, p in found["phases"].items()} == {
        "stock-whole": (2, 0, False),
        "ours-part": (2, 0, False),
        "ours-whole": (2, 0, False),
    }
    names = ["untuned", "stock-whole", "ours-part", "ours-whole", "ours-whole (A/A)"]
    assert list(found["latency_s"]) == names
    assert all(error < 1e-5 for error in found["largest_error"].values())
    assert all(f"| {name} | " in printed for name in names)


def test_the_reference_is_an_encoder(load: Callable[[str], ModuleType]) -> None:
    """Without mixing weights, both norms see the embeddings alone."""
    import numpy as np

    block = load("transformer_block").Block(4, 8, 2)
    inputs = block.inputs()
    for name, array in inputs.items():
        if name.endswith(("out.weight", "down.weight", "bias")):
            array[:] = 0.0
        if name.endswith("gain"):
            array[:] = 1.0
    x = inputs["x"].astype(float)
    normed = (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)
    np.testing.assert_allclose(block.reference(inputs), normed, atol=1e-4)


class FakeWays:
    """A way of tuning that writes down where it was opened."""

    def __init__(self) -> None:
        self.opened: list[Path] = []

    @contextmanager
    def pieces(self, settings: Any, folder: Path, sms: int) -> Iterator[dict[str, Any]]:
        self.opened.append(folder)
        yield {"left": folder / "half-written"}


def settings(load: Callable[[str], ModuleType], trials: int = 2) -> Any:
    return load("tuning_ways").Settings("cpu", trials, 2, 8, 1, 1, None, keep_builders=False)


def test_a_killed_phase_starts_again_and_a_done_one_is_kept(
    tmp_path: Path, load: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    tuning, ways, fake = load("tuning"), load("tuning_ways"), FakeWays()
    phase = ways.Phase("mine", 1, fake.pieces, lambda folder: folder)
    tasks = SimpleNamespace(names=["softmax"])

    def killed(*arguments: Any) -> Any:
        arguments[-1]["left"].write_text("torn")
        raise KeyboardInterrupt

    def finished(*arguments: Any) -> Any:
        assert not arguments[-1]["left"].exists()
        return SimpleNamespace(trials=2, failed=1, cut=False)

    monkeypatch.setattr(tuning, "_run", killed)
    with pytest.raises(KeyboardInterrupt):
        tuning.tune(phase, tasks, settings(load), tmp_path, 0.0)
    monkeypatch.setattr(tuning, "_run", finished)
    found = tuning.tune(phase, tasks, settings(load), tmp_path, 0.0)
    assert (found["trials"], found["failed"], len(fake.opened)) == (2, 1, 2)
    assert tuning.tune(phase, tasks, settings(load), tmp_path, 0.0) == found
    assert len(fake.opened) == 2
    with pytest.raises(ValueError, match=r"'trials': 2.*'trials': 3.*Name another"):
        tuning.tune(phase, tasks, settings(load, trials=3), tmp_path, 0.0)


def test_a_tuner_is_stopped_when_the_time_is_over(load: Callable[[str], ModuleType]) -> None:
    ran, failed = SimpleNamespace(run_secs=[1.0]), SimpleNamespace(run_secs=None)
    early, late = load("tuning").Counter("x", float("inf")), load("tuning").Counter("x", 0.0)
    early.count([ran, failed, ran])
    with pytest.raises(TimeoutError):
        late.count([ran])
    assert (early.trials, early.failed, early.cut) == (3, 1, False)
    assert (late.trials, late.failed, late.cut) == (1, 0, True)


class FakeContexts:
    """Parts whose streams are 1000 more than their SMs, rounded up to 8."""

    total_sms = 132

    def __init__(self) -> None:
        self.driver, self.call = SimpleNamespace(), lambda value: value
        self.synchronized = 0

    def streams(self, sms: int) -> tuple[list[int], int]:
        granted = sms if sms == self.total_sms else -(-sms // 8) * 8
        return [1000 + granted], granted

    def synchronize(self) -> None:
        self.synchronized += 1


class FakeSpin:
    lost = 0  # SMs that kernels do not run on

    def __init__(self, driver: Any, call: Any) -> None:
        self.asked: list[int] = []

    def sm_ids(self, stream: int) -> frozenset[int]:
        self.asked.append(stream)
        return frozenset(range(stream - 1000 - self.lost))

    def hold(self, stream: int) -> None:
        pass


class FakeGraphStopwatch:
    """Runs in the time that the stream's part of the device takes; refuses another stream than its own."""

    def __init__(self, driver: Any, call: Any, stream: int, launch: Callable[[], Any], hold: Any) -> None:
        self._stream, self._launch = stream, launch

    def time(self, runs: int) -> float:
        for _ in range(runs):
            assert self._launch() == self._stream, "the part must be entered that the graph is captured on"
        return 1.0 / self._stream


@pytest.fixture
def gpu(load: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> Any:
    """A GPU whose kernels run on the stream that TVM was told last."""
    import tvm

    device = SimpleNamespace(stream=0)
    device.set_raw_stream = lambda stream: setattr(device, "stream", stream)
    monkeypatch.setattr(tvm, "cuda", lambda position: device)
    monkeypatch.setattr("costmodel.collector.device._green_context.GreenContexts", FakeContexts)
    monkeypatch.setattr("costmodel.collector.device._spin_kernel.SpinKernel", FakeSpin)
    monkeypatch.setattr("costmodel.collector.device._graph_timer.GraphStopwatch", FakeGraphStopwatch)
    return load("device_parts").CudaParts()


def test_a_part_of_a_gpu_is_entered_by_its_stream_and_counted_once(gpu: Any) -> None:
    assert [gpu.enter(sms) for sms in (30, 132, 30)] == [32, 132, 32]
    assert gpu.device.stream == 1032
    assert gpu._spin.asked == [1032, 1132]
    assert gpu._contexts.synchronized == 3


def test_a_part_with_fewer_sms_than_granted_is_refused(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from costmodel.errors import CostModelError

    monkeypatch.setattr(FakeSpin, "lost", 8)
    with pytest.raises(CostModelError, match="granted 32 and they ran on 24"):
        gpu.enter(32)


def test_networks_are_timed_on_the_part_that_each_repeat_enters(
    gpu: Any, load: Callable[[str], ModuleType]
) -> None:
    def launch() -> int:
        return int(gpu.device.stream)

    found = load("running").time_side_by_side(
        {"a": launch, "b": launch}, gpu, {"part": 32, "whole": 132}, visits=3
    )
    assert found == {name: {"part": 1 / 1032, "whole": 1 / 1132} for name in "ab"}


def test_outputs_are_compared_after_the_stream_is_done(gpu: Any, load: Callable[[str], ModuleType]) -> None:
    import numpy as np

    class Output:
        def __init__(self) -> None:
            self.launched_at = gpu._contexts.synchronized

        def numpy(self) -> Any:
            assert gpu._contexts.synchronized > self.launched_at
            return np.array([1.0, 2.5])

    found = load("running").largest_error(gpu, 32, Output, np.array([1.0, 2.0]))
    assert found == 0.5


def test_the_table_says_what_was_found(load: Callable[[str], ModuleType]) -> None:
    report = {
        "granted": {"part": 32, "whole": 132},
        "phases": {"ours-part": {"trials": 512, "failed": 3, "cut": True, "seconds": 99.6}},
        "latency_s": {
            "untuned": {"part": 1e-3, "whole": 4e-4},
            "ours-part": {"part": 2e-4, "whole": 1e-4},
        },
        "largest_error": {"untuned": 1e-6, "ours-part": 2e-6},
    }
    script = load("run")
    assert script.table(report).splitlines()[2:] == [
        "| untuned |  | | | 1000.0 | 400.0 | 1e-06 |",
        "| ours-part | 512 (cut) | 3 | 100 | 200.0 | 100.0 | 2e-06 |",
    ]
    script.check(report["largest_error"])
    with pytest.raises(SystemExit, match="untuned"):
        script.check({"untuned": float("nan"), "ours-part": 0.0})


def test_the_summary_compares_each_where_it_was_tuned_for(load: Callable[[str], ModuleType]) -> None:
    latency_s = {
        "stock-whole": {"part": 4.0, "whole": 2.0},
        "ours-part": {"part": 3.0, "whole": 9.0},
        "ours-whole": {"part": 6.0, "whole": 1.0},
        "ours-whole (A/A)": {"part": 6.0, "whole": 0.98},
    }
    said = load("run").summary(latency_s)
    assert "0.750 on the part, 0.500 on the whole" in said
    assert "for the whole device: 0.500. A/A: within 2.0%" in said
