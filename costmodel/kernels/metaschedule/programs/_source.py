"""A tensor program of the user's as a kernel source, and how it is read from a file."""

import importlib.util
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from costmodel.errors import CostModelError, MissingExtraError
from costmodel.failures import last_line
from costmodel.files import check_not_open_to_all
from costmodel.kernels._artifact import Built
from costmodel.kernels._reference import tolerance_of
from costmodel.kernels.metaschedule._source import TvmSource, compile_candidate
from costmodel.reading import MOST_BYTES, detect, is_file, read_text
from costmodel.records._candidate import Candidate
from costmodel.records._platform import TargetKind
from costmodel.records._program_facts import ProgramFacts
from costmodel.records._workload import Workload

if TYPE_CHECKING:
    from costmodel.kernels.metaschedule.programs._space import ProgramSpace


_SEED = 20260
# Integers of 8 bits are data; wider ones may be positions in other arrays, of which the first two are safe.
_SMALL_INTEGERS, _WIDE_INTEGERS = (-4, 5), (0, 2)


@dataclass(frozen=True)
class ProgramSource(TvmSource):
    """The kernels that TVM's MetaSchedule makes of tensor programs, on a GPU or a CPU.

    Outputs are compared with what TVM makes of the unscheduled program for the CPU. That is independent of
    every schedule and of the code for a GPU, though not of TVM: nobody else knows what the program means.

    Attributes:
        programs: For each program what it computes, and the program by ``tvm.ir.save_json``.
    """

    name: ClassVar[str] = "tir"

    programs: tuple[tuple[Workload, str], ...]

    @classmethod
    def open(cls, place: str) -> "ProgramSource":
        """The source of a program in a file.

        Args:
            place: ``program.py:name`` or ``program.json``, see ``load_program``.

        Raises:
            CostModelError: There is no such program, it is not one that can be scheduled, or TVM is missing.
        """
        return cls.of(load_program(place))

    @classmethod
    def of(cls, *modules: Any) -> "ProgramSource":
        """The source of unscheduled ``tvm.IRModule``, each with one function, ``main``.

        Raises:
            CostModelError: One is not a program that can be scheduled.
        """
        import tvm

        from costmodel.kernels.metaschedule.programs._facts import program_workload

        return cls(tuple((program_workload(module), str(tvm.ir.save_json(module))) for module in modules))

    @property
    def workloads(self) -> list[Workload]:
        """What the programs compute, in order."""
        return [workload for workload, _ in self.programs]

    def makes(self, workload: Workload, kind: TargetKind) -> bool:
        """Its own programs."""
        return workload in self.workloads

    def space(self, workload: Workload, kind: TargetKind) -> "ProgramSpace":
        """The design space of the program; the same object for the same kind of device.

        Raises:
            CostModelError: The workload is of another program.
        """
        return _open_space(self._program(workload), kind)

    def build(self, candidate: Candidate, kind: TargetKind, architecture: str, folder: Path) -> Built:
        """Compile a candidate to a shared library that TVM loads."""
        return compile_candidate(self.space, candidate, kind, architecture, folder)

    def arguments(self, workload: Workload) -> list[NDArray[Any]]:
        """Random inputs by their dtype, and outputs full of NaN, or of the least integer.

        Floats are normal, and small enough for a sum of products to be of order 1; integers of 8 bits are
        from -4 to 4, wider ones 0 or 1.

        Raises:
            CostModelError: An argument has a dtype that NumPy does not have.
        """
        rng = np.random.default_rng(_SEED)
        facts = ProgramFacts.of(workload.dims)
        scale = facts.reduction**-0.25 if facts.first_operand else 1.0
        written = self.outputs(workload)
        return [
            _unwritten(shape, dtype) if position in written else _random(rng, shape, dtype, scale)
            for position, (shape, dtype) in enumerate(_parameters(self._program(workload)))
        ]

    def outputs(self, workload: Workload) -> tuple[int, ...]:
        """Positions of the arguments that a block writes."""
        return _written(self._program(workload))

    def reference(self, workload: Workload) -> list[NDArray[Any]]:
        """What the unscheduled program computes on the CPU."""
        import tvm

        executable = tvm.compile(tvm.ir.load_json(self._program(workload)), target="llvm")
        arrays = [tvm.runtime.tensor(array) for array in self.arguments(workload)]
        executable["main"](*arrays)
        return [arrays[position].numpy() for position in self.outputs(workload)]

    def tolerance(self, workload: Workload) -> float:
        """That of the least exact dtype among the arguments."""
        dtypes = {str(dtype) for _, dtype in _parameters(self._program(workload))}
        return tolerance_of("float16" if "float16" in dtypes else "float32")

    def _program(self, workload: Workload) -> str:
        for own, program in self.programs:
            if own == workload:
                return program
        raise CostModelError(
            f"The workload must be that of a program, of {[own.name for own in self.workloads]}, but got "
            f"{workload.name}."
        )


@lru_cache(maxsize=64)
def _open_space(program: str, kind: TargetKind) -> "ProgramSpace":
    import tvm

    from costmodel.kernels.metaschedule.programs._space import ProgramSpace

    return ProgramSpace(tvm.ir.load_json(program), kind)


@lru_cache(maxsize=64)
def _parameters(program: str) -> tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]:
    """Shape and dtype of each argument."""
    import tvm

    parameters = tvm.ir.load_json(program)["main"].params
    return tuple((tuple(map(int, p.shape)), _dtype(str(p.dtype))) for p in parameters)


def _dtype(name: str) -> np.dtype[Any]:
    try:
        return np.dtype(name)
    except TypeError:
        raise CostModelError(
            f"Arguments of a program must be of a dtype that NumPy has, but got {name}. Cast inside of it."
        ) from None


@lru_cache(maxsize=64)
def _written(program: str) -> tuple[int, ...]:
    import tvm

    from costmodel.kernels.metaschedule.programs._facts import read_blocks

    module = tvm.ir.load_json(program)
    written = [region.source for block in read_blocks(module) for region in block.block.writes]
    parameters = enumerate(module["main"].params)
    return tuple(at for at, parameter in parameters if any(parameter.same_as(one) for one in written))


def _unwritten(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    value = np.nan if dtype.kind == "f" else np.iinfo(dtype).min if dtype.kind in "iu" else 0
    return np.full(shape, value, dtype)


def _random(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any], scale: float
) -> NDArray[Any]:
    if dtype.kind == "f":
        return (scale * rng.standard_normal(shape)).astype(dtype)
    low, high = _SMALL_INTEGERS if dtype == np.int8 else _WIDE_INTEGERS
    return rng.integers(low, high, size=shape).astype(dtype)


def is_program_place(place: str) -> bool:
    """Whether a text names a program in a file: ``program.py:name``, or JSON that TVM wrote."""
    return ".py:" in place or (place.endswith(".json") and _is_graph(Path(place)))


def load_program(place: str) -> Any:
    """The unscheduled program in a file, as a ``tvm.IRModule`` with one function, ``main``.

    Args:
        place: ``program.py:name``: a Python file, which is run, and the name of a ``tvm.IRModule`` or a
            ``PrimFunc`` in it; of a module with several functions ``program.py:name:function``. Or
            ``program.json``, as ``tvm.ir.save_json`` writes either.

    Raises:
        CostModelError: There is no such file or name, or it holds no such program.
        MissingExtraError: TVM is not installed.
    """
    found, function = _read(place, "Tuning a tensor program")
    return _module_of(found, place, function)


def read_module(place: str) -> tuple[Any, str]:
    """The ``tvm.IRModule`` in a file as it is, and the name of its function that the place has; or no name.

    Args:
        place: ``program.py:module``, ``program.py:module:function``, or JSON of ``tvm.ir.save_json``.

    Raises:
        CostModelError: There is no such file or name, or it holds no module.
        MissingExtraError: TVM is not installed.
    """
    found, function = _read(place, "Reading a module")
    import tvm

    if not isinstance(found, tvm.IRModule):
        raise CostModelError(f"{place} must be a tvm.IRModule, but is a {type(found).__name__}.")
    return found, function


def _read(place: str, purpose: str) -> tuple[Any, str]:
    """What is in a file, and the name of a function in it; empty if the place has none."""
    try:
        import tvm
    except ModuleNotFoundError as error:
        raise MissingExtraError(purpose, "tvm") from error
    file, _, names = place.partition(".py:")
    if not names:
        return _from_json(Path(place), tvm.ir.load_json), ""
    name, _, function = names.partition(":")
    return _from_python(Path(f"{file}.py"), name), function


def _is_graph(path: Path) -> bool:
    """Whether a file is JSON that TVM writes of an object; descriptions of CUDA kernels are JSON too."""
    if not is_file(path):
        return False
    found = detect(path)
    return found is not None and found.key == "tvm-program"


def _from_json(path: Path, load: Any) -> Any:
    try:
        return load(read_text(path, "a program as tvm.ir.save_json writes it", most_bytes=MOST_BYTES))
    except Exception as error:
        raise CostModelError(
            f"{path} must be a program as tvm.ir.save_json writes it, but cannot be read: {last_line(error)}"
        ) from error


def _from_python(path: Path, name: str) -> Any:
    """What a name stands for once a file was run."""
    spec = importlib.util.spec_from_file_location(f"costmodel_program_{path.stem}", path)
    if not is_file(path) or spec is None or spec.loader is None:
        raise CostModelError(f"{path} must be a Python file, but there is none.")
    check_not_open_to_all(path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # TVMScript looks up the source of its functions there
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise CostModelError(f"{path} must run, but raises {type(error).__name__}: {error}") from error
    if not hasattr(module, name):
        raise CostModelError(f"{path} must define {name}, but does not.")
    return getattr(module, name)


def _module_of(found: Any, place: str, function: str) -> Any:
    import tvm

    functions = {"main": found} if isinstance(found, tvm.tirx.PrimFunc) else {}
    if isinstance(found, tvm.IRModule):
        every = {variable.name_hint: each for variable, each in found.functions.items()}
        functions = {name: each for name, each in every.items() if isinstance(each, tvm.tirx.PrimFunc)}
    if function:
        functions = {name: each for name, each in functions.items() if name == function}
    if len(functions) != 1:
        known = ", ".join(sorted(functions)) or "none"
        raise CostModelError(
            f"{place} must be one tensor function (a tirx.PrimFunc), but got {known}. Of several, name one: "
            "program.py:module:function. A Relax module has them once its operators are legalised and "
            "fused."
        )
    (program,) = functions.values()
    return tvm.IRModule({"main": program.with_attr("global_symbol", "main")})
