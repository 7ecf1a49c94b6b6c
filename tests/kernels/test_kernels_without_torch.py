"""Processes that need TVM alone do not import torch, which takes them longer than all else."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from costmodel.kernels.metaschedule._tvm_start import import_tvm_for

pytestmark = [pytest.mark.tvm, pytest.mark.white_box]


def imported(folder: Path, *lines: str) -> list[str]:
    """What Python prints that runs these lines, with a torch that says that it is imported."""
    (folder / "torch.py").write_text("print('torch is imported'); raise ImportError")
    code = [
        f"import sys; sys.path.insert(0, {str(folder)!r})",
        "from costmodel.kernels.metaschedule._tvm_start import import_tvm_for",
        *lines,
        "print('tvm' in sys.modules)",
    ]
    done = subprocess.run([sys.executable, "-c", "\n".join(code)], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_tvm_comes_alone_and_torch_can_come_later(tmp_path: Path) -> None:
    pytest.importorskip("tvm")
    later = ("try: import torch", "except ImportError: pass")
    assert imported(tmp_path, "import_tvm_for('cpu')", "print('later')", *later) == [
        *("later", "torch is imported", "True")
    ]


def test_for_cuda_it_is_imported_as_ever(tmp_path: Path) -> None:
    pytest.importorskip("tvm")
    told, *_, last = imported(tmp_path, "import_tvm_for('cuda')")
    assert (told, last) == ("torch is imported", "True")


def test_a_torch_that_is_there_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tvm")
    there = ModuleType("torch")
    monkeypatch.setitem(sys.modules, "torch", there)
    import_tvm_for("cpu")
    assert sys.modules["torch"] is there
