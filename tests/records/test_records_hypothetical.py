"""Devices that were made up, and sweeps over them."""

import msgspec
import pytest

from costmodel.errors import CostModelError
from costmodel.records import (
    Candidate,
    Config,
    Device,
    Measurement,
    Outcome,
    Workload,
    find_device,
    hypothetical,
)
from costmodel.records._hypothetical import QUANTITIES, Sweep, sweep_devices
from costmodel.records._platform import part_of

pytestmark = pytest.mark.white_box

H100 = find_device("H100 SXM")


def test_only_what_is_named_changes_and_the_name_says_so() -> None:
    made = hypothetical("H100 SXM", sms=160, bandwidth=4800)
    assert (made.sms, made.bandwidth_gb_s, made.of) == (160, 4800.0, H100)
    assert made.name == f"{H100.name} with 160 SMs, 4800 GB/s (hypothetical)"
    same = set(QUANTITIES) - {"sms", "bandwidth_gb_s"} | {"kind", "architecture"}
    assert all(getattr(made, name) == getattr(H100, name) for name in same)
    assert part_of(made, 150).name.endswith("(hypothetical)/green_context/150")


def test_changes_of_one_that_was_made_up_are_added() -> None:
    twice = hypothetical(hypothetical(H100, sms=160), l2_bytes=2**26)
    assert twice == hypothetical(H100, sms=160, l2_bytes=2**26)


@pytest.mark.parametrize(
    ("device", "changes", "message"),
    [
        (H100, {}, "must be changed, but got nothing"),
        (H100, {"sms": 0}, "sms must be a whole number above 0"),
        (H100, {"sms": 1.5}, "sms must be a whole number above 0"),
        (H100, {"sms": 1e9}, "at most 1,000 times the 132"),
        (H100, {"bandwidth": float("nan")}, "bandwidth_gb_s must be a number above 0"),
        (H100, {"clock": -1}, "clock_mhz must be a number above 0"),
        (H100, {"max": 32}, "could be max_threads_per_sm or max_blocks_per_sm"),
        (H100, {"banwidth": 1}, "must be one of sms, "),
        (Device("x", "cuda", "", 8, 1000.0), {"bandwidth": 1}, "of x must be known to be changed"),
        (Device("x", "cpu", "", 8, 1000.0), {"sms": 1}, "made of a GPU"),
    ],
)
def test_what_cannot_be_is_refused(device: Device, changes: dict[str, float], message: str) -> None:
    with pytest.raises(CostModelError, match=message):
        hypothetical(device, **changes)


def test_nothing_is_measured_on_it() -> None:
    kernel = Candidate(Workload.parse("matmul-m64-n64-k64"), "space", Config({"tile": 1}))
    platform = part_of(hypothetical(H100, sms=64))
    with pytest.raises(ValueError, match=r"nothing can be measured on NVIDIA H100.*with 64 SMs"):
        Measurement(candidate=kernel, platform=platform, outcome=Outcome.TIMEOUT, measured_at="")
    with pytest.raises(msgspec.ValidationError, match="unknown field `of`"):
        msgspec.json.decode(msgspec.json.encode(platform.device), type=Device)


def test_a_sweep_goes_from_first_to_last_in_steps() -> None:
    assert Sweep.parse("sms=64:256:64") == Sweep("sms", (64.0, 128.0, 192.0, 256.0))
    assert Sweep.parse("clock=1:1.3:.1").values == pytest.approx((1.0, 1.1, 1.2, 1.3))
    assert Sweep.parse("clock=0.1:0.3:0.1").values == pytest.approx(
        (0.1, 0.2, 0.3)
    )  # 0.2 / 0.1 < 2 in floats
    assert Sweep.parse("bandwidth=3000:3000:1") == Sweep("bandwidth_gb_s", (3000.0,))
    made = list(sweep_devices(H100, [Sweep.parse("sms=64:128:64"), Sweep.parse("bandwidth=1000:2000:1000")]))
    assert [(each["sms"], each["bandwidth_gb_s"]) for each, _ in made] == [
        (64, 1000),
        (128, 1000),
        (64, 2000),
        (128, 2000),
    ]
    assert made[3][1] == hypothetical(H100, sms=128, bandwidth_gb_s=2000)


@pytest.mark.parametrize(
    "values", ["", "=1:2", "=2:1:1", "=1:9:0", "=1:9:-1", "=a:b:c", "=1:1e9:1", "=1:inf:1", "=nan:2:1"]
)
def test_another_sweep_is_refused(values: str) -> None:
    with pytest.raises(CostModelError, match=r"NAME=FIRST:LAST:STEP"):
        Sweep.parse(f"sms{values}")


@pytest.mark.parametrize(
    "sweeps", [(), ("sms=8:16:8", "sms=8:16:8"), ("sms=1:100:1", "clock_mhz=1001:1100:1")]
)
def test_sweeps_that_do_not_go_together_are_refused(sweeps: tuple[str, ...]) -> None:
    with pytest.raises(CostModelError, match="Sweeps must be of one quantity or two"):
        list(sweep_devices(H100, [Sweep.parse(each) for each in sweeps]))
