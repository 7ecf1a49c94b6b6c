"""Former place of names that are in ``costmodel.service`` now."""

from costmodel.service._job import JobFile
from costmodel.service._schedule import RULES
from costmodel.service._store import JobStore
from costmodel.service._work import work

__all__ = ["RULES", "JobFile", "JobStore", "work"]
