"""A tensor program of the user's as a kernel source, and how it is read from a file."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from costmodel.errors import CostModelError, MissingExtraError
from costmodel.kernels._artifact import Built
from costmodel.kernels._reference import tolerance_of
from costmodel.kernels.family._source import find_in, run_file
from costmodel.kernels.metaschedule._apart import call_apart
from costmodel.kernels.metaschedule._source import TvmSource, compile_candidate
from costmodel.reading import MOST_BYTES, detect, is_file, read_text, refusing
from costmodel.records._candidate import Candidate
from costmodel.records._platform import TargetKind
from costmodel.records._program_facts import ProgramFacts
from costmodel.records._workload import Workload

if TYPE_CHECKING:
    from costmodel.kernels.metaschedule.programs._space import ProgramSpace


T = TypeVar("T")

_JSON = "a program as tvm.ir.save_json writes it"
_SAVE_AGAIN = "Write it again with the version of TVM that is installed."
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
    return is_python_place(place) or (place.endswith(".json") and _is_graph(Path(place)))


def is_python_place(place: str) -> bool:
    """Whether a place is a name in a file of Python; else it is a file of JSON."""
    return ".py:" in place


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
    require_tvm("Tuning a tensor program")
    if is_python_place(place):
        return _module_of(*open_python(place), place)
    import tvm

    return tvm.ir.load_json(call_on_json(Path(place), checked_program))


def checked_program(text: str, place: str) -> str:
    """The program in the JSON of a file, as JSON again, once TVM went all ways through it that tuning goes.

    Raises:
        CostModelError: It is none that can be scheduled.
    """
    import tvm

    module = _module_of(tvm.ir.load_json(text), "", place)
    program = str(tvm.ir.save_json(module))
    ProgramSource.of(module)
    for kind in get_args(TargetKind):
        with suppress(Exception):  # it may be for one kind of device only
            _open_space(program, kind)
    with suppress(Exception):
        tvm.compile(module, target="llvm")
    return program


def read_module(place: str) -> tuple[Any, str]:
    """The ``tvm.IRModule`` in a file as it is, and the name of its function that the place has; or no name.

    Args:
        place: ``program.py:module`` or ``program.py:module:function``.

    Raises:
        CostModelError: There is no such file or name, or it holds no module.
        MissingExtraError: TVM is not installed.
    """
    require_tvm("Reading a module")
    found, function = open_python(place)
    return module_in(found, place), function


def module_in(found: Any, place: str) -> Any:
    """What was found at a place, if it is a ``tvm.IRModule``.

    Raises:
        CostModelError: It is none.
    """
    import tvm

    if not isinstance(found, tvm.IRModule):
        raise CostModelError(
            f"{place} must be a tvm.IRModule, or for `costmodel plan` a program of torch.export, but is a "
            f"{type(found).__name__}."
        )
    return found


def require_tvm(purpose: str) -> None:
    """Check that TVM is installed.

    Raises:
        MissingExtraError: It is not.
    """
    if find_spec("tvm") is None:
        raise MissingExtraError(purpose, "tvm")


def call_on_json(path: Path, function: Callable[[str, str], T]) -> T:
    """Call a function, in a process that TVM may end, with what ``tvm.ir.save_json`` wrote into a file.

    Args:
        path: The file.
        function: See ``call_apart``; it takes the text and the name of the file.

    Raises:
        CostModelError: The file cannot be read, or TVM cannot read it.
    """
    text = read_text(path, _JSON, most_bytes=MOST_BYTES)
    with refusing(path, _JSON, _SAVE_AGAIN, form="tvm-program"):
        return call_apart(function, text, str(path))


def _is_graph(path: Path) -> bool:
    """Whether a file is JSON that TVM writes of an object; descriptions of CUDA kernels are JSON too."""
    if not is_file(path):
        return False
    found = detect(path)
    return found is not None and found.key == "tvm-program"


def open_python(place: str) -> tuple[Any, str]:
    """What a name stands for once a file was run, and the name of a function in it; empty if it has none."""
    file, _, names = place.partition(".py:")
    path, (name, _, function) = Path(f"{file}.py"), names.partition(":")
    if not name:
        raise CostModelError(f"A program must be named, as in {path}:module, but got {place}.")
    written = path.stat() if is_file(path) else None
    module = _run_once(path, (written.st_mtime_ns, written.st_size) if written else None)
    return find_in(module, name, path), function


@lru_cache(maxsize=4)
def _run_once(path: Path, written: tuple[int, int] | None) -> ModuleType:
    """Run a file as it was written then: several ask for what is in it, and its imports take seconds."""
    # TVMScript looks up the source of its functions in the module.
    return run_file(path, f"costmodel_program_{path.stem}")


def _module_of(found: Any, function: str, place: str) -> Any:
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
