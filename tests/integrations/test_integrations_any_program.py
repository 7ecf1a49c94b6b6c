"""Programs unlike those that models learn from: each is tuned as far as it can be, and none ends a tuning."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tvm")

import tvm
from tuned_programs import Pretended, Pretending, a_cpu, cuda, on_h100, own_logs, row_sums, search
from tvm import relax, te
from tvm.s_tir import meta_schedule as ms

from costmodel.integrations.tvm import CostModel, Database, SearchStrategy
from costmodel.integrations.tvm._program import TunedProgram, announce
from costmodel.kernels.metaschedule._source import open_space
from costmodel.kernels.metaschedule._tvm_start import register_tensor_intrinsics
from costmodel.records._platform import Platform
from costmodel.records._workload import Workload
from costmodel.workloads._recognise import fuse_operators

pytestmark = [pytest.mark.tvm, pytest.mark.white_box]

CPU = tvm.target.Target({"kind": "llvm", "num-cores": 1})
ON_CPU = a_cpu()


def program(*tensors: Any) -> Any:
    return tvm.IRModule({"main": te.create_prim_func(list(tensors))})


def elementwise(shape: tuple[Any, ...], dtype: str = "float32", value: Callable[..., Any] = te.exp) -> Any:
    x = te.placeholder(shape, dtype, "x")
    return program(x, te.compute(shape, lambda *i: value(x(*i))))


def reshaped() -> Any:
    a = te.placeholder((1, 32, 8, 8), name="A")
    return program(a, te.compute((32, 64), lambda i, j: a[0, i, j // 8, j % 8]))


def product_of_integers() -> Any:
    a, k = te.placeholder((16, 16), "int8", "a"), te.reduce_axis((0, 16))
    wide = lambda i, j: a[i, j].astype("int32")  # noqa: E731
    return program(a, te.compute((16, 16), lambda i, j: te.sum(wide(i, k) * wide(k, j), axis=k)))


PROGRAMS = {
    "reshape": reshaped,
    "scalar": partial(elementwise, ()),
    "one element": partial(elementwise, (1,)),
    "no element": partial(elementwise, (0, 8)),
    "dynamic": partial(elementwise, (te.var("n", "int64"), 8)),
    "booleans": partial(elementwise, (16, 16), "bool", tvm.tirx.Not),
    "integers": product_of_integers,
    "no input": lambda: program(te.compute((16,), lambda i: tvm.tirx.const(1.0, "float32"))),
}
# Records of a tuning of four trials, as stock gives them: where nothing is decided there is one kernel.
KERNELS = dict.fromkeys(PROGRAMS, 1) | {"dynamic": 0, "integers": 4}


def tune(folder: Path, module: Any, target: Any, platform: Platform, **options: Any) -> Database:
    """The database of a tuning of four trials; nothing is built or run."""
    database = Database(folder / "tuned.jsonl", platform)
    own = {
        "cost_model": CostModel(platform=platform),
        "strategy": SearchStrategy(platform=platform, screened=200),
    }
    ms.tune_tir(
        module,
        target,
        str(folder),
        max_trials_global=4,
        num_trials_per_iter=2,
        builder=Pretending(folder / "kernels"),
        runner=Pretended(),
        database=database,
        num_tuning_cores=1,
        **{**own, **options},
    )
    return database


UNFORESEEN = "an error that nobody has thought of"


def fail(*_: Any, **__: Any) -> Any:
    raise ZeroDivisionError(UNFORESEEN)


@pytest.fixture(autouse=True)
def small_evolution(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    register_tensor_intrinsics()  # as each tuning would, but quickly
    announce.cache_clear()
    small = partial(ms.search_strategy.EvolutionarySearch, population_size=16, genetic_num_iters=1)
    monkeypatch.setattr(ms.search_strategy, "EvolutionarySearch", small)
    with own_logs():
        yield


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_any_space_is_tuned_on_a_cpu(name: str, tmp_path: Path) -> None:
    assert len(tune(tmp_path, PROGRAMS[name](), CPU, ON_CPU)) == KERNELS[name]


@pytest.mark.parametrize("name", ["reshape", "scalar", "one element", "dynamic", "booleans"])
def test_a_program_of_any_space_is_tuned_for_a_gpu(name: str, tmp_path: Path) -> None:
    assert len(tune(tmp_path, PROGRAMS[name](), cuda(), on_h100())) <= 4


def test_a_program_that_stock_cannot_tune_is_left_as_it_is(tmp_path: Path, capfd: Any) -> None:
    """TVM 0.27 fails on loops of unknown length around a reduction."""
    n, k = te.var("n", "int64"), te.reduce_axis((0, 8))
    a, b = te.placeholder((n, 8), name="a"), te.placeholder((8, 8), name="b")
    module = program(a, b, te.compute((n, 8), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k)))
    assert len(tune(tmp_path, module, CPU, ON_CPU)) == 0
    assert "task main cannot be tuned by TVM's evolution (" in capfd.readouterr().err


def test_a_schedule_that_changes_a_layout_is_kept_and_found_again(tmp_path: Path) -> None:
    """On a CPU a weight that only one block reads is laid out anew."""
    module = open_space(Workload.parse("matmul-m64-n64-k64"), "cpu").module
    main = module["main"].with_attr("layout_free_buffers", [1])
    module = tvm.IRModule({"main": main})
    database = tune(tmp_path, module, CPU, ON_CPU)
    kinds = {i.kind.name for each in database.get_all_tuning_records() for i in each.trace.insts}
    assert "TransformLayout" in kinds
    again = Database(tmp_path / "tuned.jsonl", ON_CPU)
    assert len(again) == len(database) == 4
    assert tvm.compile(again.query(module, CPU, kind="schedule").mod, target=CPU)


@pytest.mark.parametrize(
    "place", ["_strategy.BatchSearch.ask", "_strategy.BatchSearch.tell", "_strategy.ModelSampler"]
)
def test_where_the_search_by_the_model_fails_evolution_takes_the_trials_that_are_left(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.setattr(f"costmodel.integrations.tvm.{place}", fail)
    database = tune(tmp_path, row_sums(), CPU, ON_CPU)
    assert 1 <= len(database) <= 4
    told = f"cannot be tuned by the model's search ({UNFORESEEN}): TVM's evolution proposes"
    assert f"task main {told}" in capfd.readouterr().err


def test_a_program_whose_candidates_cannot_be_ranked_counts_them_as_equals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.setattr(TunedProgram, "features", fail)
    database = tune(tmp_path, row_sums(), CPU, ON_CPU, strategy=search())
    assert 1 <= len(database) <= 4
    err = capfd.readouterr().err
    assert "task main cannot be ranked (" in err
    assert "task main cannot be learned from (" in err


def fused(build: Callable[..., Any], *shapes: tuple[int, ...]) -> Any:
    """A module with the one kernel that Relax makes of a function."""
    builder = relax.BlockBuilder()
    inputs = [relax.Var(f"x{i}", relax.TensorType(shape, "float32")) for i, shape in enumerate(shapes)]
    with builder.function("forward", inputs):
        with builder.dataflow():
            result = builder.emit_output(builder.normalize(build(*inputs)))
        builder.emit_func_output(result)
    module = fuse_operators(relax.transform.FuseTransposeMatmul()(builder.get()))
    (kernel,) = (each for each in module.functions.values() if isinstance(each, tvm.tirx.PrimFunc))
    return tvm.IRModule({"main": kernel.with_attr("global_symbol", "main")})


op = relax.op
WRITTEN = {
    "a weight by columns": (
        lambda: fused(lambda x, w: op.matmul(x, op.permute_dims(w)), (64, 64), (32, 64)),
        "matmul-m64-n32-k64",
        ("metaschedule-cpu", "metaschedule-cuda"),
    ),
    "rows on three axes": (
        lambda: fused(lambda x: op.nn.softmax(x, axis=2), (2, 8, 64)),
        "softmax-m16-n64",
        ("tir-cpu", "metaschedule-cuda"),  # on a CPU a position among the loops is chosen
    ),
    "a product with rows on three axes": (
        lambda: fused(lambda x, w, b: op.add(b, op.matmul(x, w)), (2, 8, 64), (64, 32), (32,)),
        "matmul_bias-m16-n32-k64",
        ("tir-cpu", "tir-cuda"),
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_an_operator_in_another_form_is_searched_in_a_space_that_schedules_it(
    name: str, tmp_path: Path
) -> None:
    module, operator, spaces = WRITTEN[name][0](), *WRITTEN[name][1:]
    for target, platform, space in zip((CPU, cuda()), (ON_CPU, on_h100()), spaces, strict=True):
        program = TunedProgram(module, target)
        assert program.verdict.startswith(f"is {operator}: the model screens")
        assert program.space.name.startswith(space)
        (tmp_path / space).mkdir()
        assert len(tune(tmp_path / space, module, target, platform)) == 4
