"""Processes that begin at once: forked from a server that has imported what they need, not from the tests.

A process that a test starts and kills is then in its work after milliseconds, where an interpreter of its own
would first import for a second.
"""

import multiprocessing

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        *("costmodel.search", "costmodel.service", "scipy.linalg", "scipy.special", "scipy.spatial.distance"),
        *("optuna.storages", "alembic.command", "alembic.config", "alembic.migration"),
        *("sqlalchemy.orm", "sqlalchemy.dialects.sqlite", "sqlalchemy.dialects.postgresql"),
    ]
)

Process, Pipe = _CONTEXT.Process, _CONTEXT.Pipe
