"""Python files that a user names, as modules."""

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

from costmodel.errors import CostModelError
from costmodel.files import check_not_open_to_all
from costmodel.reading import is_file


@cache
def load_module(file: Path) -> ModuleType:
    """Run a file as a module, once a process.

    Args:
        file: Its whole path.

    Raises:
        CostModelError: There is no such file, every user may write to it, or it fails.
    """
    if not is_file(file):
        raise CostModelError(f"A Python file must exist at {file}, but does not.")
    check_not_open_to_all(file)
    name = "_costmodel_" + "_".join((*file.parent.parts[1:], file.stem)).replace(".", "_")
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # Triton looks the module of a kernel up by its name
    try:
        spec.loader.exec_module(module)
    except CostModelError:
        raise
    except Exception as error:
        raise CostModelError(f"{file} must run as a module, but: {error!r}.") from error
    return module
