"""The traps of the public caches of Kernel Tuner are found without being told of them."""

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from fake_caches import write_cache
from public_data import KERNEL_TUNER, needs_public_data

from costmodel.dataset import Dataset, examine
from costmodel.dataset.checks._check import Severity
from costmodel.dataset.checks._examine import Examination
from costmodel.dataset.splits._similarity import device_similarity, twin_groups
from costmodel.dataset.table._records import Records

pytestmark = [needs_public_data, pytest.mark.white_box]


@pytest.fixture(scope="module")
def examined() -> tuple[Examination, dict[str, Records]]:
    """What is found in all files, and what can be believed of each workload."""
    believed: list[Records] = []
    files = sorted(KERNEL_TUNER.glob("*/*/*.json.gz"))
    examination = examine(files, on_workload=lambda found: believed.append(found.accepted))
    return examination, {workload: of for records in believed for workload, of in records.by_workload()}


@pytest.fixture(scope="module")
def examination(examined: tuple[Examination, dict[str, Records]]) -> Examination:
    return examined[0]


def counts(examination: Examination, kind: str, text: str = "") -> dict[str, int]:
    """By file, of the findings of a kind whose message has a text."""
    found: Counter[str] = Counter()
    for finding in examination.findings:
        if finding.kind == kind and text in finding.message:
            found[finding.concerns.removeprefix(f"{KERNEL_TUNER}/").removesuffix(".json.gz")] += finding.count
    return dict(found)


def test_every_entry_is_accounted_for(examination: Examination) -> None:
    files = examination.files
    assert len(files) == 15
    assert sum(file.records for file in files) == 128_184
    assert sum(file.ok for file in files) == 121_295
    assert sum(file.rejected for file in files) == len(examination.rejects) == 19


def test_texts_in_the_place_of_times(examination: Examination) -> None:
    assert counts(examination, "repair", "time is the text") == {
        "hub/convolution_milo/A4000": 161,
        "hub/convolution_milo/A6000": 473,
        "hub/convolution_milo/W7800": 116,
        "single-team/convolution/RTX_2080_Ti": 1512,
        "single-team/convolution/RTX_3060_laptop": 1548,
        "single-team/convolution/RTX_3090": 1548,
        "single-team/convolution/RTX_Titan": 1512,
    }
    assert counts(examination, "repair", "a failed config has times") == {"hub/convolution_milo/A6000": 239}


def test_one_device_repeats_badly(examination: Examination) -> None:
    noisy = {"hub/convolution_milo/W6600.json.gz: AMD Radeon PRO W6600": 1051}
    assert counts(examination, "noise") == noisy


def test_no_pairs_are_in_these_files_and_two_do_not_name_their_device(examination: Examination) -> None:
    assert counts(examination, "repair", "pairs [0, ms]") == {}
    assert counts(examination, "repair", "device_name is empty, and AMD Instinct MI250X") == {
        "hub/convolution_milo/MI250X": 4362,
        "hub/dedispersion_milo/MI250X": 11130,
    }


def test_a_partial_space_with_and_without_another_file_of_it(examination: Examination) -> None:
    laptop = "single-team/gemm/RTX_3060_laptop"
    assert counts(examination, "partial space") == {laptop: 10_000}
    assert counts(examination, "partial space", "10,000 of the 17,956") == {laptop: 10_000}
    alone = examine([KERNEL_TUNER / f"{laptop}.json.gz"])
    assert counts(alone, "partial space", "so round that a limit") == {laptop: 10_000}


def test_two_suites_of_one_kernel_and_entries_that_contradict_themselves(examination: Examination) -> None:
    assert counts(examination, "two spaces") == {"kernel_tuner.convolution_kernel": 2}
    assert counts(examination, "rejected") == {"hub/convolution_milo/A6000": 19}


def test_nothing_is_called_an_error_that_is_none(examination: Examination) -> None:
    severities = Counter(finding.severity for finding in examination.findings)
    # Of noise, a partial space, two spaces and records that contradict themselves.
    assert severities == {Severity.WARNING: 4, Severity.NOTE: 17}


def test_two_turing_cards_are_near_twins(examination: Examination) -> None:
    assert counts(examination, "near-twins") == {"NVIDIA GeForce RTX 2080 Ti, NVIDIA TITAN RTX": 1}


def test_devices_are_twins_as_the_module_of_splits_says(
    examined: tuple[Examination, dict[str, Records]],
) -> None:
    convolution, gemm = (
        "convolution_kernel.4700c2-x4096-y4096",
        "Xgemm.924e5e-x4096-y4096",
    )  # of a single team
    hubs = ("convolution_kernel.2999f4-x4096-y4096", "dedispersion_kernel.1228ce-x25000-y2048-z1")

    def twins(*workloads: str) -> tuple[tuple[str, ...], ...]:
        records = Records.concat([examined[1][f"kernel_tuner.{name}"] for name in workloads])
        return twin_groups(device_similarity(Dataset.of(records)))

    turing = ("NVIDIA GeForce RTX 2080 Ti", "NVIDIA TITAN RTX")
    ampere = ("NVIDIA GeForce RTX 3060 Laptop GPU", "NVIDIA GeForce RTX 3090")
    assert twins(convolution) == (turing, ampere)
    assert twins(convolution, gemm) == (turing,)
    for name in hubs:
        assert twins(name) == ()


def milliseconds_made(make: Any, path: Path) -> dict[str, Any]:
    """The cache with each number of milliseconds replaced."""
    cache: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    for entry in cache["cache"].values():
        if not isinstance(entry["time"], str):
            entry["time"] = make(entry["time"])
            entry["times"] = [make(ms) for ms in entry["times"]]
    return cache


def test_a_real_file_in_seconds_or_in_pairs_is_found_among_the_others(tmp_path: Path) -> None:
    folder = KERNEL_TUNER / "hub" / "convolution_milo"
    rest = [path for path in sorted(folder.glob("*.json.gz")) if path.name != "MI250X.json.gz"]
    wrong = write_cache(
        tmp_path / "MI250X.json", milliseconds_made(lambda ms: ms / 1e3, folder / "MI250X.json.gz")
    )
    errors = [f for f in examine([*rest, wrong]).findings if f.severity is Severity.ERROR]
    assert [(error.kind, error.count) for error in errors] == [("unit", 4362)] * 2
    assert all(error.concerns.startswith(str(wrong)) for error in errors)
    by_its_own_clock, by_the_others = (error.message for error in errors)
    assert "it took 1e+03 times as long (median)" in by_its_own_clock
    assert "multiply these by 1,000." in by_its_own_clock
    assert "93.7 times below" in by_the_others
    pairs = write_cache(
        tmp_path / "MI250X.json", milliseconds_made(lambda ms: [0, ms], folder / "MI250X.json.gz")
    )
    found = {finding.message: finding.count for finding in examine([pairs]).findings}
    assert [count for message, count in found.items() if "pairs [0, ms]" in message] == [4362]
