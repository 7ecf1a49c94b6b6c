"""The strategy for Kernel Tuner: real sessions, simulated on made caches or of a C function on this CPU."""

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

kernel_tuner = pytest.importorskip("kernel_tuner")

from kernel_tuner.observers import BenchmarkObserver  # noqa: E402

import costmodel  # noqa: E402
from costmodel.dataset import CardHeader, build_dataset, read_files  # noqa: E402
from costmodel.errors import CostModelError  # noqa: E402
from costmodel.integrations.kernel_tuner import CostModelStrategy  # noqa: E402
from costmodel.records import read_records  # noqa: E402

PARAMETERS: dict[str, list[Any]] = {
    "block_size_x": [16, 32, 64, 128],
    "tile": [1, 2, 4],
    "layout": ["row", "col"],
    "unroll": [0, 1, 2],
    "filter": [15],
}
BEST = {"block_size_x": 64, "tile": 2, "layout": "col", "unroll": 1}
HEADER = CardHeader("Made", "For a test.", "See the test.", "None.", "CC0-1.0", "none")
SMS = "cuda_sm_percentage"
Config = Mapping[str, Any]


def time_ms(config: Config, slowness: float = 1.0) -> float:
    """Least at ``BEST``, by a function of each parameter."""
    steps = abs(config["block_size_x"].bit_length() - 7) + abs(config["tile"] - 2)
    return slowness * (
        1.0 + 0.5 * steps + 0.4 * (config["layout"] == "row") + 0.2 * abs(config["unroll"] - 1)
    )


def write(
    path: Path,
    device: str,
    time: Callable[[Config], float | str] = time_ms,
    parameters: Mapping[str, Sequence[Any]] = PARAMETERS,
) -> Path:
    """A cache file of all configs; a time that is a text is a failure."""
    entries = {}
    for values in product(*parameters.values()):
        config = dict(zip(parameters, values, strict=True))
        told = time(config)
        found = {"__error__": told} if isinstance(told, str) else {"time": told, "times": [told]}
        entries[",".join(map(str, values))] = {**config, **found}
    document = {
        "device_name": device,
        "kernel_name": "stencil",
        "problem_size": [4096, 4096],
        "tune_params_keys": list(parameters),
        "tune_params": parameters,
        "cache": entries,
    }
    path.write_text(json.dumps(document))
    return path


def simulate(
    cache: Path,
    strategy: CostModelStrategy,
    parameters: Mapping[str, Sequence[Any]] = PARAMETERS,
    *,
    restrictions: list[str] | None = None,
    options: Mapping[str, Any] | None = None,
    **settings: Any,
) -> list[dict[str, Any]]:
    """Results of a simulated session."""
    results, _ = kernel_tuner.tune_kernel(
        "stencil",
        "",
        (4096, 4096),
        [],
        dict(parameters),
        restrictions=restrictions,
        lang="CUDA",
        cache=cache,
        simulation_mode=True,
        strategy=strategy,
        strategy_options=dict(options or {}),
        quiet=True,
        **settings,
    )
    return results


def configs(results: Sequence[Config]) -> list[tuple[Any, ...]]:
    return [tuple(result[name] for name in PARAMETERS) for result in results]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return write(tmp_path / "W7800.json", "AMD Radeon PRO W7800", lambda config: time_ms(config, 2.0))


@pytest.fixture
def elsewhere(tmp_path: Path) -> list[Path]:
    """Two other GPUs, each with an own opinion on what matters little."""
    return [
        write(tmp_path / "A4000.json", "NVIDIA RTX A4000", lambda c: time_ms(c) + 0.05 * c["unroll"]),
        write(tmp_path / "W6600.json", "AMD Radeon PRO W6600", lambda c: time_ms(c) + 0.03 * c["tile"]),
    ]


def test_the_first_choice_is_what_other_gpus_found_best(here: Path, elsewhere: list[Path]) -> None:
    (first, *_) = simulate(here, CostModelStrategy(elsewhere), options={"max_fevals": 4})
    assert {name: first[name] for name in BEST} == BEST


def test_it_says_what_it_learned_from(
    here: Path, elsewhere: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    simulate(here, CostModelStrategy(elsewhere), options={"max_fevals": 1}, verbose=True)
    assert "costmodel learned from this kernel on 2 other devices\n" in capsys.readouterr().out
    simulate(here, CostModelStrategy([here]), options={"max_fevals": 1}, verbose=True)
    assert "learned from nothing: a simulation leaves out this device" in capsys.readouterr().out


@pytest.mark.parametrize("form", ["dataset", "folder", "model", "model file"])
def test_datasets_and_models_tell_the_same_as_caches(
    tmp_path: Path, here: Path, elsewhere: list[Path], form: str
) -> None:
    build_dataset(elsewhere, tmp_path / "built", header=HEADER)
    model = costmodel.train(tmp_path / "built", "source-mixture")
    model.save(tmp_path / "a.costmodel")
    source = {
        "dataset": read_files(elsewhere),
        "folder": str(tmp_path / "built"),
        "model": model,
        "model file": tmp_path / "a.costmodel",
    }[form]
    told = simulate(here, CostModelStrategy(source), options={"max_fevals": 6})
    assert configs(told) == configs(simulate(here, CostModelStrategy(elsewhere), options={"max_fevals": 6}))


def test_without_history_every_config_is_measured_once(here: Path) -> None:
    measured = configs(simulate(here, CostModelStrategy()))
    assert len(measured) == len(set(measured)) == 72


def test_it_learns_from_its_own_measurements(here: Path) -> None:
    results = simulate(here, CostModelStrategy(), options={"max_fevals": 24})
    assert min(result["time"] for result in results) <= 1.1 * 2.0


def test_restrictions_hold(here: Path, elsewhere: list[Path]) -> None:
    told = simulate(here, CostModelStrategy(elsewhere), restrictions=["block_size_x * tile <= 64"])
    assert len(told) == 36
    assert all(result["block_size_x"] * result["tile"] <= 64 for result in told)


def test_failures_are_learned(tmp_path: Path) -> None:
    failing = write(
        tmp_path / "a.json",
        "AMD Radeon PRO W7800",
        lambda c: "RuntimeFailedConfig" if c["layout"] == "col" else time_ms(c),
    )
    told = simulate(failing, CostModelStrategy(), options={"max_fevals": 32})
    failed = ["__error__" in result for result in told]
    assert sum(failed[:8]) >= 1
    assert sum(failed[8:]) < 6  # a half, if nothing were learned
    assert len(set(configs(told))) == 32


def test_seeds_repeat(here: Path) -> None:
    first, again, other, of_session = (
        configs(simulate(here, CostModelStrategy(seed=seed), options={"max_fevals": 12}, seed=session))
        for seed, session in [(1, None), (1, 7), (2, None), (None, 1)]
    )
    assert first == again == of_session != other


def test_what_is_simulated_is_not_learned_from(here: Path) -> None:
    own, nothing = (
        configs(simulate(here, CostModelStrategy(source), options={"max_fevals": 8})) for source in (here, ())
    )
    assert own == nothing


def test_near_twins_are_learned_from_if_asked_for(tmp_path: Path, here: Path) -> None:
    twin = write(tmp_path / "twin.json", "NVIDIA RTX A4000")
    (first, *_) = simulate(here, CostModelStrategy([twin, here], keep_twins_apart=True))
    (other, *_) = simulate(here, CostModelStrategy([twin, here]))
    assert {name: first[name] for name in BEST} == BEST != {name: other[name] for name in BEST}


def test_a_model_that_saw_what_is_simulated_is_refused(here: Path) -> None:
    model = costmodel.train(read_files([here]), "source-mixture")
    with pytest.raises(CostModelError, match="must have a model that never saw it"):
        simulate(here, CostModelStrategy(model))
    with pytest.raises(CostModelError, match="must be one trained model, or measurements"):
        CostModelStrategy([model, here])


def test_an_objective_that_is_to_be_large(tmp_path: Path, here: Path, elsewhere: list[Path]) -> None:
    told = simulate(
        here,
        CostModelStrategy(elsewhere),
        options={"max_fevals": 20},
        metrics={"GFLOP/s": lambda result: 1e3 / result["time"]},
        objective="GFLOP/s",
        objective_higher_is_better=True,
    )
    by_time = simulate(here, CostModelStrategy(elsewhere), options={"max_fevals": 20})
    # Later ones may be as good as each other but for the last digit of 1 / (1 / time).
    assert configs(told)[:10] == configs(by_time)[:10]
    assert min(result["time"] for result in told) == min(result["time"] for result in by_time)


def test_what_cannot_be_searched_is_refused(here: Path) -> None:
    with pytest.raises(CostModelError, match="one objective"):
        simulate(here, CostModelStrategy(), objectives={"time": False, "energy": False})
    negative = {"gain": lambda result: -result["time"]}
    with pytest.raises(CostModelError, match="gain must be positive"):
        simulate(
            here, CostModelStrategy(), metrics=negative, objective="gain", objective_higher_is_better=True
        )
    with pytest.raises(ValueError, match="Unrecognized option popsize"):
        simulate(here, CostModelStrategy(), options={"popsize": 8})


WITH_SMS = {**PARAMETERS, SMS: [25, 100]}


def time_on_part(config: Config) -> float:
    """On a quarter of the SMs another block is best."""
    block = config["block_size_x"] if config[SMS] == 100 else 1024 // config["block_size_x"]
    return time_ms({**config, "block_size_x": block}) * 100 / config[SMS]


@pytest.mark.parametrize(
    "change",
    [
        {"filter": [17]},  # a fixed value
        {"filter": [15], "more": [1, 2]},
        {"filter": [15], "cuda_sm_percentage": [50], "tile_y": [1, 2]},
    ],
)
def test_measurements_of_another_kernel_are_refused(
    tmp_path: Path, here: Path, elsewhere: list[Path], change: dict[str, list[int]]
) -> None:
    other = write(tmp_path / "other.json", "NVIDIA RTX A4000", parameters={**PARAMETERS, **change})
    for learn_from in (other, [*elsewhere, other]):
        with pytest.raises(CostModelError, match=r"must tell of kernel_tuner\.stencil\.\w+, .*other\.json"):
            simulate(here, CostModelStrategy(learn_from))


def test_a_model_of_another_kernel_is_refused(tmp_path: Path, here: Path) -> None:
    other = write(tmp_path / "other.json", "NVIDIA RTX A4000", parameters={**PARAMETERS, "more": [1, 2]})
    model = costmodel.train(read_files([other]), "ridge-on-sources")
    with pytest.raises(CostModelError, match="tells of none of its parameters"):
        simulate(here, CostModelStrategy(model))


def test_what_other_gpus_measured_on_as_many_sms_counts(tmp_path: Path) -> None:
    other = write(tmp_path / "H200.json", "NVIDIA H200", time_on_part, WITH_SMS)
    other_whole = write(tmp_path / "A100.json", "NVIDIA A100-SXM4-80GB", time_ms)
    for percentage, block in ((25, 16), (100, 64)):
        parameters = {**PARAMETERS, SMS: [percentage]}
        here = write(tmp_path / "H100.json", "NVIDIA H100 80GB HBM3", time_on_part, parameters)
        told = simulate(here, CostModelStrategy([other, other_whole]), parameters, options={"max_fevals": 1})
        assert [result["block_size_x"] for result in told] == [block]


def test_only_configs_with_the_wanted_sms_are_measured(tmp_path: Path) -> None:
    here = write(tmp_path / "H100.json", "NVIDIA H100 80GB HBM3", time_on_part, WITH_SMS)
    told = simulate(here, CostModelStrategy(sms=40), WITH_SMS)  # a quarter of 132, as Hopper grants it
    assert (len(told), {result[SMS] for result in told}) == (72, {25})
    with pytest.raises(CostModelError, match=r"that cuda_sm_percentage grants .* \(40, 132\), but got 33"):
        simulate(here, CostModelStrategy(sms=33), WITH_SMS)
    unknown = write(tmp_path / "mine.json", "Mine", time_on_part, WITH_SMS)
    with pytest.raises(CostModelError, match=r"SMs of Mine must be known.*Give device="):
        simulate(unknown, CostModelStrategy(), WITH_SMS)
    told = simulate(unknown, CostModelStrategy(device="H100 80GB HBM3", sms=40), WITH_SMS)
    assert {result[SMS] for result in told} == {25}
    no_name = write(tmp_path / "RTX_3090.json", "", time_on_part, WITH_SMS)
    assert {result[SMS] for result in simulate(no_name, CostModelStrategy(sms=20), WITH_SMS)} == {25}


# A function in C that tells Kernel Tuner how long it took.
SOURCE = """
extern "C" float fake_kernel(float *data) {
    float block = block_size_x, far = block > 48 ? block / 48 : 48 / block;
    return far + 0.3f * (tile - 2) * (tile - 2);
}
"""
IN_C = {"block_size_x": [8, 16, 32, 48, 64, 96, 128], "tile": [1, 2, 3, 4]}


class Stop(BenchmarkObserver):  # type: ignore[misc]
    """Ends the program, as Ctrl-C does, when so many configs are registered."""

    def __init__(self, after: int) -> None:
        self.left = after

    def register_configuration(self, params: Any) -> None:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt

    def get_results(self) -> dict[str, Any]:
        return {}


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    plain = {"block_size_x": [8, 48, 128], "tile": [1, 2, 3]}
    numbers = {name: list(np.array(values)) for name, values in plain.items()}
    assert measure(tmp_path / "a.json", 4, numbers) == measure(None, 4, plain)
    assert measure(tmp_path / "a.json", 6, numbers)[:4] == measure(None, 4, plain)
    with pytest.raises(
        CostModelError, match="In tune_params, a parameter's value must be text or a finite number"
    ):
        measure(None, 2, {**plain, "tile": [(1, 2), (2, 4)]})


def measure(cache: Path | None, evaluations: int, parameters: Any = None, **settings: Any) -> list[Any]:
    """Configs of a session on this CPU."""
    results, _ = kernel_tuner.tune_kernel(
        "fake_kernel",
        SOURCE,
        1,
        [np.zeros(1, np.float32)],
        parameters or IN_C,
        lang="C",
        cache=cache,
        strategy=settings.pop("strategy", CostModelStrategy()),
        strategy_options={"max_fevals": evaluations},
        iterations=1,
        quiet=True,
        **settings,
    )
    return [(result["block_size_x"], result["tile"]) for result in results]


def test_an_interrupted_session_goes_on_from_the_cache(tmp_path: Path) -> None:
    whole = measure(tmp_path / "whole.json", 8)
    cut = tmp_path / "cut.json"
    with pytest.raises(KeyboardInterrupt):
        measure(cut, 8, observers=[Stop(3)])
    assert len(cut.read_text().splitlines()) > 3  # written as it went, and left open
    assert measure(cut, 8) == whole
    assert len(json.loads(cut.read_text())["cache"]) == 8
    assert measure(cut, 8) == whole


def test_a_cache_of_another_session_is_learned_from(tmp_path: Path) -> None:
    cache = tmp_path / "a.json"
    first = measure(cache, 4, strategy=CostModelStrategy(seed=3))
    more = measure(cache, 6)
    assert more[:4] == first != measure(None, 4)
    assert len(set(more)) == 6


def test_a_space_that_is_too_large_to_score_is_drawn_from() -> None:
    large = {"block_size_x": list(range(1, 301)), "tile": list(range(1, 201))}
    found = measure(None, 12, large, restrictions=["block_size_x * tile != 96"])
    assert len(set(found)) == 12
    assert (48, 2) not in found
    assert min(max(block / 48, 48 / block) + 0.3 * (tile - 2) ** 2 for block, tile in found) < 5.0


def test_every_measurement_is_kept_in_a_store(tmp_path: Path) -> None:
    made = measure(None, 5, strategy=CostModelStrategy(store=tmp_path / "store.db"))
    kept = list(read_records(tmp_path / "store.db"))
    decisions = [each.candidate.config.decisions for each in kept]
    assert [(each["block_size_x"], each["tile"]) for each in decisions] == made
    assert all(each.latency_s > 0.0 and each.measured_at for each in kept)
