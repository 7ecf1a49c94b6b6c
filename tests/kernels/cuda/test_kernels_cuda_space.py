"""The configs of a family for a workload, and what is known of their launches."""

import json
from itertools import product
from pathlib import Path

import numpy as np
import optuna
import pytest
from msgspec.structs import asdict
from own_kernels import NAMES, OWN

from costmodel.errors import CostModelError, InvalidConfigError
from costmodel.kernels import CudaFamily, CudaSource
from costmodel.kernels._design_space import neighbour
from costmodel.kernels.family._formula import Formula
from costmodel.kernels.family._space import FamilySpace, ValidConfigs
from costmodel.records import Config
from costmodel.records._candidate import DATA_FACTS, ConfigBatch, KernelLaunch

pytestmark = pytest.mark.white_box


def space_of(name: str, **dims: int) -> FamilySpace:
    family = CudaFamily.load(OWN / name)
    return family.space(family.workload(**dims))


def convolution_holds(config: Config) -> bool:
    x, y = (config.decisions[f"block_size_{axis}"] for axis in "xy")
    assert isinstance(x, int)
    assert isinstance(y, int)
    return 64 <= x * y <= 1024 and (config.decisions["use_padding"] == 0 or x % 32 != 0)


def test_all_configs_meet_the_conditions_and_none_is_left_out() -> None:
    space = space_of("convolution")
    every = space.draw(0, 10_000, np.random.default_rng(0)).configs()
    choices = CudaFamily.load(OWN / "convolution").description.parameters
    by_hand = [Config(dict(zip(choices, values, strict=True))) for values in product(*choices.values())]
    expected = {config.config_id for config in by_hand if convolution_holds(config)}
    assert {config.config_id for config in every} == expected
    assert len(every) == len(expected) == space.size == 171


def test_draws_are_random_and_distinct() -> None:
    space = space_of("convolution")
    first, again, other = (space.draw(0, 50, np.random.default_rng(seed)).configs() for seed in (0, 0, 1))
    assert first == again != other
    assert len({config.config_id for config in first}) == 50


@pytest.mark.parametrize("name", NAMES)
def test_samples_and_neighbours_are_configs(name: str) -> None:
    space, rng = space_of(name), np.random.default_rng(0)
    every = {config.config_id for config in space.draw(0, 10_000, rng).configs()}
    for _ in range(30):
        config = space.sample(rng)
        assert config.config_id in every
        assert neighbour(space, config, rng).config_id in every
        changed = space.mutate(config, rng).decisions
        assert sum(changed[key] != value for key, value in config.decisions.items()) <= 1


@pytest.mark.parametrize("name", NAMES)
def test_optuna_proposes_what_params_say(name: str) -> None:
    space, rng = space_of(name), np.random.default_rng(0)
    parameters = space.parameters()
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    for _ in range(5):
        trial = study.ask()
        config = space.suggest(trial)
        assert trial.params.keys() == parameters.keys()
        assert space.params(config) == trial.params
        assert space.config(trial.params) == config
    config = space.sample(rng)
    assert space.config(space.params(config)) == config


def test_rising_numbers_are_indices_and_others_are_categories() -> None:
    parameters = space_of("convolution").parameters()
    assert parameters["block_size_y"] == 4
    assert parameters["use_padding"] == (0, 1)
    with pytest.raises(CostModelError, match=r"block_size_y of .* must be one of"):
        space_of("convolution").config(
            {**space_of("convolution").params(space_of("convolution").default), "block_size_y": 5}
        )


def test_the_default_is_that_of_the_description_or_a_valid_one_near_it(tmp_path: Path) -> None:
    assert space_of("reduction").default.decisions == {"block_size_x": 256, "num_blocks": 512}
    document = json.loads((OWN / "convolution" / "convolution.json").read_text())
    for parameter in document["ConfigurationSpace"]["TuningParameters"]:
        if parameter["Name"] == "block_size_x":
            parameter["Default"] = 64  # a multiple of 32 with padding: refused
    (tmp_path / "convolution.json").write_text(json.dumps(document))
    (tmp_path / "convolution.cu").write_text("")
    family = CudaFamily.load(tmp_path)
    default, wanted = family.space().default, family.description.defaults
    assert convolution_holds(default)
    assert sum(default.decisions[name] != value for name, value in wanted.items()) == 1


def test_a_launch_is_what_the_description_says() -> None:
    space = space_of("reduction", n=1000)
    candidate = space.candidate(Config({"block_size_x": 64, "num_blocks": 128}))
    assert candidate.launches == (
        KernelLaunch(blocks=128, threads_per_block=64, shared_bytes=256, flops=1000),
    )
    tiled = space_of("convolution", x=500).candidate(space_of("convolution").default)
    assert tiled.launches == (KernelLaunch(blocks=32 * 32, threads_per_block=256),)


def test_launches_of_many_are_those_of_each_and_0_where_nothing_is_said() -> None:
    space = space_of("reduction")
    batch = space.draw(0, 20, np.random.default_rng(0))
    known = space.launches(batch)
    assert set(known) == set(KernelLaunch.__struct_fields__)
    assert all(column.shape == (20, 1) for column in known.values())
    assert not any(known[name].any() for name in ("global_load_bytes", *DATA_FACTS))  # NaN would be true
    for row, config in enumerate(batch.configs()):
        (launch,) = space.candidate(config).launches
        assert {name: column[row, 0] for name, column in known.items()} == asdict(launch)


def test_costs_may_use_blocks_and_threads(tmp_path: Path) -> None:
    document = json.loads((OWN / "reduction" / "reduction.json").read_text())
    document["Workload"]["Launch"] = {"GlobalLoadBytes": "4 * n", "SharedStoreBytes": "4 * blocks * threads"}
    (tmp_path / "reduction.json").write_text(json.dumps(document))
    (tmp_path / "reduction.cu").write_text((OWN / "reduction" / "reduction.cu").read_text())
    family = CudaFamily.load(tmp_path)
    (launch,) = family.space().candidate(Config({"block_size_x": 64, "num_blocks": 128})).launches
    assert (launch.global_load_bytes, launch.shared_store_bytes) == (32_000_000, 4 * 64 * 128)
    assert CudaFamily.load(OWN / "reduction").space_name == family.space_name  # costs change no kernel


def test_configs_of_another_space_are_refused() -> None:
    space = space_of("convolution")
    valid = space.default.decisions
    with pytest.raises(InvalidConfigError, match="must decide"):
        space.candidate(Config({"block_size_x": 16}))
    with pytest.raises(InvalidConfigError, match=r"block_size_x of .* must be one of"):
        space.candidate(Config({**valid, "block_size_x": 17}))
    with pytest.raises(InvalidConfigError, match="must meet all conditions"):
        space.candidate(Config({**valid, "block_size_x": 128}))


def test_a_block_that_no_gpu_takes_is_refused(tmp_path: Path) -> None:
    document = json.loads((OWN / "vector_add" / "vector_add.json").read_text())
    document["ConfigurationSpace"]["TuningParameters"][0]["Values"] = "[512, 2048]"
    (tmp_path / "vector_add.json").write_text(json.dumps(document))
    (tmp_path / "vector_add.cu").write_text("")
    space = CudaFamily.load(tmp_path).space()
    with pytest.raises(InvalidConfigError, match="1 to 1024 threads, but got 2048 x 1 x 1"):
        space.candidate(Config({"block_size_x": 2048}))
    document["KernelSpecification"]["GridDivX"] = ["block_size_x // 1024"]
    (tmp_path / "vector_add.json").write_text(json.dumps(document))
    with pytest.raises(InvalidConfigError, match=r"A grid must have 1 to .* but got 0 x 1 x 1"):
        CudaFamily.load(tmp_path).space().candidate(Config({"block_size_x": 512}))
    big = space_of("vector_add", x=2**40)
    with pytest.raises(InvalidConfigError, match="A grid must have"):
        big.candidate(Config({"block_size_x": 128}))


def test_a_space_without_configs_says_so(tmp_path: Path) -> None:
    document = json.loads((OWN / "reduction" / "reduction.json").read_text())
    document["ConfigurationSpace"]["Conditions"] = [{"Expression": "n % (block_size_x * num_blocks) == 0"}]
    (tmp_path / "reduction.json").write_text(json.dumps(document))
    (tmp_path / "reduction.cu").write_text("")
    family = CudaFamily.load(tmp_path)
    assert family.space(family.workload(n=1 << 21)).size == 42
    empty = family.space(family.workload(n=1023))
    assert empty.size == 0
    with pytest.raises(CostModelError, match="none does"):
        empty.sample(np.random.default_rng(0))
    with pytest.raises(CostModelError, match="none does"):
        _ = empty.default


def test_conditions_cannot_use_a_problem_size_that_is_a_parameters(tmp_path: Path) -> None:
    document = json.loads((OWN / "reduction" / "reduction.json").read_text())
    document["ConfigurationSpace"]["Conditions"] = [{"Expression": "ProblemSize[0] >= 64"}]
    (tmp_path / "reduction.json").write_text(json.dumps(document))
    (tmp_path / "reduction.cu").write_text("")
    with pytest.raises(CostModelError, match="it uses 'ProblemSize'"):
        CudaFamily.load(tmp_path).space()


def test_a_space_that_is_too_large_to_list_is_drawn_from() -> None:
    choices = {name: tuple(range(1, 65)) for name in "abcdefgh"}
    valid = ValidConfigs(choices, [Formula("a * b <= c"), Formula("a % 2 == 0")], {})
    assert valid.all_rows() is None
    columns = valid.columns(valid.draw(1000, np.random.default_rng(0)))
    assert len(columns["a"]) == 1000
    assert (columns["a"] * columns["b"] <= columns["c"]).all()
    assert (columns["a"] % 2 == 0).all()
    assert len(np.unique(columns["h"])) == 64


def test_names_of_spaces_change_with_all_that_kernels_depend_on(tmp_path: Path) -> None:
    def name_with(source: str, header: str, **changes: object) -> str:
        document = json.loads((OWN / "vector_add" / "vector_add.json").read_text())
        document["KernelSpecification"].update(changes)
        document["Workload"] = {"Flops": changes.get("SharedMemory", 7)}
        (tmp_path / "vector_add.json").write_text(json.dumps(document))
        (tmp_path / "vector_add.cu").write_text(source)
        (tmp_path / "part.cuh").write_text(header)
        return CudaFamily.load(tmp_path).space_name

    plain = name_with('#include "part.cuh"\n', "a")
    assert plain == name_with('#include "part.cuh"\n', "a")
    others = [
        name_with('#include "part.cuh"\n//', "a"),
        name_with('#include "part.cuh"\n', "b"),
        name_with('#include "part.cuh"\n', "a", SharedMemory=1024),
    ]
    assert len({plain, *others}) == 4
    assert plain.startswith("cuda-vector_add-")


def test_the_default_is_what_a_search_starts_from_and_each_config_is_a_program() -> None:
    space = space_of("convolution")
    assert list(space.starts) == [space.default]
    configs = space.draw(0, 200, np.random.default_rng(0)).configs()
    assert len({space.program_hash(config) for config in configs}) == len(configs) == space.count


def test_columns_of_a_batch_are_those_of_its_configs() -> None:
    space = space_of("matrix_multiply")
    batch = space.draw(0, 18, np.random.default_rng(0))
    again = ConfigBatch.from_configs(space.workload, batch.configs())
    assert all((again.decisions[name] == column).all() for name, column in batch.decisions.items())


@pytest.mark.parametrize("family", CudaSource.shipped(), ids=lambda family: family.name)
def test_what_tensor_cores_do_is_part_of_all_operations(family: CudaFamily) -> None:
    space = family.space()
    known = space.launches(space.draw(0, 256, np.random.default_rng(0)))
    assert (known["tensor_flops"] <= known["flops"]).all()
    assert (known["flops"] > 0).all() == (family.description.workload.flops != "0")
