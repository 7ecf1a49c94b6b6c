"""``costmodel plan``: a trace in, tables and files out."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import command
from typer.testing import CliRunner

from costmodel.cli._app import app

sys.path.append(str(Path(__file__).parents[1] / "planner"))
from kineto_traces import Machine, two_streams

pytestmark = pytest.mark.white_box

RELAX = """
from tvm import relax

builder = relax.BlockBuilder()
x = relax.Var("x", relax.TensorType((1536, 128), "float32"))
y = relax.Var("y", relax.TensorType((128, 768), "float32"))
gain, bias = (relax.Var(name, relax.TensorType((768,), "float32")) for name in ("gain", "bias"))
with builder.function("main", [x, y, gain, bias]):
    with builder.dataflow():
        one = builder.emit(relax.op.nn.softmax(x, axis=1))
        two = builder.emit(relax.op.nn.layer_norm(y, gain, bias, axes=[-1], epsilon=1e-5))
        both = builder.emit_output(relax.Tuple([one, two]))
    builder.emit_func_output(both)
module = builder.get()
"""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return two_streams(Machine()).save(tmp_path / "trace.json")


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["plan", *map(str, arguments)], env={"COLUMNS": "140"})
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_trace_is_shown_as_it_is(trace: Path) -> None:
    shown = run(trace)
    assert re.search(r"kernels\s+44\b", shown)
    assert "after" not in shown
    assert "Assumed" not in shown
    assert "sgemm_128x64" in shown


def test_a_long_name_is_broken_and_its_numbers_stand_beside_it(tmp_path: Path) -> None:
    functor = (
        "at::native::gpu_kernel_impl_nocast<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)"
    )
    name = f"void at::native::elementwise_kernel<128, 2, {functor}>"
    (tmp_path / "graph.json").write_text(
        json.dumps({"tasks": [{"id": "copy", "name": name, "duration_s": 7e-6}]})
    )
    shown = CliRunner().invoke(app, ["plan", str(tmp_path / "graph.json")], env={"COLUMNS": "80"}).stdout
    table = shown[shown.index("Critical path, ") :]
    assert max(map(len, table.splitlines())) <= 80
    assert re.search(r" name +kind +tasks +us +% \n", table)
    assert "".join(name.split()) == re.sub(r"\s|kernel +1 +7\.0 +100\.0", "", table[table.index("void") :])


def test_a_program_without_its_module_is_told_how_to_name_it(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(RELAX)
    result = CliRunner().invoke(app, ["plan", str(tmp_path / "model.py")])
    assert result.exit_code == 2
    assert "must be named with its file, as in" in result.output
    assert "model.py:module" in result.output


def test_a_what_if_is_shown_beside_it_and_written(trace: Path, tmp_path: Path) -> None:
    files = {
        "json": tmp_path / "plan.json",
        "perfetto": tmp_path / "after.json",
        "plot": tmp_path / "lanes.png",
        "report": tmp_path / "plan.html",
    }
    written = [word for name in files for word in (f"--{name}", files[name])]
    shown = run(trace, "--what-if", "graphs,scale:sgemm=0.5", *written)
    result = json.loads(files["json"].read_text())
    assert f"{result['speedup']:.2f}x as fast as before." in shown
    assert result["before"]["makespan_s"] == pytest.approx(result["recorded_s"])
    assert result["after"]["launches"] < result["before"]["launches"]
    assert [each in shown for each in result["assumptions"]] == [True, True]
    assert files["plot"].read_bytes().startswith(b"\x89PNG")
    page = files["report"].read_text()
    assert "<script" not in page
    assert "http" not in page
    assert result["assumptions"][0] in page
    timeline = json.loads(files["perfetto"].read_text())["traceEvents"]
    ends = [each["ts"] + each["dur"] for each in timeline if each["ph"] == "X"]
    starts = [each["ts"] for each in timeline if each["ph"] == "X"]
    assert (max(ends) - min(starts)) * 1e-6 == pytest.approx(result["after"]["makespan_s"])
    lanes = {each["args"]["name"] for each in timeline if each["ph"] == "M" and each["name"] == "thread_name"}
    assert lanes == {"process 7 thread 7", "GPU 0 stream 7", "GPU 0 stream 13"}
    arrows = [each for each in timeline if each["ph"] in "sf"]
    assert {each["ph"] for each in arrows} == {"s", "f"}


def test_a_step_is_shown_as_it_is_without_the_profiler(tmp_path: Path) -> None:
    machine = Machine()
    machine.launch("first", 300.0)
    machine.synchronize()
    began = machine.now
    annotation = machine.host("ProfilerStep#1", 0.0, "user_annotation")
    for _ in range(10):
        machine.operator("aten::add", "add_kernel", 2.0)
    machine.now += 4.0
    annotation["dur"] = machine.now - began
    machine.synchronize()
    path, result = machine.save(tmp_path / "trace.json"), tmp_path / "plan.json"
    shown = run(
        path, "--within", "ProfilerStep*", "--measured", "6e-5", "--what-if", "graphs", "--json", result
    )
    assert "Without the profiler the host takes" in shown
    found = json.loads(result.read_text())
    assert found["before"]["kernels"] == 10
    assert found["before"]["makespan_s"] > found["after"]["makespan_s"]


def test_what_is_wrong_in_a_trace_is_said(trace: Path) -> None:
    trace.write_bytes(trace.read_bytes()[:-300])
    assert "1 x truncated: the file ends, or cannot be read, before its end" in run(trace)


def test_a_graph_of_ones_own_is_told_by_its_first_key(tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    path.write_text('{\n  "tasks": [{"id": "mm", "duration_s": 2e-5}]}')
    assert re.search(r"makespan, us\s+20\.0", run(path))


@pytest.mark.tvm
def test_a_relax_module_is_planned_for_its_sms_and_for_others(tmp_path: Path) -> None:
    pytest.importorskip("tvm")
    program, result = tmp_path / "program.py", tmp_path / "plan.json"
    program.write_text(RELAX)
    asked = (f"{program}:module", "--device", "H200", "--what-if", "sms=32,tuned", "--rank")
    shown = run(
        *asked, "--json", result, "--plot", tmp_path / "lanes.png", "--report", tmp_path / "plan.html"
    )
    assert "2 calls of 2 kernels take what was recorded of their best kernel on 132 SMs of NVIDIA H200" in (
        " ".join(shown.split())
    )
    found = json.loads(result.read_text())
    assert found["before"]["makespan_s"] < found["after"]["makespan_s"]
    assert [each["gain_s"] for each in found["rank"]["kernels"]] == [0.0, 0.0]  # tuned already
    alone = json.loads(run_for_json(f"{program}:module", "--device", "H200", "--sms", 32, at=result))
    assert alone["before"]["makespan_s"] == pytest.approx(found["after"]["makespan_s"])


def test_what_to_tune_next_goes_to_jobs(tmp_path: Path) -> None:
    graph, jobs = tmp_path / "graph.json", tmp_path / "jobs.toml"
    task = {"id": "a", "duration_s": 1e-4, "sms": 32, "workload": "softmax-m1536-n128"}
    graph.write_text(json.dumps({"tasks": [task, {"id": "b", "duration_s": 1e-4, "sms": 32}]}))
    shown = run(graph, "--rank", "--out", jobs)
    assert "50% of the time of kernels is of these." in shown
    assert "To begin: costmodel tune softmax-m1536-n128 --sms 32 --runner cuda" in shown
    store = str(tmp_path / "jobs.db")
    result = CliRunner().invoke(app, ["jobs", "submit", str(jobs), "--store", store])
    assert result.exit_code == 0, result.output
    assert "Job 1: what to tune next, tasks: 1, 16 candidates to measure." in result.stdout


def run_for_json(*arguments: object, at: Path) -> str:
    run(*arguments, "--json", at)
    return at.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.json"], "Cannot read none.json"),
        (["{trace}", "--what-if", "fuze"], "Did you mean 'fuse'"),
        (["{trace}", "--sms", "32"], "Use the what-if sms=32"),
        (["{trace}", "--rank", "--device", "A100"], "must be one of those measured"),
        (["{trace}", "--within", "step"], "must have the name 'step'"),
        (["{trace}", "--measured", "0"], "must be above 0"),
    ],
)
def test_wrong_input_is_one_line(
    trace: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    result = CliRunner().invoke(app, ["plan", *(each.format(trace=trace) for each in arguments)])
    assert result.exit_code == 2
    assert message in capsys.readouterr().err + result.stderr


def test_another_device_is_shown_with_what_it_lies_between(trace: Path, tmp_path: Path) -> None:
    written = tmp_path / "plan.json"
    shown = run(trace, "--what-if", "device:H100 SXM=H200", "--json", written)
    result = json.loads(written.read_text())
    least, most = (result["before"]["makespan_s"] / end for end in result["ends_s"][::-1])
    assert f"{result['speedup']:.2f}x as fast as before, between {least:.2f}x and {most:.2f}x." in shown


def test_a_sweep_is_shown_drawn_and_written(trace: Path, tmp_path: Path) -> None:
    files = {"json": tmp_path / "sweep.json", "plot": tmp_path / "sweep.png"}
    written = [word for name in files for word in (f"--{name}", files[name])]
    shown = run(trace, "--recorded-on", "H100 SXM", "--sweep", "sms=64:128:32", *written)
    devices = json.loads(files["json"].read_text())["devices"]
    assert [each["sms"] for each in devices] == [64, 96, 128]
    for each in devices:
        assert f"{each['latency_s'] * 1e6:,.1f} us" in shown
    assert files["plot"].read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "options",
    [
        ["--sweep", "sms=1:8:1", "--rank"],
        ["--recorded-on", "H200"],
        ["--recorded-on", "H200", "--sweep", "sms=1:8:1", "--report", "r.html"],
    ],
)
def test_options_that_do_not_go_together_are_refused(trace: Path, options: list[str]) -> None:
    result = CliRunner().invoke(app, ["plan", str(trace), *options], env={"COLUMNS": "140"})
    assert result.exit_code == 2
    assert "--recorded-on goes with --sweep" in result.stderr


@pytest.mark.parametrize("reads", [0, 1])
def test_files_are_written_whoever_stops_reading(trace: Path, tmp_path: Path, reads: int) -> None:
    """As in ``costmodel plan ... | head -1``."""
    result = tmp_path / "plan.json"
    asked = command("plan", trace, "--what-if", "graphs", "--json", result)
    with subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        for _ in range(reads):
            process.stdout.readline()
        process.stdout.close()
    assert json.loads(result.read_text())["speedup"] > 1


def test_a_page_has_names_whole_and_numbers_in_units(tmp_path: Path) -> None:
    name = f"void at::native::elementwise_kernel<128, 2, {'at::native::gpu_kernel_impl_nocast<' * 20}>"
    task = {"id": "copy", "name": name, "duration_s": 7e-6}
    (tmp_path / "graph.json").write_text(json.dumps({"tasks": [task]}))
    run(tmp_path / "graph.json", "--report", tmp_path / "plan.html")
    page = (tmp_path / "plan.html").read_text()
    assert name.replace("<", "&lt;").replace(">", "&gt;") in page
    assert "overflow-wrap: anywhere" in page
    assert "<td>makespan, us</td>" in page
    assert "makespan_s" not in page
