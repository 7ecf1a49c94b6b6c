"""How fast SMs and launches are, read off a driver on which both are known."""

from types import SimpleNamespace

import pytest
from fake_graph_driver import STREAM, FakeDriver, call

from costmodel.collector.device._spin_kernel import Pulse

pytestmark = pytest.mark.white_box


@pytest.mark.parametrize(("clock_mhz", "launch_s"), [(1980.0, 1e-6), (1920.0, 1e-6), (1980.0, 1.17e-6)])
def test_clock_and_launches_are_told_apart(clock_mhz: float, launch_s: float) -> None:
    driver = FakeDriver()

    def launch(stream: int, cycles: int) -> None:
        assert stream == STREAM
        driver.launch(1e3 * (launch_s + cycles / clock_mhz * 1e-6))

    spin = SimpleNamespace(launch=launch, hold=lambda stream: driver.log.append("hold"))
    pulse = Pulse(driver, call, spin, STREAM)  # type: ignore[arg-type]
    for _ in range(2):
        assert pulse.read() == pytest.approx((clock_mhz, launch_s))
    assert [entry for entry in driver.log if entry.startswith("capture")] == ["capture 50"] * 2


def test_a_clock_is_unknown_where_idle_launches_took_longer_than_spinning_ones() -> None:
    driver = FakeDriver()
    spin = SimpleNamespace(
        launch=lambda stream, cycles: driver.launch(1e-3 if cycles else 5e-3), hold=lambda stream: None
    )
    clock_mhz, launch_s = Pulse(driver, call, spin, STREAM).read()  # type: ignore[arg-type]
    assert (clock_mhz, launch_s) == (0.0, pytest.approx(5e-6))
