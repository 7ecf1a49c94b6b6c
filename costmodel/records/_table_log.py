"""Append-only records in a table of a database, which processes of several machines share."""

import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Float,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    and_,
    bindparam,
    create_engine,
    delete,
    func,
    insert,
    literal,
    select,
    text,
    update,
)
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from costmodel.databases import create_tables, parse_database
from costmodel.decoding import UNDECODABLE
from costmodel.errors import CostModelError
from costmodel.files import make_folder
from costmodel.liveness import ProcessMark, renewing
from costmodel.reading import exists

METADATA = MetaData()
RECORDS = Table(
    "costmodel_records",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("log", String(32), nullable=False, index=True),  # which of the logs of this database
    Column("record", Text, nullable=False),
)
# Who does what all wait for, and until when unless that is renewed.
TURNS = Table(
    "costmodel_turns",
    METADATA,
    Column("key", String(64), primary_key=True),
    Column("holder", Text, nullable=False),
    Column("until", Float, nullable=False),
)
# What is new in a log, in rows that also tell how many of the records that were read are there still. One
# query answers both, and is made once: who looks often is on the way to a server most of the time.
_MINE = RECORDS.c.log == bindparam("of")
_THERE = select(func.count()).where(_MINE, RECORDS.c.id <= bindparam("read_to")).scalar_subquery()
_NEW = (
    select(_THERE, RECORDS.c.id, RECORDS.c.record)
    .select_from(
        select(literal(1).label("one"))
        .subquery()
        .outerjoin(RECORDS, and_(_MINE, RECORDS.c.id > bindparam("read_to")))
    )
    .order_by(RECORDS.c.id)
)
_TURN = select(TURNS).where(TURNS.c.key == bindparam("of"))
# A process of another machine that is gone has its turns so long.
TURN_S = 30.0
_RENEWALS = 4
_AT_ONCE = 500  # ids in a statement
_LOCK = 0x636F7374  # of PostgreSQL, for whoever appends


class TableLog:
    """Records in JSON in a database; any number of processes append.

    It is used as a ``SharedLineFile``. Ids are in the order of commits, because whoever appends keeps others
    from it until then: a reader that has seen an id has seen those before.

    Args:
        place: A path that ends in ``.db`` for SQLite, or a URL such as ``postgresql://host/name``.
        what: What it is called in messages, as in ``record store``; logs of other names are apart.
        create: Make the file of a path where there is none.

    Raises:
        CostModelError: The database does not answer, or is a file that is not there or made.
    """

    def __init__(self, place: str, what: str, *, create: bool = True) -> None:
        self.path, self._what = place, what
        self._read_to = self._count = 0
        self._coming: deque[tuple[int, str]] = deque()
        self._has_looked = False
        self._within: Connection | None = None
        self._lock = threading.RLock()
        url = parse_database(place, f"A {what}")
        is_file = url.drivername.startswith("sqlite")
        is_new = "://" not in place and not exists(Path(place))
        if "://" not in place:
            if not create and is_new:
                raise CostModelError(f"A {what} must exist to be read, but there is no file {place}.")
            make_folder(Path(place).parent)
        # Without a mode of its own the driver begins transactions when it likes.
        options: dict[str, Any] = (
            {"connect_args": {"timeout": 60, "isolation_level": None}} if is_file else {}
        )
        self._begin = "BEGIN IMMEDIATE" if is_file else f"SELECT pg_advisory_xact_lock({_LOCK})"
        with self._explaining():
            self._engine = create_engine(url, pool_pre_ping=True, **options)
            if is_new:
                self._let_readers_pass()
            create_tables(METADATA, self._engine)
        self._reader = _Reader(self._engine)

    def _let_readers_pass(self) -> None:
        """Have SQLite write to a log beside its file: readers that met a writer would sleep, up to 0.1 s."""
        with self._engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA journal_mode=WAL")

    def append(self, records: Sequence[bytes]) -> None:
        """Write records; they are on disk when this returns, or when the lock that is held is let go."""
        if records:
            rows = [{"log": self._what, "record": record.decode()} for record in records]
            with self.locked() as connection, self._explaining():
                connection.execute(insert(RECORDS), rows)

    def move(self, ids: Sequence[int], what: str) -> None:
        """Move records to another log of the database; whoever reads this one notices.

        Args:
            ids: As ``read_new`` gives them.
            what: Name of the other log.
        """
        with self.locked() as connection, self._explaining():
            for first in range(0, len(ids), _AT_ONCE):
                some = RECORDS.c.id.in_(ids[first : first + _AT_ONCE])
                connection.execute(update(RECORDS).where(some).values(log=what))

    def read_new(self) -> Iterator[tuple[int, bytes]]:
        """Records behind those that were read before, each with its id."""
        if not self._has_looked:
            self._look()
        self._has_looked = False
        while self._coming:
            self._read_to, record = self._coming.popleft()
            self._count += 1
            yield self._read_to, record.encode()

    def start_over_if_replaced(self) -> bool:
        """Read from the first record again if some of those that were read are gone."""
        was_replaced = self._look() != self._count
        if was_replaced:
            self._read_to = self._count = 0
            self._coming.clear()
            self._has_looked = False
        return was_replaced

    def _look(self) -> int:
        """Fetch what is new, unless that is at hand; how many of the records read before are there still."""
        if self._coming:
            return self._count
        rows = self._read(_NEW, read_to=self._read_to, of=self._what)
        self._has_looked = True
        for _, id_, record in rows:
            if id_ is not None and not (isinstance(id_, int) and isinstance(record, str)):
                raise CostModelError(
                    f"The {self._what} {self.path} must be as it was written, but record {id_} is no text. "
                    "Restore it from a copy, or begin another."
                )
            if id_ is not None:
                self._coming.append((id_, record))
        return int(rows[0][0])

    @contextmanager
    def locked(self) -> Iterator[Connection]:
        """Keep other processes from appending; may be held while appending."""
        with self._lock:
            if self._within:
                yield self._within
                return
            with self._explaining(), self._engine.begin() as connection:
                connection.execute(text(self._begin))
                self._within = connection
                try:
                    yield connection
                finally:
                    self._within = None

    def take_turn(self, key: str) -> Callable[[], None] | None:
        """Take what only one process is to do, until the function that is returned is called.

        Returns:
            None where another process has it, and lives.
        """
        holder = msgspec.json.encode([secrets.token_hex(8), asdict(ProcessMark.own())]).decode()
        with self._explaining():
            found = self._read(_TURN, of=key)
            if not (self._succeed(found[0], holder) if found else self._claim(key, holder)):
                return None
        renewed = renewing(lambda: self._renew(key, holder), TURN_S / _RENEWALS)
        renewed.__enter__()

        def release() -> None:
            renewed.__exit__(None, None, None)
            with suppress(SQLAlchemyError), self._engine.begin() as connection:
                connection.execute(delete(TURNS).where(TURNS.c.key == key, TURNS.c.holder == holder))

        return release

    def _claim(self, key: str, holder: str) -> bool:
        with suppress(IntegrityError), self._engine.begin() as connection:
            connection.execute(insert(TURNS).values(key=key, holder=holder, until=time.time() + TURN_S))
            return True
        return False

    def _succeed(self, row: Any, holder: str) -> bool:
        """Take the turn of a process that is gone."""
        if _holds(row.holder, row.until):
            return False
        # Who was late and renews it meanwhile keeps it.
        same = TURNS.c.key == row.key, TURNS.c.holder == row.holder, TURNS.c.until == row.until
        values = {"holder": holder, "until": time.time() + TURN_S}
        with self._engine.begin() as connection:
            return connection.execute(update(TURNS).where(*same).values(values)).rowcount == 1

    def _renew(self, key: str, holder: str) -> None:
        with self._engine.begin() as connection:
            mine = TURNS.c.key == key, TURNS.c.holder == holder
            connection.execute(update(TURNS).where(*mine).values(until=time.time() + TURN_S))

    def _read(self, query: Any, **values: Any) -> Sequence[Any]:
        with self._lock, self._explaining():
            if self._within:
                return self._within.execute(query, values).all()
            return self._reader.rows(query, values)

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, ModuleNotFoundError, UnicodeDecodeError) as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise CostModelError(
                f"The {self._what} {self.path} must be a database that answers, but: {first}."
            ) from error


class _Reader:
    """Reads on a connection that stays open: no transaction begins, and nobody asks first if it works."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connection: Connection | None = None

    def rows(self, query: Any, values: Mapping[str, Any]) -> Sequence[Any]:
        """All rows; where the server ended the connection, by another one."""
        was_open = self._connection is not None
        try:
            return self._rows(query, values)
        except DBAPIError:
            if self._connection is not None:
                self._connection.invalidate()
            self._connection = None
            if not was_open:
                raise
            return self._rows(query, values)

    def _rows(self, query: Any, values: Mapping[str, Any]) -> Sequence[Any]:
        if self._connection is None:
            self._connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        return self._connection.execute(query, values).all()


def _holds(holder: str, until: float) -> bool:
    """Whether a turn is still had; what cannot be read is had until its time is over."""
    try:
        _, mark = msgspec.json.decode(holder, type=tuple[str, ProcessMark])
    except UNDECODABLE:
        return time.time() <= until
    return mark.holds(until)
