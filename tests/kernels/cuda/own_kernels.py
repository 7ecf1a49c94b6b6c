"""Kernels in the format of Kernel Tuner's documentation: files of a user, with no line of Python."""

from pathlib import Path

import pytest

OWN = Path(__file__).parent / "own"
NAMES = ("convolution", "matrix_multiply", "reduction", "vector_add")


def needs_nvrtc() -> None:
    """Skip where NVRTC is not installed."""
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc")
    try:
        nvrtc.nvrtcVersion()
    except RuntimeError as error:
        pytest.skip(f"needs NVRTC: {error}")
