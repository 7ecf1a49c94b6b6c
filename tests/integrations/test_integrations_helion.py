"""``costmodel.integrations.helion``: Helion's own kernels and configs on a CPU, timed by a formula."""

import json
import math
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton")
torch = pytest.importorskip("torch")
helion = pytest.importorskip("helion")

import helion.language as hl  # noqa: E402
from helion.autotuner import RandomSearch  # noqa: E402 (behind the checks that it is there)
from helion.autotuner.benchmark_provider import BenchmarkProvider, BenchmarkResult  # noqa: E402
from helion.exc import NoConfigFound  # noqa: E402

from costmodel import CostModelError, train  # noqa: E402
from costmodel.dataset import read_files  # noqa: E402
from costmodel.integrations.helion import costmodel_autotuner, keep_timings  # noqa: E402
from costmodel.integrations.helion._reading import expected_log_s, read_helion_configs  # noqa: E402
from costmodel.integrations.helion._records import (  # noqa: E402
    config_to_helion,
    helion_to_config,
    make_helion_question,
)
from costmodel.integrations.helion._search import CostModelSearch  # noqa: E402
from costmodel.integrations.helion._space import HelionSpace  # noqa: E402
from costmodel.records import Measurement, Outcome, Platform, find_device, read_records  # noqa: E402
from costmodel.records._candidate import Config  # noqa: E402
from costmodel.records._platform import part_of  # noqa: E402

pytestmark = [pytest.mark.triton, pytest.mark.white_box]

H100 = find_device("NVIDIA H100 80GB HBM3")


def add(x: Any, y: Any) -> Any:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size()):
        out[tile] = x[tile] + y[tile]
    return out


@dataclass
class Landscape:
    """Times configs by a formula: the best has blocks of 64 x 64 and as many warps as liked, 0.1 ms."""

    liked_warps: int = 4
    sms: int = 132
    timed: list[Any] = field(default_factory=list)
    status: Callable[[Any], str] = lambda _: "ok"
    killed_after: float = math.inf

    def milliseconds(self, config: Any) -> float:
        blocks = sum(abs(math.log2(each / 64)) for each in config.config["block_sizes"])
        return 0.1 * (1.0 + 0.5 * blocks + abs(math.log2(config.config["num_warps"] / self.liked_warps)))

    def without_tuning(self, size: int) -> Any:
        """What Helion runs where nothing tunes."""
        args = (torch.zeros(size, size), torch.zeros(size, size))
        return helion.kernel(add).bind(args).config_spec.default_config()

    def platform(self) -> Platform:
        return part_of(H100, self.sms)

    def provider(self, **_: Any) -> "FormulaProvider":
        return FormulaProvider(self)

    def search(self, store: Path, size: int = 512, args: Any = None, **settings: Any) -> CostModelSearch:
        """A search for a kernel that was bound to tensors of this size."""
        names = {"model", "shortlist", "batch", "seed", "screened"} & settings.keys()
        ours = {"screened": 200, **{name: settings.pop(name) for name in names}}
        args = args or (torch.zeros(size, size), torch.zeros(size, size))
        bound = helion.kernel(add, **settings).bind(args)
        return CostModelSearch(
            bound, args, store=store, platform=self.platform, benchmark_provider_cls=self.provider, **ours
        )


class FormulaProvider(BenchmarkProvider):  # type: ignore[misc]
    mutated_arg_indices = ()

    def __init__(self, landscape: Landscape) -> None:
        self.landscape = landscape

    def setup(self) -> None: ...

    def cleanup(self) -> None: ...

    def benchmark(self, configs: list[Any], **_: Any) -> list[Any]:
        if len(self.landscape.timed) >= self.landscape.killed_after:
            raise KeyboardInterrupt
        self.landscape.timed += configs
        return [self._result(config) for config in configs]

    def _result(self, config: Any) -> Any:
        status = self.landscape.status(config)
        perf = self.landscape.milliseconds(config) if status == "ok" else math.inf
        return BenchmarkResult(config, lambda: None, perf, status, 0.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "timings.jsonl"


def stored(path: Path) -> list[Measurement]:
    return list(read_records(path))


def test_the_best_of_a_landscape_is_found_in_few_configs(path: Path) -> None:
    landscape = Landscape()
    best = landscape.search(path, shortlist=48, screened=1000).autotune()
    assert landscape.milliseconds(best) < 0.16
    assert len(landscape.timed) == len(set(landscape.timed)) == 48


class TestWhatIsReadOfConfigs:
    """Of products of 512 x 512 tiles that Helion makes code for, on a GPU that is not there."""

    def read(self, *configs: Any) -> list[Any]:
        args = (torch.zeros(512, 512), torch.zeros(512, 512))
        return read_helion_configs(helion.kernel(add).bind(args), args, configs, "sm_90", workers=0)

    def config(self, *blocks: int, warps: int = 4) -> Any:
        return helion.Config(block_sizes=list(blocks), num_warps=warps)

    def test_it_is_what_the_code_does(self, own_cache: None) -> None:
        small, large = (each.facts for each in self.read(self.config(8, 128), self.config(64, 128, warps=8)))
        assert (small.programs, small.threads) == (256, 128)
        assert (large.programs, large.threads) == (32, 256)
        for each in (small, large):
            assert each.load_bytes * each.programs == 2 * 4 * 512**2
            assert each.store_bytes * each.programs == 4 * 512**2

    def test_what_cannot_be_made_is_a_note(self, own_cache: None) -> None:
        wrong, right = self.read(self.config(7), self.config(8, 128))
        assert wrong.note
        assert not right.note

    def test_a_search_begins_with_what_reads_best(self, own_cache: None, path: Path) -> None:
        landscape = Landscape(sms=32)
        search = landscape.search(path, shortlist=6, batch=1)
        search.autotune()
        space = search._space()
        drawn = space.draw(12, np.random.default_rng(0)).configs
        others = [space.helion_config(each) for each in drawn if each != space.starts[0]]
        log_s = expected_log_s(search.kernel, search.args, others, landscape.platform())
        untuned, *first = landscape.timed[:3]  # half of the shortlist
        assert untuned == space.helion_config(space.starts[0])
        assert first == [others[i] for i in log_s.argsort()[:2]]


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_what_was_timed_is_kept_and_answers_without_timing(path: Path) -> None:
    first, second = Landscape(), Landscape()
    best = first.search(path, shortlist=8).autotune()
    assert second.search(path, shortlist=8).autotune() == best
    assert second.timed == []
    kept = stored(path)
    assert [each.latency_s * 1e3 for each in kept] == pytest.approx([*map(first.milliseconds, first.timed)])
    assert {each.candidate.workload.name for each in kept} == {"helion.add_fp32x2-a512-b512-c512-d512"}
    assert {each.platform.name for each in kept} == {first.platform().name}


def test_of_two_searches_at_once_one_times_and_the_other_takes_it(path: Path) -> None:
    first, second = Landscape(), Landscape()
    begun, goes_on = threading.Event(), threading.Event()

    def slow(_: Any) -> str:
        begun.set()
        goes_on.wait(60)
        return "ok"

    first.status = slow
    with ThreadPoolExecutor(2) as threads:
        times = threads.submit(first.search(path, shortlist=8).autotune)
        begun.wait(60)
        waits = threads.submit(second.search(path, shortlist=8).autotune)
        time.sleep(0.2)
        assert not waits.done()
        goes_on.set()
        assert waits.result(60) == times.result(60)
    assert (len(first.timed), second.timed) == (8, [])


def scaled_add(x: Any, y: Any, scale: Any, shift: Any, then: Any) -> Any:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size()):
        out[tile] = then(x[tile] + y[tile])
    return out


def doubled_by(factor: float) -> Callable[[Any], Any]:
    return lambda value, factor=factor: value * factor


class TestArgumentsThatAreNoTensors:
    def space(self, *others: Any) -> str:
        kernel = helion.kernel(scaled_add)
        bound = SimpleNamespace(kernel=kernel, settings=kernel.settings)
        return make_helion_question(bound, (torch.zeros(64, 64), torch.zeros(64, 64), *others)).space

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ((None, None, torch.relu), (None, None, torch.sigmoid)),
            ((None, None, lambda value: value + 1.0), (None, None, lambda value: value + 2.0)),
            ((None, None, doubled_by(2.0)), (None, None, doubled_by(3.0))),
            ((torch.float16, None, torch.relu), (torch.float32, None, torch.relu)),
            ((torch.zeros(64), None, torch.relu), (None, torch.zeros(64), torch.relu)),
        ],
    )
    def test_they_tell_questions_apart(self, one: Any, other: Any) -> None:
        assert self.space(*one) != self.space(*other)

    def test_equal_functions_ask_the_same(self) -> None:
        assert self.space(1.0, None, doubled_by(2.0)) == self.space(1.0, None, doubled_by(2.0))
        assert self.space(None, None, torch.relu) == self.space(None, None, torch.relu)


def test_a_kernel_takes_the_answer_of_the_store(path: Path) -> None:
    landscape = Landscape()
    args = (torch.zeros(512, 512), torch.zeros(512, 512))
    best = landscape.search(path, shortlist=8, args=args).autotune()
    tuner = costmodel_autotuner(store=path, shortlist=8, platform=landscape.platform)
    bound = helion.kernel(add, autotuner_fn=tuner).bind(args)
    assert bound.autotune(args, force=False) == best


def test_timing_anew_ignores_the_store(path: Path) -> None:
    landscape = Landscape()
    for _ in range(2):
        landscape.search(path, shortlist=4).autotune(skip_cache=True)
    assert len(landscape.timed) == 8
    assert [each.visit for each in stored(path)] == [0] * 4 + [1] * 4


def test_a_killed_search_goes_on(path: Path) -> None:
    whole, killed, resumed = Landscape(), Landscape(killed_after=8), Landscape()
    whole.search(path.with_name("whole.jsonl"), shortlist=16).autotune()
    with pytest.raises(KeyboardInterrupt):
        killed.search(path, shortlist=16).autotune()
    assert len(stored(path)) == 8
    resumed.search(path, shortlist=16).autotune()
    assert len(resumed.timed) == 8
    assert not set(resumed.timed) & set(killed.timed)


def test_failures_are_outcomes(path: Path) -> None:
    told = {1: "timeout", 2: "accuracy_error", 8: "error", 16: "peer_compilation_fail"}
    landscape = Landscape(status=lambda config: told.get(config.config["num_warps"], "ok"))
    best = landscape.search(path, shortlist=40).autotune()
    assert best.config["num_warps"] in (4, 32)
    expected = {
        1: Outcome.TIMEOUT,
        2: Outcome.WRONG_RESULT,
        8: Outcome.LAUNCH_ERROR,
        16: Outcome.COMPILE_ERROR,
    }
    for each in stored(path):
        warps = each.candidate.config.decisions["num_warps"]
        assert each.outcome is expected.get(warps, Outcome.OK)  # type: ignore[call-overload]
    assert {each.outcome for each in stored(path)} > {Outcome.OK}


def test_where_all_fail_nothing_is_kept(path: Path) -> None:
    landscape = Landscape(status=lambda _: "error")
    with pytest.raises(NoConfigFound):
        landscape.search(path, shortlist=8).autotune()
    assert stored(path) == []


def test_seeds_of_the_user_come_first(path: Path) -> None:
    landscape = Landscape()
    seeds = [helion.Config(block_sizes=[64, 64], num_warps=4), {"block_sizes": [32, 64], "num_warps": 8}]
    best = landscape.search(path, shortlist=4, autotune_seed_configs=seeds).autotune()
    assert [each.config["block_sizes"] for each in landscape.timed[:2]] == [[64, 64], [32, 64]]
    assert best == landscape.timed[0]


def test_the_filter_of_the_user_holds_and_costs_no_trial(path: Path) -> None:
    landscape = Landscape()

    def wide(config: Any) -> Any:
        return config if config.config["block_sizes"][-1] >= 64 else None

    landscape.search(path, shortlist=12, autotune_config_filter=wide).autotune()
    assert len(landscape.timed) == 12
    assert all(each.config["block_sizes"][-1] >= 64 for each in landscape.timed)


def test_other_sizes_and_sms_begin_with_what_was_best(path: Path) -> None:
    Landscape().search(path, shortlist=48).autotune()
    best = min(stored(path), key=lambda each: each.latency_s)
    for landscape, size in ((Landscape(sms=32), 512), (Landscape(), 1024)):
        landscape.search(path, size, shortlist=8).autotune()
        warps = best.candidate.config.decisions["num_warps"]
        assert any(each.config["num_warps"] == warps for each in landscape.timed[:6])
        assert min(map(landscape.milliseconds, landscape.timed)) <= best.latency_s * 1e3 * 1.001


@pytest.mark.parametrize("learner", ["xgboost", "known-elsewhere"])
def test_a_model_or_not_helions_own_and_the_best_elsewhere_come_first(
    path: Path, tmp_path: Path, learner: str
) -> None:
    Landscape().search(path, shortlist=24).autotune()
    best = min(stored(path), key=lambda each: each.latency_s).candidate.config.decisions
    model = train(read_files([path]), learner)
    landscape = Landscape()
    landscape.search(path, 1024, model=model, shortlist=9).autotune()
    untuned, carried = landscape.timed[:2]
    assert untuned.config["block_sizes"] == landscape.without_tuning(1024).config["block_sizes"]
    assert carried.config["num_warps"] == best["num_warps"]
    assert len(landscape.timed) == 9


def test_a_third_of_the_shortlist_is_not_left_to_the_model(path: Path) -> None:
    Landscape().search(path, shortlist=24).autotune()
    model = train(read_files([path]), "xgboost")
    search = Landscape().search(path, 1024, model=model, shortlist=12)
    assert len(search._first(search._space(), search._timings())) == 4
    search = Landscape().search(path, 1024, shortlist=12)
    assert len(search._first(search._space(), search._timings())) == 6


def test_a_small_shortlist_draws_little_and_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Landscape().search(path, shortlist=24).autotune()
    model = train(read_files([path]), "xgboost")
    drawn, draw = [], HelionSpace.draw

    def counted(space: HelionSpace, size: int, rng: np.random.Generator) -> Any:
        found = draw(space, size, rng)
        drawn.append(len(found))
        return found

    monkeypatch.setattr(HelionSpace, "draw", counted)
    Landscape().search(path, 1024, model=model, shortlist=6, screened=None).autotune()
    assert len(drawn) == 1
    assert drawn[0] < 64 * 6 + 32


class TestTimingsOfHelionsSearch:
    def searched(self, landscape: Landscape, path: Path, size: int = 512, **settings: Any) -> Any:
        args = (torch.zeros(size, size), torch.zeros(size, size))
        search = RandomSearch(helion.kernel(add, **settings).bind(args), args, count=12)
        search._benchmark_provider_cls = landscape.provider
        return keep_timings(search, store=path, platform=landscape.platform)

    def test_they_are_kept_as_ours_are(self, path: Path) -> None:
        landscape = Landscape()
        best = self.searched(landscape, path).autotune()
        kept = stored(path)
        configs = list(dict.fromkeys(landscape.timed))
        assert [each.latency_s * 1e3 for each in kept] == pytest.approx(
            [*map(landscape.milliseconds, configs)]
        )
        again = Landscape()
        assert landscape.milliseconds(again.search(path, shortlist=len(kept)).autotune()) == (
            landscape.milliseconds(best)
        )
        assert again.timed == []

    def test_other_sizes_begin_with_the_best_of_them(self, path: Path) -> None:
        landscape, other = Landscape(), Landscape()
        best = self.searched(landscape, path).autotune()
        other.search(path, 1024, shortlist=4).autotune()
        assert min(map(other.milliseconds, other.timed[:2])) <= landscape.milliseconds(best) * 1.001

    def test_what_helion_did_not_try_in_time_is_not_kept(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        landscape = Landscape(status=lambda config: "ok" if config is landscape.timed[0] else "error")
        search = self.searched(landscape, path)
        monkeypatch.setattr(search, "_autotune_budget_exceeded", lambda: bool(landscape.timed))
        search.autotune()
        assert [each.outcome for each in stored(path)] == [Outcome.OK]

    @pytest.mark.parametrize(("sms", "isolated"), [(32, False), (132, True)])
    def test_on_a_part_of_the_gpu_no_other_process_times(self, path: Path, sms: int, isolated: bool) -> None:
        search = self.searched(Landscape(sms=sms), path, autotune_benchmark_subprocess=True)
        assert search.settings.autotune_benchmark_subprocess is isolated
        assert search.kernel.settings.autotune_benchmark_subprocess is True


def test_a_model_of_the_store_ranks_what_was_never_timed(path: Path, tmp_path: Path) -> None:
    for size in (256, 512):
        Landscape().search(path, size, shortlist=48).autotune()
    model = train(read_files([path]), "xgboost")
    landscape = Landscape()
    search = landscape.search(tmp_path / "new.jsonl", 1024, model=model, shortlist=4)
    search.autotune()
    chosen = [landscape.milliseconds(each) for each in landscape.timed]
    space = search._space()
    drawn = space.draw(100, np.random.default_rng(0)).configs
    random_ms = [landscape.milliseconds(space.helion_config(each)) for each in drawn]
    assert max(chosen) < np.median(random_ms)
    assert min(chosen) < np.quantile(random_ms, 0.2)


def test_a_model_of_other_kernels_is_left_out(path: Path) -> None:
    with pytest.warns(RuntimeWarning, match=r"must have learned from helion\.add_fp32x2"):
        Landscape().search(path, model=train("h100-sm-budgets", "nearest-task"))


def test_the_same_seed_times_the_same_and_leaves_pythons_generator_alone(path: Path) -> None:
    runs = [Landscape(), Landscape(), Landscape()]
    for run, seed in zip(runs, (1, 1, 2), strict=True):
        run.search(path.with_name(f"{id(run)}.jsonl"), shortlist=8, seed=seed).autotune()
    assert runs[0].timed == runs[1].timed != runs[2].timed


def test_the_time_limit_of_helion_holds(path: Path) -> None:
    landscape = Landscape()
    with pytest.raises(NoConfigFound):
        landscape.search(path, shortlist=8, autotune_budget_seconds=0).autotune()
    assert landscape.timed == []


def test_what_helion_did_not_try_in_time_is_no_failure(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    landscape = Landscape(status=lambda _: "ok" if len(landscape.timed) <= 4 else "error")
    search = landscape.search(path, shortlist=40)
    monkeypatch.setattr(search, "_autotune_budget_exceeded", lambda: len(landscape.timed) > 4)
    search.autotune()
    assert [each.outcome for each in stored(path)] == [Outcome.OK] * 4


@pytest.mark.parametrize(("sms", "isolated"), [(32, False), (132, True)])
def test_on_a_part_of_the_gpu_no_other_process_times(path: Path, sms: int, isolated: bool) -> None:
    search = Landscape(sms=sms).search(path, autotune_benchmark_subprocess=True)
    assert search.settings.autotune_benchmark_subprocess is isolated
    assert search.kernel.settings.autotune_benchmark_subprocess is True  # for other SMs


def test_settings_are_checked(path: Path) -> None:
    with pytest.raises(CostModelError, match="shortlist and batch must be at least 1, but got 0 and 4"):
        Landscape().search(path, shortlist=0)


class TestSpace:
    @pytest.fixture
    def space(self, path: Path) -> HelionSpace:
        return Landscape().search(path)._space()

    def test_configs_come_back_from_the_record_store(self, space: HelionSpace, path: Path) -> None:
        other = Landscape().search(path)._space()
        drawn = space.draw(50, np.random.default_rng(0)).configs
        assert len({each.config_id for each in drawn}) == len(drawn) > 40
        for each in drawn:
            found = other.recall(type(each)(json.loads(json.dumps(each.decisions))))
            assert found == each
            assert other.helion_config(found) == space.helion_config(each)

    def test_a_config_is_its_decisions_in_any_order(self) -> None:
        config = helion.Config(block_sizes=[2**i for i in range(12)], loop_orders=[[1, 0]], num_warps=4)
        decisions = helion_to_config(config).decisions
        for order in (sorted(decisions), reversed(decisions)):
            assert config_to_helion(Config({name: decisions[name] for name in order})) == config

    @pytest.mark.parametrize("decision", ["[1,]", "[" * 3000 + "]" * 3000])
    def test_a_decision_of_a_store_that_is_no_json_is_text(self, decision: str) -> None:
        assert config_to_helion(Config({"loop_orders": decision})).config == {"loop_orders": decision}

    def test_draws_follow_the_seed_and_touch_no_other(self, space: HelionSpace) -> None:
        state = random.getstate()
        first, again, other = (space.draw(20, np.random.default_rng(seed)).configs for seed in (1, 1, 2))
        assert first == again != other
        assert random.getstate() == state

    def test_neighbours_are_near_and_new(self, space: HelionSpace) -> None:
        start = space.starts[0]
        near = space.neighbours(start, 20, np.random.default_rng(0))
        assert len(near) > 10
        assert start not in near

    def test_parameters_of_a_trial_lead_back(self, space: HelionSpace) -> None:
        start = space.starts[0]
        assert space.config(space.params(start)) == start
        with pytest.raises(CostModelError, match="place must be below"):
            space.config({"place": 10**6})

    def test_features_have_the_same_columns_whatever_the_configs(self, space: HelionSpace) -> None:
        drawn = space.draw(30, np.random.default_rng(0))
        alone = space.features(drawn.configs[3:4])
        np.testing.assert_array_equal(alone[0], drawn.features[3])

    def test_it_is_of_one_kernel(self, space: HelionSpace) -> None:
        assert space.family == "helion.add_fp32x2"
        candidate = space.candidate(space.starts[0])
        assert candidate.family == space.family
        assert space.holds(candidate)
