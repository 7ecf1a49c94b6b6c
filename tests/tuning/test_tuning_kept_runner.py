"""The runner of a device stays open between searches of the same sources, and knows no build that is gone."""

import shutil
from pathlib import Path

import pytest

from costmodel import tune
from costmodel.tuning._places import Cpu, KeptRunner

pytestmark = [pytest.mark.white_box, pytest.mark.tvm]


def test_searches_share_a_runner_and_build_anew_what_was_deleted(tmp_path: Path) -> None:
    pytest.importorskip("tvm")
    kept, kernels = KeptRunner(), tmp_path / "kernels"
    place = Cpu(kernels=kernels, kept=kept)
    try:
        first = tune("matmul-m16-n16-k16", sms=1, trials=2, on=place, prior=None)
        runner = kept._runner
        shutil.rmtree(kernels)
        again = tune("matmul-m16-n16-k16", sms=1, trials=2, on=place, prior=None)
        assert kept._runner is runner
        assert kept.gpu is None
        latencies_s = [trial.latency_s[0] for result in (first, again) for trial in result.trials]
        assert all(0.0 < latency_s < float("inf") for latency_s in latencies_s)
    finally:
        kept.close()
    assert kept._runner is None
