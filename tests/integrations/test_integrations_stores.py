"""What other tuners find goes into the same store: Triton's own autotuner, and Helion's cache."""

from pathlib import Path
from typing import Any

import pytest

triton = pytest.importorskip("triton")
torch = pytest.importorskip("torch")

import triton.language as tl  # noqa: E402

from costmodel.errors import CostModelError  # noqa: E402
from costmodel.integrations.triton import _timings as timings  # noqa: E402
from costmodel.integrations.triton import autotune, keep_autotuned  # noqa: E402
from costmodel.records import Outcome, read_records  # noqa: E402
from costmodel.records._device_table import find_device  # noqa: E402
from costmodel.records._platform import part_of  # noqa: E402

pytestmark = [pytest.mark.triton, pytest.mark.white_box]

HERE = part_of(find_device("NVIDIA H100 80GB HBM3"), 32)
BLOCKS = (16, 32, 64)


def double(x: Any, n: Any, BLOCK: tl.constexpr) -> None:
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, 2.0 * tl.load(x + at, mask=at < n), mask=at < n)


def tell(listener: Any, *, cache_hit: bool = False) -> None:
    """Tell what Triton 3.9 tells of a kernel that it tuned; under the interpreter it cannot."""
    configs = [triton.Config({"BLOCK": block}) for block in BLOCKS]
    milliseconds = ([2.0, 1.9, 2.1], [float("inf")] * 3, [1.0, 0.9, 1.1])
    listener(
        fn=triton.jit(double),
        key=(16, "torch.float32"),
        best_config=configs[2],
        configs_timings=dict(zip(configs, milliseconds, strict=True)),
        duration=1.0,
        cache_hit=cache_hit,
    )


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A database, which the environment names; Triton is as before in the end."""
    monkeypatch.setenv(timings.STORE_VARIABLE, str(tmp_path / "store.db"))
    with triton.knobs.runtime.scope(), triton.knobs.autotuning.scope():
        triton.knobs.runtime.interpret = True
        yield tmp_path / "store.db"


def needs_listener() -> None:
    if not hasattr(triton.knobs.autotuning, "listener"):
        pytest.skip("needs Triton 3.9")


def test_what_triton_times_is_kept_once_and_who_listened_before_still_does(store: Path) -> None:
    needs_listener()
    heard: list[Any] = []
    triton.knobs.autotuning.listener = lambda **told: heard.append(told["best_config"])
    listener = keep_autotuned(platform=HERE)
    assert triton.knobs.autotuning.listener is listener
    triton.knobs.runtime.interpret = False
    tell(listener)
    tell(listener, cache_hit=True)

    kept = list(read_records(store))
    assert [each.candidate.config.decisions["BLOCK"] for each in kept] == list(BLOCKS)
    assert [each.outcome for each in kept] == [Outcome.OK, Outcome.LAUNCH_ERROR, Outcome.OK]
    assert kept[0].latencies_s == pytest.approx((2e-3, 1.9e-3, 2.1e-3))
    assert {each.candidate.workload.dims["a"] for each in kept} == {16}
    assert {each.platform.sms_granted for each in kept} == {32}
    assert [each.kwargs["BLOCK"] for each in heard] == [64, 64]


def test_the_drop_in_keeps_its_own_and_not_twice(store: Path) -> None:
    needs_listener()
    keep_autotuned(platform=HERE)
    configs = [triton.Config({"BLOCK": block}) for block in BLOCKS]
    kernel = autotune(configs, ["n"], platform=HERE, do_bench=lambda call, quantiles: [1.0, 1.0, 1.0])(
        triton.jit(double)
    )
    kernel[(1,)](torch.ones(16), 16)
    assert len(list(read_records(store))) == len(BLOCKS)


def test_a_triton_that_tells_nothing_is_refused(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton.knobs, "autotuning", object())
    with pytest.raises(CostModelError, match=r"3\.9"):
        keep_autotuned()
    monkeypatch.undo()


def test_helion_finds_what_another_process_found_on_the_same_part_of_a_device(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("helion")
    from costmodel.integrations.helion import _cache as cache

    first, second = cache.StoreBackend(), cache.StoreBackend()
    for sms, data in ((32, '{"a": 1}'), (32, '{"a": 2}'), (64, '{"a": 3}')):
        monkeypatch.setattr(cache, "current_platform", lambda sms=sms: part_of(HERE.device, sms))
        first.put("key", data)
    assert second.get("key") == '{"a": 3}'
    monkeypatch.setattr(cache, "current_platform", lambda: HERE)
    assert second.get("key") == '{"a": 2}'
    assert second.get("another") is None
    first.put("another", '{"a": 4}')
    assert list(second.list()) == ['{"a": 4}', '{"a": 2}']
    assert list(second.list(1)) == ['{"a": 4}']
    assert list(read_records(store)) == []  # timings are another log of the database


def test_helions_cache_is_beside_a_file(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("helion")
    from costmodel.integrations.helion import StoreBackend
    from costmodel.integrations.helion import _cache as cache

    monkeypatch.setattr(cache, "current_platform", lambda: HERE)
    monkeypatch.setenv(timings.STORE_VARIABLE, str(store.with_suffix(".jsonl")))
    StoreBackend().put("key", "{}")
    assert StoreBackend().get("key") == "{}"
    assert not store.with_suffix(".jsonl").exists()
