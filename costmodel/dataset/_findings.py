"""What is wrong with measurements of many sources, found without being told what to look for."""

from collections.abc import Sequence
from itertools import chain

from costmodel.dataset._find_failures import failure_findings
from costmodel.dataset._find_ranges import range_findings
from costmodel.dataset._find_rejects import reject_findings
from costmodel.dataset._find_spaces import space_findings
from costmodel.dataset._find_suites import suite_findings
from costmodel.dataset._find_twins import twin_findings
from costmodel.dataset._find_units import unit_findings
from costmodel.dataset._finding import Finding
from costmodel.dataset._record_table import record_table
from costmodel.dataset._source import Source
from costmodel.dataset._validate import Validation


def find(sources: Sequence[Source], validation: Validation) -> tuple[Finding, ...]:
    """All findings, the worst first.

    Args:
        sources: What was read from each file.
        validation: What became of the records of all of them together.
    """
    table = record_table(sources)
    findings = chain(
        reject_findings(sources, validation),
        space_findings(sources),
        range_findings(table),
        failure_findings(table),
        unit_findings(table),
        suite_findings(table),
        twin_findings(validation),
    )
    return tuple(sorted(findings, key=lambda finding: finding.rank))
