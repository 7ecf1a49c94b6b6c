import json
import subprocess
import sys
from itertools import combinations, product
from pathlib import Path

import msgspec
import numpy as np
import optuna
import pytest
from small_spaces import SMALL, drawn

from costmodel.dataset import load_dataset
from costmodel.errors import CostModelError, InvalidConfigError
from costmodel.kernels import open_space, sample_candidates
from costmodel.kernels.metaschedule._parameters import Categorical, Tile
from costmodel.records import Candidate, Config, Workload

tvm = pytest.importorskip("tvm")
tvm_ffi = pytest.importorskip("tvm_ffi")
pytestmark = [pytest.mark.tvm, pytest.mark.white_box]

MATMUL = "matmul-m32-n32-k32"
# What each kind decides in its first sketch, by the names of its blocks and loops in TVM's operator library.
CUDA_NAMES = {
    "matmul": [
        "tile.C.i",
        "tile.C.j",
        "tile.C.k",
        "cooperative_fetch.A_shared",
        "cooperative_fetch.B_shared",
    ],
    "batch_matmul": [
        *("tile.C.n", "tile.C.i", "tile.C.j", "tile.C.k"),
        *("cooperative_fetch.A_shared", "cooperative_fetch.B_shared"),
    ],
    "conv2d": [
        *(f"tile.conv2d_nchw.{loop}" for loop in ("nn", "ff", "yy", "xx", "rc", "ry", "rx")),
        *("cooperative_fetch.pad_temp_shared", "cooperative_fetch.weight_shared"),
    ],
    "depthwise_conv2d": [
        *(f"tile.DepthwiseConv2d.{loop}" for loop in ("b", "c", "i", "j", "di", "dj")),
        *("cooperative_fetch.PaddedInput_shared", "cooperative_fetch.weight_shared"),
    ],
    "conv2d_nhwc": [
        *(f"tile.conv2d_nhwc.{loop}" for loop in ("nn", "ff", "yy", "xx", "rc", "ry", "rx")),
        *("cooperative_fetch.pad_temp_shared", "cooperative_fetch.weight_shared"),
    ],
    "softmax": ["split.T_softmax_norm", "split.T_softmax_expsum", "split.T_softmax_maxelem"],
    "layer_norm": ["split.T_layer_norm"],
}
CUDA_NAMES["matmul_bias_gelu"] = CUDA_NAMES["matmul"]


def as_database_json(trace: object) -> object:
    """A trace as MetaSchedule's JSON database writes and reads it."""
    return json.loads(json.dumps(trace.as_json(), default=lambda number: number.value))  # type: ignore[attr-defined]


def test_cuda_decisions_have_the_documented_names(workload: Workload) -> None:
    first = open_space(workload, "cuda").sketches[0]
    assert {p.name for p in first.parameters} == {*CUDA_NAMES[workload.kind], "unroll_explicit.root"}


def test_cpu_decisions_have_the_documented_names() -> None:
    names = {
        name: {p.name for p in open_space(Workload.parse(name), "cpu").sketches[0].parameters}
        for name in (MATMUL, "conv2d-n1-c8-h14-w14-o8-k3-s1")
    }
    assert names[MATMUL] == {"tile.C.i", "tile.C.j", "tile.C.k", "unroll_explicit.root"}
    loops = {f"tile.conv2d_nchw.{loop}" for loop in ("nn", "ff", "yy", "xx", "rc", "ry", "rx")}
    assert names["conv2d-n1-c8-h14-w14-o8-k3-s1"] == {*loops, "compute_at.pad_temp", "unroll_explicit.root"}


def test_names_are_unique_and_tiles_have_the_loops_extents(workload: Workload, kind: str) -> None:
    for sketch in open_space(workload, kind).sketches:
        names = [parameter.name for parameter in sketch.parameters]
        assert len(set(names)) == len(names)
        assert all(p.extent >= 1 for p in sketch.parameters if isinstance(p, Tile))
    if "matmul" in workload.kind:
        first = open_space(workload, kind).sketches[0]
        extents = {p.name: p.extent for p in first.parameters if isinstance(p, Tile)}
        loops = {"b": "n", "m": "i", "n": "j", "k": "k"}  # dimension of the workload: loop of the program
        assert extents == {f"tile.C.{loops[dim]}": size for dim, size in workload.dims.items()}


def test_a_config_survives_schedule_and_trace(workload: Workload, kind: str) -> None:
    space = open_space(workload, kind)
    for candidate in drawn(workload.name, kind):
        assert candidate.space == space.name
        assert space.config_of(space.schedule(candidate.config).trace) == candidate.config


def test_a_config_survives_a_database(workload: Workload, kind: str) -> None:
    space = open_space(workload, kind)
    for candidate in drawn(workload.name, kind):
        trace = space.schedule(candidate.config).trace
        assert space.config_of(as_database_json(trace)) == candidate.config
        assert space.config_of(as_database_json(trace.simplified(remove_postproc=True))) == candidate.config


def test_a_config_survives_json(workload: Workload, kind: str) -> None:
    for candidate in drawn(workload.name, kind):
        again = msgspec.json.decode(msgspec.json.encode(candidate), type=Candidate)
        assert again == candidate
        assert open_space(workload, kind).candidate(again.config) == candidate


def test_traces_that_metaschedule_draws_itself_have_configs(workload: Workload, kind: str) -> None:
    space = open_space(workload, kind)
    for sketch, seed in product(space.sketches, range(1, 9)):
        schedule = tvm.s_tir.Schedule(space.module, seed=seed, debug_mask=0)
        # Without decisions, MetaSchedule draws its own.
        tvm.s_tir.schedule.Trace(sketch.trace.insts, {}).apply_to_schedule(schedule, remove_postproc=True)
        config = space.config_of(schedule.trace)
        try:
            again = space.config_of(space.schedule(config).trace)
        except InvalidConfigError:
            continue
        assert again == config


def test_different_configs_are_different_programs() -> None:
    space = open_space(Workload.parse(MATMUL), "cuda")
    programs = [space.schedule(candidate.config).mod for candidate in drawn(MATMUL, "cuda")]
    assert not any(tvm_ffi.structural_equal(a, b) for a, b in combinations(programs, 2))


def test_mutation_changes_one_decision_and_stays_in_the_space(workload: Workload, kind: str) -> None:
    space, rng = open_space(workload, kind), np.random.default_rng(0)
    config = drawn(workload.name, kind)[0].config
    for _ in range(40):
        changed = space.mutate(config, rng)
        assert sum(changed.decisions[name] != value for name, value in config.decisions.items()) == 1
        sketch = space.sketches[changed.decisions["sketch"]]
        assert all(p.contains(changed.decisions[p.name]) for p in sketch.parameters)
        assert all(bound.holds(changed.decisions) for bound in sketch.constraints)
        config = changed


def test_mutation_of_a_config_without_neighbours_gives_it_back() -> None:
    space, rng = open_space(Workload.parse("matmul-m1-n1-k1"), "cpu"), np.random.default_rng(0)
    config = space.sample(rng)
    tiles = {name: value for name, value in config.decisions.items() if name.startswith("tile")}
    changed = space.mutate(config, rng)
    assert changed.decisions.items() >= tiles.items()


def test_samples_keep_the_constraints() -> None:
    space, rng = open_space(Workload.parse(MATMUL), "cuda"), np.random.default_rng(0)
    for _ in range(200):
        tiles = space.sample(rng).decisions
        assert 32 <= tiles["tile.C.i"][2] * tiles["tile.C.j"][2] <= 1024
        assert tiles["tile.C.i"][1] * tiles["tile.C.j"][1] <= 8


@pytest.mark.parametrize(
    "name",
    [
        MATMUL,
        "conv2d-n1-c8-h14-w14-o8-k3-s2",
        "depthwise_conv2d-n2-c8-h14-w14-k3-s1",
        "batch_matmul-b2-m32-n32-k32",
        "matmul-m128-n128-k64-float16",
    ],
)
def test_constraints_never_exclude_what_verifies(name: str) -> None:
    space, rng = open_space(Workload.parse(name), "cuda"), np.random.default_rng(0)
    verified = excluded = 0
    for _ in range(160):
        position = int(rng.integers(len(space.sketches)))
        sketch = space.sketches[position]
        config = Config({"sketch": position} | {p.name: p.sample(rng) for p in sketch.parameters})
        # TVM does not enforce its limit of virtual threads.
        bounds = [b for b in sketch.constraints if getattr(b, "high", None) != 8]
        holds = all(bound.holds(config.decisions) for bound in bounds)
        excluded += not holds
        try:
            space.schedule(config)
        except InvalidConfigError:
            continue
        verified += 1
        assert holds, config
    assert verified > 5
    assert excluded > 40


@pytest.mark.parametrize("name", ["matmul-m512-n512-k512", "depthwise_conv2d-n1-c96-h56-w56-k3-s2"])
def test_nearly_all_samples_verify(name: str) -> None:
    space, rng = open_space(Workload.parse(name), "cuda"), np.random.default_rng(0)
    assert sum(verifies(space, config) for config in draws(space, rng, 30)) >= 29


def verifies(space: object, config: Config) -> bool:
    try:
        space.schedule(config)  # type: ignore[attr-defined]
    except InvalidConfigError:
        return False
    return True


def test_samples_are_uniform_over_sketches() -> None:
    space, rng = open_space(Workload.parse("matmul-m64-n32-k32-float16"), "cuda"), np.random.default_rng(0)
    counts = np.bincount([config.decisions["sketch"] for config in draws(space, rng, 500)], minlength=5)
    assert len(counts) == 5
    assert np.all(np.abs(counts - 100) < 40), counts


def test_tiny_operators_have_kernels_of_few_threads() -> None:
    candidates = sample_candidates(Workload.parse("matmul-m2-n2-k2"), "cuda", 4, seed=0)
    assert len(candidates) == 4
    assert all(candidate.launches[0].threads_per_block <= 4 for candidate in candidates)


def test_a_sketch_whose_constraints_no_config_meets_does_not_hold_up_the_draw() -> None:
    space, rng = open_space(Workload.parse("matmul-m1-n64-k1"), "cuda"), np.random.default_rng(0)
    verified = {config.decisions["sketch"]: verifies(space, config) for config in draws(space, rng, 12)}
    assert verified == {0: True, 1: False, 2: False}, "one step of the reduction leaves nothing to pipeline"


def draws(space: object, rng: np.random.Generator, count: int) -> list[Config]:
    return [space.sample(rng) for _ in range(count)]  # type: ignore[attr-defined]


def test_more_virtual_threads_than_are_drawn_can_be_scheduled() -> None:
    space = open_space(Workload.parse(MATMUL), "cuda")
    tiles = {"tile.C.i": (1, 4, 4, 2, 1), "tile.C.j": (1, 4, 8, 1, 1), "tile.C.k": (8, 4, 1)}
    fetch = {"cooperative_fetch.A_shared": 1, "cooperative_fetch.B_shared": 1, "unroll_explicit.root": 0}
    config = Config({"sketch": 0, **tiles, **fetch})
    assert not all(bound.holds(config.decisions) for bound in space.sketches[0].constraints)
    (launch,) = space.candidate(config).launches
    assert (launch.vthreads, launch.threads_per_block) == (16, 32)


def test_invalid_configs_say_why() -> None:
    space, rng = open_space(Workload.parse(MATMUL), "cuda"), np.random.default_rng(0)
    good = space.sample(rng).decisions
    with pytest.raises(InvalidConfigError, match=r"sketch must be in \[0, 2\] .* but got 3"):
        space.schedule(Config({**good, "sketch": 3}))
    with pytest.raises(InvalidConfigError, match="but got None"):
        space.schedule(Config({k: v for k, v in good.items() if k != "sketch"}))
    with pytest.raises(InvalidConfigError, match=r"tile.C.i must be a choice of .*extent=32.* but got"):
        space.schedule(Config({**good, "tile.C.i": (1, 1, 1, 1, 33)}))
    with pytest.raises(InvalidConfigError, match=r"unroll_explicit\.root must be a choice of"):
        space.schedule(Config({**good, "unroll_explicit.root": 17}))
    with pytest.raises(InvalidConfigError, match=r"must decide .* It was made for another space"):
        space.schedule(Config({**good, "nonsense": 1}))


def test_too_much_shared_memory_is_an_invalid_config() -> None:
    space = open_space(Workload.parse("matmul-m1024-n1024-k1024"), "cuda")
    tiles = {"tile.C.i": (4, 1, 32, 4, 2), "tile.C.j": (4, 1, 32, 4, 2), "tile.C.k": (1, 1024, 1)}
    fetch = {"cooperative_fetch.A_shared": 1, "cooperative_fetch.B_shared": 1, "unroll_explicit.root": 0}
    with pytest.raises(InvalidConfigError, match="VerifyGPUCode refuses"):
        space.candidate(Config({"sketch": 0, **tiles, **fetch}))


@pytest.mark.parametrize(
    ("name", "kind"),
    [("conv2d-n1-c8-h14-w14-o8-k3-s1", "cuda"), (MATMUL, "cpu"), ("matmul-m64-n32-k32", "cuda")],
)
def test_foreign_traces_and_configs_are_refused(name: str, kind: str) -> None:
    space = open_space(Workload.parse(MATMUL), "cuda")
    config = drawn(name, kind)[0].config
    trace = open_space(Workload.parse(name), kind).schedule(config).trace
    with pytest.raises(CostModelError, match="made for another workload, target or rule set"):
        space.config_of(trace)
    with pytest.raises(InvalidConfigError, match="space"):
        space.schedule(config)
    if "m64" not in name:  # TVM fits the tiles of another extent when it reads the same sketch from JSON
        with pytest.raises(CostModelError, match="made for another workload, target or rule set"):
            space.config_of(as_database_json(trace))


def test_names_are_the_same_in_every_process() -> None:
    code = (
        "import sys; from costmodel.records import Workload\n"
        "from costmodel.kernels.metaschedule._source import open_space\n"
        "for name in sys.argv[1:]:\n"
        "    for kind in ('cuda', 'cpu'):\n"
        "        print(open_space(Workload.parse(name), kind).name)\n"
    )
    environment = {"PYTHONHASHSEED": "12345", "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", code, *SMALL], capture_output=True, text=True, check=True, env=environment
    )
    here = [open_space(Workload.parse(name), kind).name for name in SMALL for kind in ("cuda", "cpu")]
    assert done.stdout.split() == here
    assert len(set(here)) >= len(SMALL) + 7, "a CPU's sketches are the same for both dtypes"


def test_the_spaces_of_the_published_dataset_have_kept_their_names() -> None:
    candidates = load_dataset(Path("datasets/h100-sm-budgets/measurements.parquet")).candidates
    published = {(candidate.workload, candidate.space) for candidate in candidates}
    assert len(published) >= 24
    assert {(workload, open_space(workload, "cuda").name) for workload, _ in published} == published


def test_suggested_configs_are_in_the_space(workload: Workload, kind: str) -> None:
    space = open_space(workload, kind)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    for _ in range(10):
        trial = study.ask()
        config = space.suggest(trial)
        sketch = space.sketches[config.decisions["sketch"]]
        assert set(config.decisions) == {"sketch", *(p.name for p in sketch.parameters)}
        assert all(p.contains(config.decisions[p.name]) for p in sketch.parameters)
        assert all(isinstance(p, Tile | Categorical) for p in sketch.parameters)


def test_draws_near_parents_go_on_at_random_when_these_have_no_more_neighbours() -> None:
    workload = Workload.parse("softmax-m64-n32")
    parents = [drawn(workload.name, "cuda")[0]]
    found = sample_candidates(
        workload, "cuda", 24, seed=0, parents=[p.config for p in parents], known=parents
    )
    sketches = {candidate.config.decisions["sketch"] for candidate in found}
    assert len(found) == 24
    assert len(sketches) > 1, "a mutation never changes the sketch, a random draw does"


def test_an_exhausted_space_ends_the_draw() -> None:
    workload = Workload.parse("softmax-m2-n2")
    found = sample_candidates(workload, "cuda", 10_000, seed=0)
    programs = {open_space(workload, "cuda").program_hash(candidate.config) for candidate in found}
    assert len(programs) == len(found) < 200
