"""A tensor program of the user's: read from a file, with arguments and a reference, built and run."""

import pickle
from pathlib import Path

import pytest

pytest.importorskip("tvm")

import foreign_programs
import numpy as np
import tvm

from costmodel.collector import CpuRunner
from costmodel.errors import CostModelError
from costmodel.kernels.metaschedule.programs._facts import program_workload
from costmodel.kernels.metaschedule.programs._source import ProgramSource, is_program_place, load_program
from costmodel.records import Outcome, Workload

pytestmark = [pytest.mark.tvm, pytest.mark.white_box]

SCRIPT = """
import tvm
from tvm import te
from tvm.script import tirx as T

def doubled(rows):
    x = te.placeholder((rows, 8), name="x")
    return te.create_prim_func([x, te.compute((rows, 8), lambda i, j: x[i, j] * 2.0, name="y")])

function = doubled(4)
module = tvm.IRModule({"first": doubled(4), "second": doubled(16)})
number = 3

@T.prim_func(s_tir=True)
def script(x: T.Buffer((4, 8), "float32"), y: T.Buffer((4, 8), "float32")):
    for i, j in T.grid(4, 8):
        with T.sblock("y"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = x[vi, vj] * T.float32(2)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "programs.py"
    path.write_text(SCRIPT)
    return path


@pytest.mark.parametrize(("name", "rows"), [("function", 4), ("module:second", 16), ("script", 4)])
def test_programs_are_read_from_python(script: Path, name: str, rows: int) -> None:
    module = load_program(f"{script}:{name}")
    assert [variable.name_hint for variable in module.functions] == ["main"]
    assert int(module["main"].params[0].shape[0]) == rows


def test_a_program_is_read_from_json(tmp_path: Path) -> None:
    module = foreign_programs.layer_norm()
    path = tmp_path / "program.json"
    path.write_text(tvm.ir.save_json(module))
    assert program_workload(load_program(str(path))) == program_workload(module)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("absent", "must define absent"),
        ("number", "must be one tensor function"),
        ("module", "got first, second"),
        ("module:third", "got none"),
    ],
)
def test_what_names_no_program_is_refused(script: Path, name: str, message: str) -> None:
    with pytest.raises(CostModelError, match=message):
        load_program(f"{script}:{name}")


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("1 / 0")
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(CostModelError, match="must run, but raises ZeroDivisionError"):
        load_program(f"{tmp_path}/broken.py:x")
    with pytest.raises(CostModelError, match="must exist at"):
        load_program(f"{tmp_path}/absent.py:x")
    with pytest.raises(CostModelError, match="must be a program as"):
        load_program(f"{tmp_path}/broken.json")


def test_places_of_programs_are_told_from_others(tmp_path: Path) -> None:
    (tmp_path / "program.json").write_text(tvm.ir.save_json(foreign_programs.layer_norm()))
    (tmp_path / "family.json").write_text('{"General": {}}')
    assert is_program_place("a/b.py:module")
    assert is_program_place(f"{tmp_path}/program.json")
    assert not is_program_place(f"{tmp_path}/family.json")
    assert not is_program_place(f"{tmp_path}/absent.json")
    assert not is_program_place("matmul-m16-n16-k16")


def test_integers_are_multiplied_as_numpy_does() -> None:
    source = ProgramSource.of(foreign_programs.int8_dense())
    (workload,) = source.workloads
    x, w, unwritten = source.arguments(workload)
    (reference,) = source.reference(workload)
    assert source.outputs(workload) == (2,)
    assert (x.dtype, unwritten.dtype) == (np.int8, np.int32)
    assert len(np.unique(x)) == 9
    assert (unwritten == np.iinfo(np.int32).min).all()
    assert np.array_equal(reference, x.astype(np.int32) @ w.astype(np.int32).T)


def test_floats_are_normed_as_numpy_does() -> None:
    source = ProgramSource.of(foreign_programs.layer_norm())
    (workload,) = source.workloads
    x, gain, unwritten = source.arguments(workload)
    (reference,) = source.reference(workload)
    centred = x - x.mean(axis=1, keepdims=True)
    assert np.isnan(unwritten).all()
    assert np.allclose(reference, centred / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5) * gain, atol=1e-4)


def test_a_source_makes_its_own_programs_alone() -> None:
    source = ProgramSource.of(foreign_programs.layer_norm(), foreign_programs.int8_dense())
    other = program_workload(foreign_programs.dilated_conv2d())
    assert [source.makes(workload, "cuda") for workload in source.workloads] == [True, True]
    assert not source.makes(other, "cuda")
    assert not source.makes(Workload.parse("matmul-m16-n16-k16"), "cuda")
    with pytest.raises(CostModelError, match="must be that of a program"):
        source.space(other, "cuda")
    assert pickle.loads(pickle.dumps(source)) == source


def test_its_kernels_are_built_checked_and_timed() -> None:
    source = ProgramSource.of(foreign_programs.layer_norm(), foreign_programs.int8_dense(16, 16, 32))
    with CpuRunner(sources=(source,), build_workers=1) as runner:
        for workload in source.workloads:
            space = source.space(workload, "cpu")
            candidate = space.candidate(space.sample(np.random.default_rng(0)))
            (measured,) = runner.measure([candidate], runner.platform(1))
            assert (measured.outcome, measured.error) == (Outcome.OK, "")
