"""What kernels take: tables over SMs, recorded, predicted and by a roofline."""

import numpy as np
import pytest

import costmodel
from costmodel.errors import CostModelError
from costmodel.planner import FirstKnown, PredictedLatencies, RecordedLatencies, RooflineLatencies
from costmodel.planner._latencies import KernelTable
from costmodel.records import Workload

pytestmark = pytest.mark.white_box

TABLE = KernelTable(
    ("whole", "part", "unknown", "failed"),
    (8, 32, 128),
    np.array([[9.0, 6.0, 1.0], [4.0, 2.0, 3.0], [1.0, np.nan, np.nan], [np.inf, np.inf, np.inf]]),
    "recorded",
)


def workload(name: str) -> Workload:
    return Workload.parse(name)


@pytest.fixture(scope="module")
def recorded() -> RecordedLatencies:
    return RecordedLatencies("h100-sm-budgets")


def test_the_best_kernel_is_another_one_on_other_sms() -> None:
    found = [TABLE.best(sms) for sms in TABLE.sms]
    assert [(each.candidate_id, each.latency_s) for each in found if each] == [
        ("unknown", 1.0),
        ("part", 2.0),
        ("whole", 1.0),
    ]


def test_a_kernel_keeps_its_name_on_other_sms_and_is_one_that_is_known_on_both() -> None:
    kept = TABLE.best(32, chosen_for=128)
    assert kept
    assert (kept.candidate_id, kept.latency_s) == ("whole", 6.0)
    small = TABLE.best(128, chosen_for=8)
    assert small
    assert small.candidate_id == "part"  # the fastest on 8 was never measured on 128


def test_between_two_numbers_of_sms_logs_are_linear_and_outside_nothing_is_known() -> None:
    near = TABLE.best(12)
    assert near
    assert near.latency_s == pytest.approx(4.0 * 0.5 ** (np.log(12 / 8) / np.log(32 / 8)))
    assert TABLE.best(4) is None
    assert TABLE.best(129) is None


def test_recorded_latencies_are_the_least_of_the_dataset(recorded: RecordedLatencies) -> None:
    rows = costmodel.load_dataset("h100-sm-budgets").rows
    here = rows[(rows.workload == "softmax-m1536-n128") & (rows.sms_granted == 32)]
    table = recorded.kernels(workload("softmax-m1536-n128"))
    assert table
    best = table.best(32)
    assert best
    assert best.latency_s == here.latency_s.min()
    assert (best.low_s, best.high_s) == (best.latency_s, best.latency_s)
    assert recorded.kernels(workload("softmax-m3-n5")) is None


def test_a_device_that_was_not_measured_is_refused() -> None:
    with pytest.raises(CostModelError, match=r"\(NVIDIA H100 80GB HBM3\), but got 'A100'"):
        RecordedLatencies("h100-sm-budgets", "A100")


def test_a_measured_device_is_named_as_people_write_it_and_never_by_what_several_are_called() -> None:
    for name, device in (("h_200", "NVIDIA H200"), ("H100 SXM5 80GB", "NVIDIA H100 80GB HBM3")):
        assert RecordedLatencies("sm-budgets", name).device.name == device
    with pytest.raises(CostModelError, match="must be one of those measured"):
        RecordedLatencies("sm-budgets", "nvidia")


def test_sms_that_the_device_does_not_have_are_refused(recorded: RecordedLatencies) -> None:
    assert recorded.on_device(None) == 132
    with pytest.raises(CostModelError, match=r"sms of NVIDIA H100 80GB HBM3 must .* 1 to 132, but got 133"):
        recorded.on_device(133)


@pytest.mark.parametrize("device", ["H100", "H200"])
def test_no_best_recorded_kernel_is_much_faster_than_a_roofline(device: str) -> None:
    recorded = RecordedLatencies("sm-budgets", device)
    roof = RooflineLatencies(recorded.device)
    ratios = []
    for name in recorded.dataset.workloads[::3]:
        table = recorded.kernels(workload(name))
        assert table
        for sms in table.sms:
            best = table.best(sms)
            assert best
            ratios.append(best.latency_s / roof.seconds(sms, workload(name)))
    assert min(ratios) > 0.94
    assert np.mean(np.array(ratios) < 1.0) < 0.02


def test_a_roofline_falls_with_sms_and_knows_programs_but_no_foreign_kernels(
    recorded: RecordedLatencies,
) -> None:
    roof = RooflineLatencies(recorded.device)
    table = roof.kernels(workload("tir.transpose-f1-b4194304"))
    assert table
    assert (np.diff(table.latency_s[0]) <= 0).all()
    assert table.origin == "estimated"
    assert roof.kernels(workload("cuda.nbody-n2048")) is None
    # float16 products run on Tensor Cores
    halves, singles = (roof.seconds(8, workload(f"matmul-m4096-n4096-k4096{d}")) for d in ("-float16", ""))
    assert singles / halves == pytest.approx(16, rel=0.01)


def test_what_the_first_does_not_know_the_next_may(recorded: RecordedLatencies) -> None:
    both = FirstKnown(recorded, RooflineLatencies(recorded.device))
    origins = [
        table.origin
        for name in ("softmax-m1536-n128", "softmax-m3-n5")
        if (table := both.kernels(workload(name)))
    ]
    assert origins == ["recorded", "estimated"]


@pytest.mark.tvm
def test_predicted_kernels_are_never_faster_than_a_roofline() -> None:
    pytest.importorskip("tvm")
    model = costmodel.train("h100-sm-budgets", "ridge")
    predicted = PredictedLatencies(model, good_at=[32], pool=3)
    asked = workload("softmax-m64-n32")
    table = predicted.kernels(asked)
    assert table
    assert table.origin == "predicted"
    assert len(table.candidate_ids) == 3
    assert (table.sms[0], table.sms[-1]) == (8, 132)
    roof = RooflineLatencies(predicted.device)
    least = [roof.seconds(sms, asked) for sms in table.sms]
    assert (table.latency_s >= least).all()
    assert (table.latency_s > least).any()
    assert predicted.kernels(asked) is table
    assert predicted.kernels(workload("cuda.nbody-n2048")) is None
