"""A run's settings, what it runs on, and the folder of an experiment, as items."""

import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from enum import Enum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from costmodel.errors import CostModelError
from costmodel.printable import HIDDEN, is_secret, mask_secrets
from costmodel.reading import is_file, read_json, read_text, read_toml
from costmodel.threads import cpu_model, cpu_threads
from costmodel.tracking._items import Artifact, Item, Metric, Note, Parameter, Tag

COMMAND, COMMIT = "command", "git.commit"
# What can change a result, where it is installed.
_PACKAGES = (
    "sm-costmodel",
    "apache-tvm",
    "cuda-bindings",
    "mlflow",
    "numpy",
    "optuna",
    "pandas",
    "pyarrow",
    "scikit-learn",
    "scipy",
    "torch",
    "xgboost",
    "xgboost-cpu",
)
_RESULT, _CONFIG, _README = "result.json", "config.toml", "README.md"
_PICTURES = {".png", ".svg", ".jpg", ".jpeg"}
# What names an entry of a list of results, the first that it has.
_NAMES = ("name", "learner", "method", "label")


def describe_config(config: Mapping[str, Any]) -> Iterator[Parameter | Artifact]:
    """Return every option with its value, as parameters and as one file; nothing if there are none.

    Secrets are masked.

    Args:
        config: Values by name. An option without a value is ``None``. Options in nested mappings get dotted
            names.
    """
    flat = dict(_flat(config))
    yield from (Parameter(name, _text(value)) for name, value in flat.items())
    if flat:
        yield Artifact.of_text("config.json", json.dumps(flat, indent=2) + "\n")


def describe_environment() -> Iterator[Tag]:
    """Return commit, command, software versions and hardware as tags. Unknown values are left out.

    Passwords in URLs of the command are removed.
    """
    yield Tag(COMMAND, mask_secrets(shlex.join([_program(), *sys.argv[1:]])))
    yield from describe_commit(Path(__file__).parents[1])
    yield Tag("software.python", platform.python_version())
    yield Tag("software.system", platform.platform())
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            yield Tag(f"software.{name}", version(name))
    yield from _hardware()


def describe_commit(folder: Path) -> Iterator[Tag]:
    """Return the commit of a source folder, and whether files of its repository have changed since.

    Returns nothing if the folder is not tracked by git: an installed package may be inside the checkout of
    another project.
    """
    if not _git(folder, "ls-files", "--", "."):
        return
    if commit := _git(folder, "rev-parse", "HEAD"):
        yield Tag(COMMIT, commit)
        yield Tag(
            "git.dirty", "yes" if _git(folder, "status", "--porcelain", "--untracked-files=no") else "no"
        )


def describe_folder(folder: Path) -> Iterator[Item]:
    """Log ``result.json`` as metrics, ``config.toml`` as parameters, and README and pictures as they are.

    A metric is named by its path in the file, with slashes. An entry of a list is named by its ``name``,
    ``learner``, ``method`` or ``label`` if it has one, else by its position. A list of numbers is a curve.

    Raises:
        CostModelError: If the folder has no ``result.json``, or one of its files cannot be read.
    """
    if not is_file(folder / _RESULT):
        raise CostModelError(
            f"The folder of an experiment must hold {_RESULT}, but {folder} does not. "
            "Run the experiment first."
        )
    yield from _scalars(_read(folder / _RESULT))
    if is_file(folder / _CONFIG):
        yield from describe_config(_read(folder / _CONFIG))
    if is_file(folder / _README):
        yield Note(read_text(folder / _README, "a text"))
    for file in sorted(folder.iterdir()):
        if file.name in (_RESULT, _CONFIG, _README) or file.suffix in _PICTURES:
            yield Artifact.copy_of(file.name, file)


def _flat(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", HIDDEN if value and is_secret(name) else _plain(value)


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, Enum):
        return _plain(value.value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return mask_secrets(str(value)) if isinstance(value, str | Path) else value


def _text(value: Any) -> str:
    """A value as a parameter has it."""
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return "none" if value is None else str(value)


def _git(folder: Path, *arguments: str) -> str:
    """Return what git prints; empty where it fails, or is not there."""
    with suppress(OSError):
        command = ["git", "-C", str(folder), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 (no shell)
        return done.stdout.strip() if done.returncode == 0 else ""
    return ""


def _program() -> str:
    """What runs, as one would type it."""
    script = Path(sys.argv[0])
    return "costmodel" if script.name == "__main__.py" else script.name


def _hardware() -> Iterator[Tag]:
    yield Tag("hardware.cpu", cpu_model() or platform.processor() or platform.machine())
    yield Tag("hardware.cores", str(cpu_threads()))
    with suppress(ValueError, OSError):
        memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        yield Tag("hardware.memory_gb", f"{memory_bytes / 1e9:.1f}")
    yield from _gpus()


def _gpus() -> Iterator[Tag]:
    """GPUs and their driver, where NVML is installed and finds some."""
    try:
        import pynvml
    except ImportError:
        return
    with suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        try:
            handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
            yield Tag("hardware.gpu", ", ".join(pynvml.nvmlDeviceGetName(handle) for handle in handles))
            yield Tag("hardware.gpu_driver", pynvml.nvmlSystemGetDriverVersion())
        finally:
            pynvml.nvmlShutdown()


def _read(file: Path) -> Any:
    if file.suffix == ".toml":
        return read_toml(file, dict[str, Any], "a TOML file")
    return read_json(file, Any, "a JSON file")


def _scalars(value: Any, path: tuple[str, ...] = ()) -> Iterator[Metric]:
    """Every number below a value; truth values and texts are not measured."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield Metric("/".join(path) or "result", float(value))
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _scalars(item, (*path, str(name)))
    elif isinstance(value, list) and all(isinstance(item, int | float) for item in value):
        yield from (Metric("/".join(path) or "result", float(item), i) for i, item in enumerate(value))
    elif isinstance(value, list):
        names = _entry_names(value)
        for name, item in zip(names, value, strict=True):
            yield from _scalars(item, (*path, name))


def _entry_names(entries: list[Any]) -> list[str]:
    """A distinct name for each entry: what it says itself, else its position."""
    for key in _NAMES:
        said = [str(entry[key]) for entry in entries if isinstance(entry, dict) and key in entry]
        if len(set(said)) == len(entries):
            return said
    return [str(i) for i in range(len(entries))]
