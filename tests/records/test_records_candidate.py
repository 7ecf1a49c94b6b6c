"""What a candidate says of its parameters."""

import math
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from fake_records import fake_measurement

from costmodel.errors import CostModelError
from costmodel.records import Candidate, Config, RecordStore, Workload, read_records


@pytest.mark.parametrize(
    ("workload", "space", "family"),
    [
        ("matmul-m8-n8-k8", "metaschedule-cuda-0123abcd", ""),
        ("matmul-m8-n8-k8", "metaschedule-cuda-tensorcore-0123abcd", ""),
        ("matmul-m8-n8-k8", "cuda-matmul_float32-0123abcd", "cuda.matmul_float32"),
        ("matmul-m8-n8-k8", "library-cuda-0123abcd", "library.cuda"),
        ("matmul-m8-n8-k8", "somebodys-gemm-0123abcd", "somebodys.gemm"),
        ("matmul-m8-n8-k8", "auto_scheduler-steps", ""),
        ("cuda.nbody-n4096", "cuda-nbody-0123abcd", "cuda.nbody"),
        ("suite.gemm-x64", "kernel_tuner-gemm-0123abcd", "suite.gemm"),
        ("tir.p0123abcd-f64-b64-float32", "tir-cuda-0123abcd", ""),
    ],
)
def test_parameters_are_known_by_the_family_that_the_space_names(workload, space, family) -> None:
    assert Candidate(Workload.parse(workload), space, Config({"tile": 4})).family == family


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (np.int64(3), 3),
        (np.float32(0.5), 0.5),
        ([2, np.int8(4)], (2, 4)),
        ((), ()),
        (2**70, 2**70),
        ("row 😀 %", "row 😀 %"),
    ],
)
def test_a_config_comes_back_from_a_store_as_it_was_given(tmp_path: Path, given: Any, kept: Any) -> None:
    config = Config({"a/b": given})
    assert config == Config({"a/b": kept})
    assert config.config_id == Config({"a/b": kept}).config_id
    candidate = Candidate(Workload.parse("suite.gemm-x64"), "suite-gemm", config)
    record = msgspec.structs.replace(fake_measurement(), candidate=candidate)
    with RecordStore(tmp_path / "a.jsonl") as store:
        store.append([record])
    assert list(read_records(tmp_path / "a.jsonl")) == [record]


@pytest.mark.parametrize("value", [math.nan, -math.inf, np.True_, None, {}, (1, 2.5), "\ud800", b"x"])
def test_what_no_file_holds_is_no_decision(value: Any) -> None:
    """JSON writes NaN, infinity and None alike, and no reader takes them for a decision."""
    with pytest.raises(CostModelError, match="A config must give each parameter, by a text, a"):
        Config({"a": value})


def test_true_is_kept_as_the_number_that_files_hold() -> None:
    kept = Config({"a": True, "b": False}).decisions
    assert [(type(value), value) for value in kept.values()] == [(int, 1), (int, 0)]


def test_a_parameter_is_called_by_a_text() -> None:
    for name in (1, 2.5, None, "\ud800"):
        with pytest.raises(CostModelError, match="A config must give each parameter, by a text, a"):
            Config({name: 1})  # type: ignore[dict-item]
