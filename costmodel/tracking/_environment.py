"""What a run runs on: the commit, the software and the hardware."""

import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from costmodel.host import cpu_model, cpu_threads
from costmodel.tracking._items import Tag
from costmodel.tracking._redact import redacted

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


def describe_environment() -> Iterator[Tag]:
    """Return commit, command, software versions and hardware as tags. Unknown values are left out.

    Passwords in URLs of the command are removed.
    """
    yield Tag(COMMAND, redacted(shlex.join([_program(), *sys.argv[1:]])))
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


def _git(folder: Path, *arguments: str) -> str:
    """What git prints; empty where it fails, or is not there."""
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
