"""Two recordings compared: each cause is told apart, and the causes add up to the difference."""

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kineto_traces import Machine, two_streams

from costmodel.planner import compare_recordings, plan
from costmodel.planner._compare import ComparedRecordings

pytestmark = pytest.mark.white_box

TRACES = Path(__file__).parents[2] / "datasets/traces/traces.zip"
SHAPES = {"Input Dims": [[128, 256], [256, 512]], "Input type": ["float", "float"]}
WIDER = {"Input Dims": [[256, 256], [256, 512]], "Input type": ["float", "float"]}


def _step(machine: Machine, **changes: object) -> Machine:
    """Ten products and one sum; ``changes`` are of the products."""
    kernel, duration = str(changes.get("kernel", "sgemm_128x64")), float(str(changes.get("us", 60.0)))
    shapes = changes.get("shapes", SHAPES)
    assert isinstance(shapes, dict)
    for _ in range(int(str(changes.get("calls", 10)))):
        machine.operator("aten::mm", kernel, duration, **shapes)
    machine.operator("aten::sum", "reduce_kernel", 20.0)
    machine.synchronize()
    return machine


def _compared(folder: Path, before: Machine, after: Machine) -> ComparedRecordings:
    return compare_recordings(before.save(folder / "before.json"), after.save(folder / "after.json"))


@pytest.mark.parametrize(
    ("changes", "cause", "change_us"),
    [
        ({"calls": 7}, "calls", -180.0),
        ({"us": 45.0}, "speed", -150.0),
        ({"us": 45.0, "kernel": "sgemm_64x64"}, "kernel", -150.0),
        ({"us": 80.0, "shapes": WIDER}, "shape", 200.0),
    ],
    ids=["fewer calls", "the same faster", "another kernel", "another shape"],
)
def test_each_cause_is_told_apart(
    tmp_path: Path, changes: dict[str, object], cause: str, change_us: float
) -> None:
    found = _compared(tmp_path, _step(Machine()), _step(Machine(), **changes))
    row = found.table.iloc[0]
    assert row["group"] == "aten::mm"
    assert 1e6 * row["change_s"] == pytest.approx(change_us)
    assert 1e6 * row[f"{cause}_s"] == pytest.approx(change_us)
    assert 1e6 * found.causes[cause] == pytest.approx(change_us)


def test_calls_and_speed_at_once_are_split_by_what_a_call_took_before(tmp_path: Path) -> None:
    found = _compared(tmp_path, _step(Machine()), _step(Machine(), calls=20, us=30.0))
    assert 1e6 * found.causes["calls"] == pytest.approx(600.0)
    assert 1e6 * found.causes["speed"] == pytest.approx(-600.0)


def test_a_recording_does_not_differ_from_itself(tmp_path: Path) -> None:
    found = _compared(tmp_path, two_streams(Machine()), two_streams(Machine()))
    assert set(found.causes.values()) == {0.0}
    assert found.speedup == 1.0
    assert found.verdict().endswith("1.00x as fast.")


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(st.sampled_from(["sgemm", "conv", "elementwise", "softmax"]), st.floats(0.1, 9.0)),
    st.integers(2, 20),
)
def test_causes_add_up_to_the_difference(tmp_path: Path, factors: dict[str, float], layers: int) -> None:
    found = _compared(tmp_path, two_streams(Machine()), two_streams(Machine(factors), layers))
    difference = found.after.makespan_s - found.before.makespan_s
    assert sum(found.causes.values()) == pytest.approx(difference, abs=1e-12)
    parts = found.table.filter(regex="^(calls|shape|kernel|grid|speed)_s$").sum(axis=1)
    assert parts.to_numpy() == pytest.approx(found.table["change_s"].to_numpy(), abs=1e-12)


@pytest.fixture
def recorded(tmp_path: Path) -> Callable[[str], Path]:
    """Traces of BERT on an H100, by variant."""

    def extract(variant: str) -> Path:
        with zipfile.ZipFile(TRACES) as archive:
            return Path(archive.extract(f"bert/{variant}.json", tmp_path))

    return extract


def test_a_cuda_graph_saves_time_in_which_nothing_runs(recorded: Callable[[str], Path]) -> None:
    """A CUDA graph tells no operators, so that kernels are compared by what they do."""
    found = compare_recordings(recorded("eager"), recorded("graph"), within="iteration")
    assert min(found.causes, key=lambda cause: found.causes[cause]) == "idle"
    assert set(found.table["group"]) == {"(product)", "(reducing)", "(scattered)", "(streaming)"}
    assert (found.table["kernels_before"] == found.table["kernels_after"]).all()


def test_half_precision_is_other_kernels_for_the_same_work(recorded: Callable[[str], Path]) -> None:
    found = compare_recordings(recorded("eager"), recorded("half"), within="iteration")
    assert min(found.causes, key=lambda cause: found.causes[cause]) == "kernel"
    assert "half.json takes" in found.verdict()
    assert "another kernel for the same work" in found.verdict()
    assert found.table.iloc[0]["group"] == "aten::addmm"


def test_operators_are_beside_the_roofline(recorded: Callable[[str], Path]) -> None:
    """A float32 product of BERT runs at about half of the CUDA cores' rate; nothing is above its roofline."""
    table = plan(recorded("eager+shapes"), within="iteration").operators.set_index("operator")
    assert table["share"].sum() == pytest.approx(1.0)
    product = table.loc["aten::addmm"]
    # Of each of four layers: 1,024 rows times 768 x 2,304, 768 x 768, and 768 x 3,072 and back.
    assert product["kernels"] == 16
    assert product["flops_per_s"] * product["seconds"] == pytest.approx(58e9, rel=0.01)
    assert 0.3 < product["roofline_share"] < 0.7
    assert table["roofline_share"].max() <= 1.0
    assert table.loc["aten::mul", "known_share"] == 0.0


def test_a_graph_without_operators_is_added_up_by_kind(tmp_path: Path) -> None:
    file = tmp_path / "graph.json"
    file.write_text(
        '{"tasks": [{"id": "a", "kind": "kernel", "name": "sgemm", "duration_s": 1e-5},'
        ' {"id": "b", "kind": "copy", "duration_s": 2e-5}]}'
    )
    table = plan(file).operators
    assert list(table["operator"]) == ["(copy)", "(product)"]


def test_a_graph_without_kernels_has_no_operators(tmp_path: Path) -> None:
    file = tmp_path / "graph.json"
    file.write_text('{"tasks": [{"id": "a", "kind": "host", "duration_s": 1e-5}]}')
    assert plan(file).operators.empty
    assert compare_recordings(file, file).table.empty
