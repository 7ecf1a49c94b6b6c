"""The strategy's second choice, of a shortlist that the builder compiled. Nothing runs."""

import pytest

pytest.importorskip("tvm")

import msgspec
import numpy as np
import tvm_ffi
from tuned_programs import context_of, matmul, on_h100, result, row_sums
from tvm.s_tir import meta_schedule as ms

from costmodel.arrays import FloatArray
from costmodel.features._compiled import COMPILED_COLUMNS
from costmodel.features._extract import COLUMNS
from costmodel.integrations.tvm import SearchStrategy
from costmodel.integrations.tvm._compiled_stage import CompiledStage
from costmodel.kernels._machine_code import MACHINE_CODE_FACTS, MachineCode
from costmodel.learners import Prediction
from costmodel.transfer import TransferModel
from costmodel.transfer._store import ModelMetadata
from costmodel.transfer.prediction._model import Model

pytestmark = pytest.mark.white_box

NAMES = (*(each.name for each in COLUMNS), *sorted(each.name for each in COMPILED_COLUMNS))


class LeastOf(TransferModel):
    """Expects the kernel with the smallest value of a column to be fastest."""

    def __init__(self, column: int) -> None:
        self.column = column

    def fit(self, X: FloatArray, y: FloatArray, task_ids: object) -> "LeastOf":
        return self

    def predict(self, X: FloatArray) -> Prediction:
        return Prediction(-np.nan_to_num(X[:, self.column], nan=1e9))

    def adapt(self, X: FloatArray, y: FloatArray) -> "LeastOf":
        return self


class Compiler:
    """Has the machine code of modules, without a GPU: as many instructions as their hash says."""

    in_flight = 16

    def __init__(self) -> None:
        self.instructions: dict[int, float] = {}

    def machine_code(self, modules, target):
        assert str(target.kind.name) == "cuda"
        hashes = [int(tvm_ffi.structural_hash(module)) for module in modules]
        self.instructions |= {each: float(each % 10_000) for each in hashes}
        ones = dict.fromkeys(MACHINE_CODE_FACTS, 1.0)
        return [MachineCode(**{**ones, "instructions": self.instructions[each]}) for each in hashes]


DECIDED = LeastOf(0)
COMPILED = Model(
    LeastOf(NAMES.index("compiled/log2_instructions")),
    ModelMetadata(columns=NAMES, devices=(on_h100().device,)),
)


def proposed(compiler: Compiler, module, trials: int, model: Model = COMPILED, **settings) -> list[int]:
    """Hashes of all that a strategy with the stage proposes, in order."""
    context = context_of(module)
    stage = CompiledStage(compiler, model, **settings)
    strategy = SearchStrategy(DECIDED, platform=on_h100(), screened=2000, stage=stage).clone()
    strategy._initialize_with_tune_context(context)
    strategy.pre_tuning(trials, 8, context.generate_design_space(), ms.database.MemoryDatabase(), None)
    found = []
    while (batch := strategy.generate_measure_candidates()) is not None:
        found += [int(tvm_ffi.structural_hash(each.sch.mod)) for each in batch]
        strategy.notify_runner_results(batch, [result(1e-5 * (1 + len(found))) for _ in batch])
    return found


def test_it_proposes_the_best_of_what_was_compiled_as_it_was_compiled():
    compiler = Compiler()
    found = proposed(compiler, matmul(), 8, per_trial=4)
    assert len(set(found)) == 8
    assert len(compiler.instructions) == 32
    assert set(found) <= set(compiler.instructions)
    assert compiler.instructions[found[0]] == min(compiler.instructions.values())


def test_a_longer_search_compiles_another_shortlist():
    compiler = Compiler()
    found = proposed(compiler, matmul(), 24, per_trial=2)
    assert 32 < len(compiler.instructions) <= 64  # what is left of the first may be named again
    assert set(found) <= set(compiler.instructions)


@pytest.mark.parametrize(("trials", "compiled"), [(4, 16), (5, 15), (8, 16), (16, 0), (17, 0)])
def test_unless_told_it_compiles_what_builders_make_at_once(trials, compiled):
    compiler = Compiler()
    assert len(proposed(compiler, matmul(), trials)) == trials
    assert len(compiler.instructions) == compiled


def test_a_program_that_is_no_operator_goes_without():
    compiler = Compiler()
    assert len(proposed(compiler, row_sums(), 8, per_trial=4)) == 8
    assert not compiler.instructions


def test_a_device_of_another_architecture_goes_without():
    compiler = Compiler()
    (device,) = COMPILED.metadata.devices
    older = msgspec.structs.replace(device, architecture="sm_80")
    about = msgspec.structs.replace(COMPILED.metadata, devices=(older,))
    assert len(proposed(compiler, matmul(), 8, Model(COMPILED.model, about), per_trial=4)) == 8
    assert not compiler.instructions
