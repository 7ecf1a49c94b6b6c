"""Every kind of workload on every kind of device; neither device needs to be there."""

import pytest
from small_spaces import SMALL, Kind

from costmodel.records import Workload


@pytest.fixture(params=SMALL)
def workload(request: pytest.FixtureRequest) -> Workload:
    return Workload.parse(request.param)


@pytest.fixture(params=["cuda", "cpu"])
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param
