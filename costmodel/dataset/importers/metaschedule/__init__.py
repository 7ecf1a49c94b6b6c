"""JSON databases of TVM's MetaSchedule."""

from costmodel.dataset.importers.metaschedule._database import (
    METASCHEDULE,
    NO_REASON,
    PROGRAM_TABLE,
    PROGRAMS_NAME,
    RECORDS_NAME,
)

__all__ = ["METASCHEDULE", "NO_REASON", "PROGRAMS_NAME", "PROGRAM_TABLE", "RECORDS_NAME"]
