"""What is measured of kernels beside each other, on a machine that is made up."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from experiment_folder import found_beside

from costmodel.errors import CostModelError
from costmodel.kernels import open_sources

FOLDER = Path(__file__).parents[2] / "experiments" / "neighbours"
KERNELS = ["a", "b", "c"]
ALONE_S = {"a": 1e-5, "b": 4e-5, "c": 2e-4}


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with found_beside(FOLDER, ["measure", "machine", "kernels"]):
        import measure

        yield measure


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

    def sensors(self) -> dict[str, Any]:
        return {"clock_mhz": 1980.0}


def test_each_pair_on_each_layout_is_measured_and_some_again(script, tmp_path: Path) -> None:
    rows = script.Rows(tmp_path)
    script.measure(MadeUpMachine(), KERNELS, rows, script.time.time() + 5)
    pairs = rows.read("pairs")
    first = {(*row["kernels"], *row["sms"]): row for row in pairs if row["visit"] == 0}
    assert len(first) == 6 + 9 + 9
    assert len(pairs) == 2 * len(first)
    found = {pair: script.slowdowns(row).tolist() for pair, row in first.items()}
    assert found["a", "c", 32, 96] == pytest.approx([1.5, 1.0])
    assert found["c", "a", 32, 96] == pytest.approx([1.0, 1.5])
    assert found["b", "b", 16, 112] == pytest.approx([3.0, 3.0])
    assert {(row["kernel"], row["visit"]) for row in rows.read("whole")} == {
        (name, visit) for name in KERNELS for visit in (0, 1)
    }
    assert "| 64 + 64 | 6 | 2.250 | 3.000 | 3.000 |" in script.table(rows)


def test_a_layout_that_is_refused_is_written_down_and_left_out(script, tmp_path: Path) -> None:
    rows = script.Rows(tmp_path)
    script.measure(MadeUpMachine(refused=(32, 96)), KERNELS, rows, script.time.time() + 5)
    assert {tuple(row["sms"]) for row in rows.read("pairs")} == {(64, 64), (16, 112)}
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
        def open_runtimes(self) -> None:
            pass

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
