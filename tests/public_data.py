"""Where measurements of third parties are; tests that read them skip where they are absent."""

import os
from pathlib import Path

import pytest

_BESIDE = Path(__file__).parents[2] / "shared" / "public-data"
_PUBLIC_DATA = Path(os.environ.get("COSTMODEL_PUBLIC_DATA", _BESIDE))
KERNEL_TUNER = _PUBLIC_DATA / "kernel-tuner"
CUSYNC = _PUBLIC_DATA / "cusync"
PLACEMENT = _PUBLIC_DATA / "placement"

needs_public_data = pytest.mark.skipif(
    not KERNEL_TUNER.is_dir(), reason="COSTMODEL_PUBLIC_DATA does not say where public data are"
)
needs_placement_graphs = pytest.mark.skipif(
    not PLACEMENT.is_dir(), reason="COSTMODEL_PUBLIC_DATA does not say where graphs to place are"
)
