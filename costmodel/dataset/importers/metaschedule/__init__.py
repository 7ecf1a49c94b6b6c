"""JSON databases of TVM's MetaSchedule."""

from costmodel.dataset.importers.metaschedule._database import (
    METASCHEDULE,
    PROGRAM_TABLE,
    PROGRAMS_NAME,
    RECORDS_NAME,
)

__all__ = ["METASCHEDULE", "PROGRAMS_NAME", "PROGRAM_TABLE", "RECORDS_NAME"]
