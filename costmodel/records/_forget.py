"""Forgets measurements, so that they are made again: of one kernel, config, outcome or age.

A store is only ever appended to, with this exception: it is written anew without what is to be forgotten,
which moves to ``<store>.forgotten.jsonl``, a record store too; in a database, to another log of its table.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec
from filelock import FileLock, Timeout

from costmodel.arguments import check_kind, check_path, check_text
from costmodel.databases import is_database
from costmodel.errors import CostModelError
from costmodel.files import behind_link
from costmodel.reading import is_file
from costmodel.records._candidate import Decision
from costmodel.records._line_file import LineFile, rewrite_lines
from costmodel.records._measurement import Measurement, Outcome
from costmodel.records._store import RECORD_STORE, decode_measurement

_OLDEST = timedelta(days=36_500)
_FORGOTTEN = "forgotten records"  # what they are called in a database
_PATIENCE_S = 10.0  # for somebody who appends at this moment


class Forgotten(msgspec.Struct, frozen=True):
    """Result of forgetting.

    Attributes:
        measurements: What was forgotten, or would be.
        kept: Number of measurements that stay.
        moved_to: Where the forgotten ones are.
    """

    measurements: tuple[Measurement, ...]
    kept: int
    moved_to: Path | str


def forget_records(  # noqa: PLR0913 (criteria, all with defaults)
    store: Path | str,
    *,
    kernel: str | None = None,
    config: Mapping[str, Decision] | None = None,
    outcome: Outcome | str | None = None,
    passing: bool = False,
    older_than: timedelta | None = None,
    dry_run: bool = False,
) -> Forgotten:
    """Forget the measurements of a store that meet all criteria; whoever needs them makes them again.

    Programs that have the store open notice it, but for those that keep it to themselves: a campaign that
    runs refuses it.

    Args:
        store: The record store, a ``.jsonl`` or ``.db`` file or the URL of a database: that of
            ``costmodel.integrations.triton.autotune``, of ``RecordedRunner``, or ``measurements.jsonl`` of a
            campaign.
        kernel: Name of the workload or of its kind; ``*`` stands for any letters, as in ``triton.matmul*``.
        config: Decisions that a config has, among others.
        outcome: How they ended.
        passing: Whether only failures count that say nothing of the config, such as for want of memory:
            versions before 0.4 kept them.
        older_than: Their age at least. What tells no time of its measurement has no age.
        dry_run: Whether nothing is changed.

    Raises:
        CostModelError: If there is no criterion, the store cannot be read or written, or another process
            keeps it to itself.

    Example:
        >>> forget_records("timings.jsonl", outcome="launch_error")  # doctest: +SKIP
    """
    is_meant = _selection(kernel, config or {}, outcome, passing, older_than)
    if is_database(store):
        return _forget_rows(str(store), is_meant, dry_run)
    path = check_path("store", store)
    if not is_file(path):
        raise CostModelError(f"A record store must be a file, but {path} is none.")
    with _held(path):
        lines = LineFile(path, RECORD_STORE)
        read = [
            (record, decode_measurement(record, f"{path}, line {number}"))
            for number, record in lines.read_new()
        ]
        kept = [record for record, measurement in read if not is_meant(measurement)]
        forgotten = [(record, measurement) for record, measurement in read if is_meant(measurement)]
        attic = LineFile(path.with_suffix(".forgotten.jsonl"), RECORD_STORE)
        if forgotten and not dry_run:
            lines.repair()
            attic.create()
            attic.append([record for record, _ in forgotten])
            rewrite_lines(path, kept)
    return Forgotten(tuple(measurement for _, measurement in forgotten), len(kept), attic.path)


def _forget_rows(place: str, is_meant: Callable[[Measurement], bool], dry_run: bool) -> Forgotten:
    """Forget measurements of a database: they become another log there."""
    from costmodel.records._table_log import TableLog

    log = TableLog(place, RECORD_STORE, create=False)
    with log.locked():
        read = {id_: decode_measurement(record, f"{place}, record {id_}") for id_, record in log.read_new()}
        forgotten = {id_: each for id_, each in read.items() if is_meant(each)}
        if not dry_run:
            log.move(list(forgotten), _FORGOTTEN)
    return Forgotten(tuple(forgotten.values()), len(read) - len(forgotten), f"{place} ({_FORGOTTEN})")


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """Keep others from writing to a store."""
    lock = FileLock(f"{behind_link(path)}.lock")
    try:
        lock.acquire(timeout=_PATIENCE_S)
    except Timeout:
        raise CostModelError(
            f"Record store {path} must be free, but another process keeps it to itself. Wait until it ends."
        ) from None
    except OSError as error:
        raise CostModelError(f"Cannot write record store {path}: {error.strerror}.") from error
    try:
        yield
    finally:
        lock.release()


def _selection(
    kernel: str | None,
    config: Mapping[str, Decision],
    outcome: Outcome | str | None,
    passing: bool,
    older_than: timedelta | None,
) -> Callable[[Measurement], bool]:
    """Make the test whether a measurement meets all criteria."""
    if kernel is not None:
        check_text("kernel", kernel)
    check_kind("config", config, Mapping, "decisions by parameter")
    check_kind("older_than", older_than, timedelta | None, "a timedelta")
    if outcome is not None and outcome not in list(Outcome):
        raise CostModelError(f"outcome must be one of {', '.join(Outcome)}, but got {outcome!r}.")
    if kernel is None and not config and outcome is None and not passing and older_than is None:
        raise CostModelError(
            "What to forget must be said, but no criterion is given. Name a kernel, a config, an outcome or "
            "an age; to forget everything, delete the file."
        )
    if older_than is not None and not timedelta() <= older_than <= _OLDEST:
        raise CostModelError(f"older_than must be from 0 to {_OLDEST.days} days, but got {older_than}.")
    latest = None if older_than is None else datetime.now(UTC) - older_than
    wanted = {name: str(value) for name, value in config.items()}

    def is_meant(measurement: Measurement) -> bool:
        workload, decisions = measurement.candidate.workload, measurement.candidate.config.decisions
        return (
            (kernel is None or any(fnmatchcase(name, kernel) for name in (workload.name, workload.kind)))
            and all(name in decisions and str(decisions[name]) == value for name, value in wanted.items())
            and (outcome is None or measurement.outcome == outcome)
            and (not passing or measurement.is_passing)
            and (latest is None or _is_before(measurement.measured_at, latest))
        )

    return is_meant


def _is_before(measured_at: str, latest: datetime) -> bool:
    try:
        when = datetime.fromisoformat(measured_at)
    except ValueError:
        return False
    return (when if when.tzinfo else when.replace(tzinfo=UTC)) <= latest
