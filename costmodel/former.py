"""Imports as 0.3 documented them: each works until 0.5, with a warning that shows where the name is now.

The release notes list what moved (``docs/release-notes.md``), and their test goes through the tables here.
"""

import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# Modules that 0.3 documented names of, by the packages that list these names now.
MOVED_MODULES = {
    "costmodel.capacity": ("costmodel.service",),
    "costmodel.collector.device": ("costmodel.collector",),
    "costmodel.drift": ("costmodel.search",),
    "costmodel.engines": ("costmodel.collector", "costmodel.service"),
    "costmodel.irregular.spiking": ("costmodel.irregular",),
    "costmodel.jobs": ("costmodel.service",),
    "costmodel.kernels.cuda": ("costmodel.kernels",),
    "costmodel.kernels.metaschedule": ("costmodel.kernels",),
    "costmodel.metrics": ("costmodel.learners",),
    "costmodel.planner.placement": ("costmodel.planner",),
    "costmodel.planner.tiles": ("costmodel.planner",),
    "costmodel.shadow": ("costmodel.collector",),
    "costmodel.spaces": ("costmodel.search",),
    "costmodel.workloads.networks": ("costmodel.workloads",),
}
# Names that a package still there no longer lists, and names that are called otherwise now.
MOVED_NAMES = {
    "costmodel.CpuRunner": "costmodel.collector.CpuRunner",
    "costmodel.CudaRunner": "costmodel.collector.CudaRunner",
    "costmodel.EvaluationReport": "costmodel.evaluation.EvaluationReport",
    "costmodel.KernelSpace": "costmodel.search.KernelSpace",
    "costmodel.Pool": "costmodel.search.Pool",
    "costmodel.ReplayRunner": "costmodel.collector.ReplayRunner",
    "costmodel.capacity.Tune": "costmodel.service.TuneWork",
    "costmodel.planner.placement.Device": "costmodel.planner.PlacementDevice",
}


def answer_former(module: str, otherwise: Callable[[str], Any]) -> Callable[[str], Any]:
    """Make a ``__getattr__`` (PEP 562) that answers the names that a module had in 0.3, with a warning.

    Args:
        module: The full name of the module.
        otherwise: Answers, or refuses, a name that the module never had.
    """

    def answer(name: str) -> Any:
        place = None if name.startswith("_") else _find_place(module, name)
        if place is None:
            return otherwise(name)
        package, _, now = place.rpartition(".")
        value = getattr(import_module(package), now)
        # ``from package import name`` asks twice: first the machinery of imports, whether it is a module.
        if sys._getframe(1).f_globals.get("__name__") != "importlib._bootstrap":
            message = f"{module}.{name} goes in 0.5: write from {package} import {now}."
            warnings.warn(message, DeprecationWarning, stacklevel=2)
        return value

    return answer


def answer_inside(module: str) -> Callable[[str], Any]:
    """Make a ``__getattr__`` of a module inside a package, which was documented in 0.3 and is private now."""

    def refuse(name: str) -> Any:
        raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name)

    return answer_former(module, refuse)


def find_former_modules() -> None:
    """Let imports find modules that are no more, after every other place was searched."""
    if not any(isinstance(finder, _FormerModules) for finder in sys.meta_path):
        sys.meta_path.append(_FormerModules())


def _find_place(module: str, name: str) -> str | None:
    """Return the full name that a former name has now."""
    if place := MOVED_NAMES.get(f"{module}.{name}"):
        return place
    packages = MOVED_MODULES.get(module, ())
    return next((f"{each}.{name}" for each in packages if name in import_module(each).__all__), None)


class _FormerModules:
    """Finder and loader of former modules. It derives from nothing, as importlib.abc takes 7 ms to import."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in MOVED_MODULES else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave it to Python."""

    def exec_module(self, module: ModuleType) -> None:
        former = module.__name__

        def refuse(name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(f"module {former!r} has no attribute {name!r}", name=name)
            # An AttributeError here would be replaced: of it, ``from ... import`` shows nothing.
            packages = " and ".join(MOVED_MODULES[former])
            raise ImportError(
                f"{former} is no more: what 0.3 documented of it is in {packages}, without {name}."
            )

        module.__getattr__ = answer_former(former, refuse)  # type: ignore[method-assign]
