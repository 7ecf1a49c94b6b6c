"""The traps of the public caches of Kernel Tuner are found without being told of them."""

import os
from collections import Counter
from pathlib import Path

import pytest

from costmodel.dataset import Examination, Severity, examine

PUBLIC = Path(os.environ.get("COSTMODEL_PUBLIC_DATA", "")) / "kernel-tuner"

pytestmark = pytest.mark.skipif(
    not PUBLIC.is_dir(), reason="COSTMODEL_PUBLIC_DATA does not say where public data are"
)


@pytest.fixture(scope="module")
def examination() -> Examination:
    return examine(sorted(PUBLIC.glob("*/*/*.json.gz")))


def counts(examination: Examination, kind: str, text: str = "") -> dict[str, int]:
    """By file, of the findings of a kind whose message has a text."""
    found: Counter[str] = Counter()
    for finding in examination.findings:
        if finding.kind == kind and text in finding.message:
            found[finding.concerns.removeprefix(f"{PUBLIC}/").removesuffix(".json.gz")] += finding.count
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


def test_no_pairs_are_in_these_files_and_two_do_not_name_their_device(examination: Examination) -> None:
    assert counts(examination, "repair", "pairs [0, ms]") == {}
    assert counts(examination, "repair", "device_name is empty, and MI250X") == {
        "hub/convolution_milo/MI250X": 4362,
        "hub/dedispersion_milo/MI250X": 11130,
    }


def test_a_partial_space_with_and_without_another_file_of_it(examination: Examination) -> None:
    laptop = "single-team/gemm/RTX_3060_laptop"
    assert counts(examination, "partial space") == {laptop: 10_000}
    assert counts(examination, "partial space", "10,000 of the 17,956") == {laptop: 10_000}
    alone = examine([PUBLIC / f"{laptop}.json.gz"])
    assert counts(alone, "partial space", "so round that a limit") == {laptop: 10_000}


def test_two_suites_of_one_kernel_and_entries_that_contradict_themselves(examination: Examination) -> None:
    assert counts(examination, "two spaces") == {"kernel_tuner.convolution_kernel": 2}
    assert counts(examination, "rejected") == {"hub/convolution_milo/A6000": 19}


def test_nothing_is_called_an_error_that_is_none(examination: Examination) -> None:
    severities = Counter(finding.severity for finding in examination.findings)
    assert severities == {Severity.WARNING: 2, Severity.NOTE: 17}
