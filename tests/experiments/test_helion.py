"""The experiment's kernels compile for all that is asked, and what becomes of what is measured."""

import subprocess
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from experiment_folder import found_beside

FOLDER = Path(__file__).parents[2] / "experiments" / "helion"


@pytest.fixture
def measure() -> Iterator[Any]:
    with found_beside(FOLDER, ("measure", "options")):
        yield import_module("measure")


def test_what_is_to_be_measured_first_goes_before_the_rest(measure: Any) -> None:
    assert measure.KERNELS[:2] == ("matmul", "layer_norm")
    assert set(measure.NICENESS) == {*measure.KERNELS[2:]}


@pytest.mark.triton
@pytest.mark.parametrize("name", ["matmul", "softmax", "layer_norm"])
def test_helion_compiles_the_kernels(name: str) -> None:
    helion, torch = pytest.importorskip("helion"), pytest.importorskip("torch")
    with found_beside(FOLDER, ("kernels",)):
        case = import_module("kernels").CASES[name]
        inputs = case.inputs(case.shapes[0], "cpu")
        bound = helion.kernel(case.kernel, static_shapes=True).bind(inputs)
        assert "triton.jit" in bound.to_triton_code(bound.config_spec.default_config())
        assert case.expected(*inputs).shape == torch.Size((case.shapes[0][0], case.shapes[0][1]))


def answer(tuner: str, shape: int, us: float | None, **told: Any) -> dict[str, Any]:
    place = {"kernel": "softmax", "what": "answer", "shape": [shape, 8], "place": "part"}
    return {**place, "tuner": tuner, "us": us, "error": 1e-4, "timed": 50, "search_s": 2.0, **told}


def test_a_summary_compares_with_helions_search(measure: Any, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"what": "place", "device": "X1", "part_sms": 32},
        answer("helion", 4, 10.0),
        answer("ours", 4, 11.0, timed=5),
        answer("helion", 5, 20.0),
        answer("ours", 5, 18.0, timed=7, error=0.5),
        answer("random", 5, None, failed="no config"),
        answer("ours", 6, 5.0),  # Helion's own failed there
    ]
    found = measure.summary(rows)
    ours = found["tuners"]["ours"]
    assert (ours["cells"], ours["timed"], ours["within_5_percent"], ours["wrong"]) == (2, 6.0, 1, 1)
    assert (ours["best"], ours["over_helion"], ours["worst"]) == pytest.approx((0.9, 1.0, 1.1))
    assert found["tuners"]["random"]["failed"] == 1
    assert found["tuners"]["default"]["over_helion"] is None
    measure.print_table(found)
    assert "ours, a tenth of its configs" in capsys.readouterr().out


def test_what_a_kernels_process_started_ends_with_it(measure: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: Any) -> Any:
        script = 'sleep 60 & echo \'{"kernel": "matmul"}\'; sleep 60'
        return subprocess.Popen(
            ["sh", "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True
        )

    monkeypatch.setattr(measure, "start_kernel", start)
    options = SimpleNamespace(only=["matmul"], time_limit=1.0 - measure.GRACE_S)
    start_s = time.monotonic()
    assert list(measure.measure(options)) == ['{"kernel": "matmul"}\n']
    assert time.monotonic() - start_s < 30.0
