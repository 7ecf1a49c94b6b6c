"""Descriptions in T1: those of the community, and what is said of those that are wrong."""

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from own_kernels import NAMES, OWN
from public_data import KERNEL_TUNER, needs_public_data

from costmodel.errors import CostModelError
from costmodel.kernels import CudaFamily
from costmodel.kernels.cuda._description import read_description
from costmodel.kernels.family._space import ValidConfigs

pytestmark = pytest.mark.white_box

# Number of configs by hand or by the caches below.
PUBLIC = {
    "convolution": 6768,
    "convolution_milo": 4362,
    "dedispersion_milo": 11130,
    "pnpoly": 4 * 31 * 11 * 3,
}


def cached(name: str) -> Any:
    with gzip.open(KERNEL_TUNER / name) as file:
        return json.load(file)


@needs_public_data
def test_every_public_description_is_read() -> None:
    files = sorted((KERNEL_TUNER / "t1").glob("*.json"))
    assert len(files) == 6
    for file in files:
        description = read_description(file)
        assert all(choices for choices in description.parameters.values())
        assert description.defaults.keys() == description.parameters.keys()


@needs_public_data
@pytest.mark.parametrize(("name", "size"), PUBLIC.items())
def test_spaces_have_as_many_configs_as_the_public_ones(name: str, size: int) -> None:
    description = read_description(KERNEL_TUNER / "t1" / f"{name}.json")
    rows = ValidConfigs(description.parameters, description.conditions, description.dims).all_rows()
    assert rows is not None
    assert len(rows) == size


@needs_public_data
@pytest.mark.parametrize(
    ("name", "cache"),
    [
        ("convolution", "single-team/convolution/RTX_3090.json.gz"),
        ("convolution_milo", "hub/convolution_milo/A4000.json.gz"),
        ("dedispersion_milo", "hub/dedispersion_milo/A4000.json.gz"),
    ],
)
def test_configs_are_those_of_the_public_caches(name: str, cache: str) -> None:
    description = read_description(KERNEL_TUNER / "t1" / f"{name}.json")
    valid = ValidConfigs(description.parameters, description.conditions, description.dims)
    rows = valid.all_rows()
    assert rows is not None
    columns = {name: values.tolist() for name, values in valid.columns(rows).items()}
    entries = cached(cache)["cache"].values()
    names = [name for name in columns if all(name in entry for entry in entries)]
    assert len(names) >= len(columns) - 1
    mine = set(zip(*(columns[name] for name in names), strict=True))
    assert mine == {tuple(entry[name] for name in names) for entry in entries}


@needs_public_data
def test_gemm_with_the_values_of_an_older_suite_has_its_configs() -> None:
    """The suite of these caches has fewer values, and not the last condition."""
    description = read_description(KERNEL_TUNER / "t1" / "gemm_milo.json")
    cache = cached("single-team/gemm/RTX_3090.json.gz")
    choices = {
        name: cache["tune_params"].get(name, values) for name, values in description.parameters.items()
    }
    valid = ValidConfigs(choices, description.conditions[:-1], description.dims)
    rows = valid.all_rows()
    assert rows is not None
    columns = {name: values.tolist() for name, values in valid.columns(rows).items()}
    names = cache["tune_params_keys"]
    mine = set(zip(*(columns[name] for name in names), strict=True))
    assert len(rows) == len(mine) == 17_956
    assert mine == {tuple(entry[name] for name in names) for entry in cache["cache"].values()}


@pytest.fixture
def changed(tmp_path: Path) -> Callable[..., Path]:
    """A description that is right but for what a test changes, with its kernel."""

    def change(act: Callable[[Any], Any]) -> Path:
        document = json.loads((OWN / "reduction" / "reduction.json").read_text())
        act(document)
        (tmp_path / "reduction.cu").write_text((OWN / "reduction" / "reduction.cu").read_text())
        (tmp_path / "reduction.json").write_text(json.dumps(document))
        return tmp_path / "reduction.json"

    return change


def spec(document: Any) -> Any:
    return document["KernelSpecification"]


def parameter(document: Any) -> Any:
    return document["ConfigurationSpace"]["TuningParameters"][0]


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda d: d.pop("KernelSpecification"), "missing required field `KernelSpecification`"),
        (lambda d: spec(d).pop("KernelName"), "required field `KernelName` - at `$.KernelSpecification`"),
        (lambda d: parameter(d).pop("Values"), "required field `Values` - at `$.ConfigurationSpace"),
        (lambda d: parameter(d).update(Type="complex"), "Invalid enum value 'complex'"),
        (lambda d: parameter(d).update(Values="[]"), "Values of block_size_x must be a list, and not empty"),
        (lambda d: parameter(d).update(Values=[32, 32]), "Values of block_size_x must each come once"),
        (lambda d: parameter(d).update(Values=[32, "x"]), "Values of block_size_x must be of type int"),
        (lambda d: parameter(d).update(Values="[32, 1e400]"), "Values of block_size_x must be of type int"),
        (lambda d: parameter(d).update(Values="range(os)"), "must use the names (none), but it uses 'os'"),
        (lambda d: parameter(d).update(Name="num_blocks"), "each with its own name"),
        (lambda d: parameter(d).update(Name="n"), "must not have the names of dims or facts, but got ['n']"),
        (lambda d: d["Workload"].update(Dims={"size": 3}), "must be a letter and a positive size"),
        (lambda d: d["Workload"].update(Flopps=3), "unknown field `Flopps`"),
        (lambda d: d["Workload"].update(Launch={"Bytes": 3}), "unknown field `Bytes`"),
        (lambda d: d["Workload"].pop("Dims"), "must be whole numbers, or Workload.Dims must name"),
        (lambda d: d["Workload"].update(Flops="2 * k"), "'2 * k' must use the names"),
        (lambda d: d["Workload"].update(Operator="matmull", Dtype="float16"), "operator kind must be"),
        (lambda d: d["Workload"].update(Operator="matmul", Dtype="float16"), "must have positive dims"),
        (lambda d: spec(d).update(Language="OpenCL"), "Language must be CUDA"),
        (lambda d: spec(d).update(KernelFile="none.cu"), "none.cu: No such file"),
        (lambda d: spec(d).update(LocalSize={"X": "block"}), "it uses 'block'. Did you mean 'block"),
        (lambda d: parameter(d).update(Name="threads_x"), "LocalSize must say the threads"),
        (
            lambda d: d["ConfigurationSpace"].update(Conditions=[{"Expression": "block_size <= 64"}]),
            "it uses 'block_size'. Did you mean 'block_size_x'",
        ),
    ],
)
def test_what_is_wrong_is_said_with_file_and_field(
    changed: Callable[..., Path], act: Callable[[Any], Any], message: str
) -> None:
    path = changed(act)
    with pytest.raises(CostModelError, match=re.escape(message)) as raised:
        CudaFamily.load(path)
    assert str(raised.value).startswith(str(path))


def test_a_missing_file_and_json_that_is_none_are_told(tmp_path: Path) -> None:
    with pytest.raises(CostModelError, match="Cannot read"):
        CudaFamily.load(tmp_path / "none.json")
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(CostModelError, match="must be a T1 description of a kernel, but"):
        CudaFamily.load(tmp_path / "broken.json")
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(
        CostModelError, match=r"must hold family.py, .* one description .* got broken.json, other.json"
    ):
        CudaFamily.load(tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_is_read_as_its_description(name: str) -> None:
    assert CudaFamily.load(OWN / name) == CudaFamily.load(OWN / name / f"{name}.json")


def test_fields_of_others_are_ignored_and_a_list_may_be_json(changed: Callable[..., Path]) -> None:
    def act(document: Any) -> None:
        document["BenchmarkConfig"] = {"iterations": 10}
        parameter(document).update(Values=[32, 64], Default=[64])
        space = document["ConfigurationSpace"]
        space["Constraints"] = [{"Expression": "block_size_x > 32", "Parameters": ["block_size_x"]}]

    family = CudaFamily.load(changed(act))
    assert family.description.parameters["block_size_x"] == (32, 64)
    assert family.description.defaults["block_size_x"] == 64
    assert family.space().size == 7


def test_types_of_values(changed: Callable[..., Path]) -> None:
    def act(document: Any) -> None:
        document["ConfigurationSpace"]["TuningParameters"] += [
            {"Name": "layout", "Type": "string", "Values": "['ROW', 'COLUMN']"},
            {"Name": "fast", "Type": "bool", "Values": "[True, False]", "Default": False},
            {"Name": "scale", "Type": "float", "Values": "[1, 0.5]", "Default": 0.5},
        ]

    description = CudaFamily.load(changed(act)).description
    assert description.parameters["layout"] == ("ROW", "COLUMN")
    assert description.parameters["fast"] == (1, 0)
    assert [type(value) for value in description.parameters["scale"]] == [float, float]
    assert list(description.defaults.values())[2:] == ["ROW", 0, 0.5]
