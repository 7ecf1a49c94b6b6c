"""Configs read from the JSON of traces are those that TVM applies: hundreds of traces, as TVM writes them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_spaces import Kind

from costmodel.errors import InvalidConfigError
from costmodel.kernels import make_target, open_space
from costmodel.records import Config, Workload

pytest.importorskip("tvm")
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms

pytestmark = pytest.mark.tvm

RECORDS = 12  # of each workload on each kind of device


def written(traces: list[Any], space: Any, kind: Kind, folder: Path) -> list[Any]:
    """The traces as TVM's own database writes them."""
    database = ms.database.JSONDatabase(work_dir=str(folder))
    program = database.commit_workload(space.module)
    for trace in traces:
        record = ms.database.TuningRecord(trace, program, [1e-5], make_target(kind))
        database.commit_tuning_record(record)
    lines = (folder / "database_tuning_record.json").read_text().splitlines()
    return [json.loads(line)[1][0] for line in lines]


def scheduled(space: Any, count: int) -> dict[str, Any]:
    """Traces of random configs, by the config's identity."""
    rng, found = np.random.default_rng(0), {}
    while len(found) < count:
        config = space.sample(rng)
        try:
            trace = space.schedule(config).trace
        except InvalidConfigError:
            continue
        found[space.config_of(trace).config_id] = trace
    return found


def test_a_config_is_read_as_it_is_replayed(workload: Workload, kind: Kind, tmp_path: Path) -> None:
    space = open_space(workload, kind)
    known = scheduled(space, RECORDS)
    traces = written(list(known.values()), space, kind, tmp_path)
    read = [space.read_config(trace) for trace in traces]
    assert read == [space.config_of(trace) for trace in traces]
    assert [config.config_id for config in read] == list(known)


def test_what_nothing_uses_is_left_out_as_tvm_does(workload: Workload, kind: Kind, tmp_path: Path) -> None:
    """A loop that nothing needs and a choice of nothing come first, and count all variables on."""
    space = open_space(workload, kind)
    known = scheduled(space, 2)
    traces = []
    for trace in known.values():
        schedule = Schedule(space.module, debug_mask=0)
        schedule.get_child_blocks(schedule.get_sblock("root"))
        schedule.sample_categorical([1, 2], [0.5, 0.5])
        trace.apply_to_schedule(schedule, remove_postproc=True)
        traces.append(schedule.trace)
    read = [space.read_config(trace) for trace in written(traces, space, kind, tmp_path)]
    assert [config.config_id for config in read] == list(known)


def test_what_tvm_would_change_is_not_read(tmp_path: Path) -> None:
    space = open_space(Workload.parse("matmul-m32-n32-k32"), "cuda")
    ((config_id, trace),) = scheduled(space, 1).items()
    (trace,) = written([trace], space, "cuda", tmp_path)
    instructions, decisions = trace
    assert isinstance(config := space.read_config(trace), Config)
    assert config.config_id == config_id
    at = [position for position, _ in decisions]
    tile, category = decisions[0], decisions[-1]
    for changed in ([tile[0], [5, 1, 1, 1, 1]], [tile[0], 3], [category[0], [1]], [category[0], 99]):
        others = [pair for pair in decisions if pair[0] != changed[0]]
        assert space.read_config([instructions, [*others, changed]]) is None
    assert space.read_config([instructions, decisions[1:]]) is None
    assert space.read_config([instructions[: at[-1]], decisions[:-1]]) is None
    other = open_space(Workload.parse("softmax-m64-n32"), "cuda")
    assert other.read_config(trace) is None
