"""Fixtures that several packages use."""

from pathlib import Path

import pytest
from fake_records import fake_measurements

from costmodel.dataset import CardHeader
from costmodel.records import Measurement, RecordStore


@pytest.fixture
def measurements() -> list[Measurement]:
    """All fake measurements."""
    return list(fake_measurements())


@pytest.fixture
def store(tmp_path: Path, measurements: list[Measurement]) -> Path:
    """A record store that holds them."""
    path = tmp_path / "records.jsonl"
    with RecordStore(path) as opened:
        opened.append(measurements)
    return path


@pytest.fixture
def header() -> CardHeader:
    """The author's part of a card."""
    return CardHeader("Fake kernels", "For tests.", "Not at all.", "Not real.", "CC-BY-4.0", "Nobody, 2026.")
