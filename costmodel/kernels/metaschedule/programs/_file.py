"""Reads the user's tensor program from a file."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

from costmodel.errors import CostModelError, MissingExtraError
from costmodel.failures import last_line
from costmodel.files import check_not_open_to_all
from costmodel.reading import MOST_BYTES, detect, is_file, read_text


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
