"""Appends a campaign to a dataset in a process that a test kills."""

from multiprocessing.connection import Connection
from pathlib import Path

from costmodel.dataset import append_dataset


def append_until_killed(dataset: Path, campaign: Path, listener: Connection) -> None:
    """Append, and say when it begins."""
    listener.send("begins")
    append_dataset(dataset, [campaign])
