"""The tables of jobs, their tasks and who works on them, in any database that SQLAlchemy knows."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import (
    Column,
    Engine,
    Float,
    ForeignKey,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    create_engine,
    make_url,
)
from sqlalchemy.exc import (
    ArgumentError,
    IntegrityError,
    NoSuchModuleError,
    OperationalError,
    ProgrammingError,
    SQLAlchemyError,
)

from costmodel.databases import database_url
from costmodel.errors import CostModelError

METADATA = MetaData()

JOBS = Table(
    "costmodel_jobs",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("key", String(16), nullable=False),  # tells jobs of one id in two databases apart
    Column("name", Text, nullable=False),
    Column("submitter", Text, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("submitted_at", Float, nullable=False),  # times are seconds since the epoch
    Column("cancelled_at", Float),
    Column("runner", String(16), nullable=False),
    Column("rule", String(32), nullable=False),
    Column("total", Integer, nullable=False),
    Column("slice", Integer, nullable=False),
    Column("specification", Text, nullable=False),  # a Job as JSON
)

TASKS = Table(
    "costmodel_tasks",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("job", ForeignKey(JOBS.c.id), nullable=False),
    Column("position", Integer, nullable=False),  # among the job's tasks
    Column("name", Text, nullable=False),
    Column("weight", Float, nullable=False),
    Column("state", String(16), nullable=False),  # open, done or failed
    Column("trials", Integer, nullable=False, default=0),
    Column("best_s", Text, nullable=False, default="[]"),  # after each slice, as JSON
    Column("expected_gain", Float),
    Column("answer", Text),  # an Answer as JSON
    Column("error", Text),
)

# Each lease that there ever was: whoever inserts the next number of a task has the task.
LEASES = Table(
    "costmodel_leases",
    METADATA,
    Column("task", ForeignKey(TASKS.c.id), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("worker", Text, nullable=False),  # a ProcessMark as JSON
    Column("begun", Float, nullable=False),
    Column("until", Float, nullable=False),  # it holds so long unless it is renewed
    Column("ended", Float),
    Column("trials", Integer, nullable=False),  # that it is for
    Column("made", Integer, nullable=False, default=0),  # of them
)

_TRIES = 20
_FILES = (".db", ".sqlite", ".sqlite3")


def open_database(place: str, *, create: bool = True) -> Engine:
    """A database with the tables.

    Args:
        place: A path that ends in ``.db`` for SQLite, or a URL as SQLAlchemy takes it.
        create: Make the file of a path where there is none.

    Raises:
        CostModelError: The place is neither, cannot be opened, or is a file that is not there or made.
    """
    with told_as_one_sentence(place):
        engine = _engine(place, create)
        _create_tables(engine)
        return engine


@contextmanager
def told_as_one_sentence(place: str) -> Iterator[None]:
    """Say which database fails, and how its driver says so.

    Raises:
        CostModelError: A call of the database fails.
    """
    try:
        yield
    except (SQLAlchemyError, ModuleNotFoundError) as error:
        raise unanswered(place, error) from error


def unanswered(place: str, error: Exception) -> CostModelError:
    """What is said of a database that fails; of an address without its password."""
    shown = make_url(place).render_as_string() if "://" in place else place
    first = str(error).splitlines()[0]
    return CostModelError(f"The job store {shown} must be a database that answers, but: {first}.")


def _create_tables(engine: Engine) -> None:
    """Make the tables. Of processes that do so at the same moment one is ahead, and the others look again."""
    for _ in range(_TRIES):
        try:
            return METADATA.create_all(engine)
        except (IntegrityError, OperationalError, ProgrammingError) as error:
            if not isinstance(error, IntegrityError) and "already exists" not in str(error):
                raise
    return METADATA.create_all(engine)


def _engine(place: str, create: bool) -> Engine:
    if "://" in place:
        try:
            return create_engine(database_url(place), pool_pre_ping=True)
        except (ArgumentError, NoSuchModuleError) as error:
            raise CostModelError(
                f"A job store must be at a URL such as postgresql://host/name, but got {place}: {error}."
            ) from None
    path = Path(place)
    if path.suffix not in _FILES:
        raise CostModelError(
            f"A job store must be a file that ends in {', '.join(_FILES)}, or a URL such as "
            f"postgresql://host/name, but got {place!r}."
        )
    if not create and not path.exists():
        raise CostModelError(
            f"A job store must exist to be queried, but there is no file {place}: submit a job to it, or "
            "name another store."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    # A writer waits for others this long: several workers on a slow disk take a second now and then.
    return create_engine(f"sqlite:///{path}", connect_args={"timeout": 60})
