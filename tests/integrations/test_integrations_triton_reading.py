"""What configs of a user's own kernel do, read for the arguments of a launch on a machine without a GPU."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton")
pytest.importorskip("torch")

import torch
import triton
import triton.language as tl
from triton.runtime import jit

from costmodel.integrations.triton._reading import ReadRequest, bind_config, read_configs

pytestmark = [pytest.mark.triton, pytest.mark.white_box]


@triton.jit
def scale(x, y, by, n, stride, BLOCK: tl.constexpr, FAULT: tl.constexpr = 0):  # noqa: PLR0917
    at = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)) * stride
    tl.static_assert(FAULT == 0, "as asked")
    tl.store(y + at, tl.load(x + at, mask=at < n, other=0.0) * by, mask=at < n)


@triton.jit
def copy(source, target, BLOCK: tl.constexpr):
    target.store([tl.program_id(0) * BLOCK, 0], source.load([tl.program_id(0) * BLOCK, 0]))


def request(n: int = 4096, stride: int = 1) -> ReadRequest:
    x, y = (torch.zeros(n * stride, dtype=torch.float16) for _ in range(2))
    arguments = {"x": x, "y": y, "by": 2.0, "n": n * stride, "stride": stride}
    return ReadRequest(scale, arguments, lambda told: (triton.cdiv(n, told["BLOCK"]),), "sm_90")


CONFIGS = [triton.Config({"BLOCK": block}, num_warps=warps) for block, warps in ((128, 1), (1024, 4))]
BROKEN = triton.Config({"BLOCK": 128, "FAULT": 1})


def test_facts_are_those_of_each_config(tmp_path: Path) -> None:
    small, large = read_configs(request(), CONFIGS, cache=tmp_path)
    assert small.note == large.note == ""
    for reading, block, warps in ((small, 128, 1), (large, 1024, 4)):
        facts = reading.facts
        assert (facts.programs, facts.threads) == (4096 / block, 32 * warps)
        assert (facts.load_bytes, facts.store_bytes) == (2 * block, 2 * block)
        assert facts.load_sectors == 2 * block / 32
        assert facts.read_array_bytes == 2 * 4096
        assert facts.guesses == 0
        assert facts.thread_loads >= 1


def test_rules_tell_arguments_of_each_config(tmp_path: Path) -> None:
    """As those of ``triton.heuristics`` do."""
    asked = replace(request(), rules={"FAULT": lambda told: int(told["BLOCK"] * told["n"] > 128 * 4096)})
    small, large = read_configs(asked, CONFIGS, cache=tmp_path)
    assert small.note == ""
    assert large.note == "CompileTimeAssertionFailure: as asked"


def test_a_stride_is_seen(tmp_path: Path) -> None:
    """It is 1 and compiled in, or an argument."""
    (near,), (far,) = (read_configs(request(stride=each), CONFIGS[:1], cache=tmp_path) for each in (1, 32))
    assert near.facts.load_sectors == 8
    assert far.facts.load_sectors == 128
    assert near.facts.load_bytes == far.facts.load_bytes == 2 * 128


def test_workers_read_the_same_and_keep_the_text(tmp_path: Path) -> None:
    here = read_configs(request(), [*CONFIGS, BROKEN], cache=tmp_path / "here")
    apart = read_configs(request(), [*CONFIGS, BROKEN], workers=2, timeout_s=60, cache=tmp_path / "apart")
    assert [each.facts for each in apart[:2]] == [each.facts for each in here[:2]]
    assert here[2].note == "CompileTimeAssertionFailure: as asked"
    assert apart[2].note == here[2].note
    names = [sorted(each.name for each in (tmp_path / where).iterdir()) for where in ("here", "apart")]
    assert names[0] == names[1]
    assert len(names[0]) == 2 * 2  # a text and facts of each that could be read


@pytest.mark.parametrize("left", [0, 40])
def test_what_is_damaged_is_read_again(left: int, tmp_path: Path) -> None:
    before = read_configs(request(), CONFIGS, cache=tmp_path)
    for file in tmp_path.iterdir():
        file.write_bytes(file.read_bytes()[:left])
    assert read_configs(request(), CONFIGS, cache=tmp_path) == before
    assert read_configs(request(), CONFIGS, cache=tmp_path) == before


def test_sizes_with_the_same_specialisation_share_a_text(tmp_path: Path) -> None:
    for n in (4096, 8192):
        (reading,) = read_configs(request(n), CONFIGS[:1], cache=tmp_path)
        assert reading.facts.programs == n / 128
    assert len(list(tmp_path.glob("*.gz"))) == 1
    read_configs(request(4095), CONFIGS[:1], cache=tmp_path)  # 16 does not divide it
    assert len(list(tmp_path.glob("*.gz"))) == 2


@pytest.mark.parametrize("stride", [1, 32])
def test_without_tritons_binder_its_rules_tell_the_same(stride: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = request(stride=stride)
    by_binder, launch = bind_config(asked, CONFIGS[0])
    monkeypatch.delattr(jit, "create_function_from_signature")
    by_rule, same = bind_config(asked, CONFIGS[0])
    told = [(each.source.hash(), each.specialization.options) for each in (by_binder, by_rule)]
    assert told[0][1] == told[1][1]
    assert launch == same
    assert dict(by_binder.specialization.signature) == dict(by_rule.specialization.signature)
    attributes = [
        {place: value for place, value in each.specialization.attributes.items() if value}
        for each in (by_binder, by_rule)
    ]
    assert attributes[0] == attributes[1]


def test_descriptors_are_read(tmp_path: Path) -> None:
    descriptors = pytest.importorskip("triton.tools.tensor_descriptor")
    tensors = [torch.zeros(1024, 64, dtype=torch.float16) for _ in range(2)]
    source, target = (descriptors.TensorDescriptor.from_tensor(each, [32, 64]) for each in tensors)

    def fit(told: dict[str, Any]) -> None:
        source.block_shape = target.block_shape = [told["BLOCK"], 64]

    configs = [triton.Config({"BLOCK": block}, pre_hook=fit) for block in (32, 128)]
    asked = ReadRequest(
        copy, {"source": source, "target": target}, lambda told: (1024 // told["BLOCK"],), "sm_90"
    )
    for reading, block in zip(read_configs(asked, configs, cache=tmp_path), (32, 128), strict=True):
        assert reading.note == ""
        assert reading.facts.load_bytes == reading.facts.store_bytes == 2 * 64 * block
        assert reading.facts.read_array_bytes == 2 * 64 * 1024


def test_time_that_is_over_leaves_a_note(tmp_path: Path) -> None:
    (reading,) = read_configs(request(), CONFIGS[:1], workers=1, timeout_s=0.0, cache=tmp_path)
    assert "no time" in reading.note
