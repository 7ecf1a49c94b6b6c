"""A stand-in for cuBLASLt, which computes on the host what NVIDIA documents."""

import ctypes
import subprocess
from pathlib import Path

_SOURCE = Path(__file__).with_name("column_major_blas.c")


def load_stand_in(folder: Path, name: str) -> ctypes.CDLL:
    """Compile it, and load it so that the dynamic linker knows it by a name."""
    path = folder / "stand_in.so"
    command = ["cc", "-O1", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", str(path), str(_SOURCE)]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(path))
