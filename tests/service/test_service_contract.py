"""The contract of engines, on processes of this machine and on workers of Dask."""

from collections.abc import Callable
from typing import Any

import pytest

from costmodel.collector import LocalEngine
from costmodel.service import DaskEngine
from costmodel.testing import ENGINE_CHECKS, EngineCase

RESOURCES = {"build": 1.0}


@pytest.mark.parametrize("check", ENGINE_CHECKS)
def test_local_engine_keeps_the_contract(check: Callable[[EngineCase], None]) -> None:
    pytest.importorskip("pebble")
    check(EngineCase(lambda: LocalEngine(2, resources=RESOURCES), RESOURCES))


@pytest.mark.parametrize("check", ENGINE_CHECKS)
def test_dask_engine_keeps_the_contract(check: Callable[[EngineCase], None], dask_cluster: Any) -> None:
    check(EngineCase(lambda: DaskEngine(dask_cluster), RESOURCES))
