from ._job import JobFile as JobFile
from ._rules import RULES as RULES
from ._store import JobStore as JobStore
from ._work import work as work
