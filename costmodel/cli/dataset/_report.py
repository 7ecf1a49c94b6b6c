"""What building a dataset, or adding to it, prints."""

from typing import TYPE_CHECKING

from costmodel.cli._output import print_line

if TYPE_CHECKING:
    from costmodel.dataset._papers import BuildReport


def print_report(report: "BuildReport") -> None:
    """Print what became of the records, and what to know of them."""
    print_line(
        f"{report.path}: {report.measurements:,} of {report.records:,} records, {report.duplicates:,} "
        f"dropped as duplicates, {sum(report.rejects.values()):,} rejected; sha256 {report.sha256[:16]}",
    )
    for reason, count in report.rejects.items():
        print_line(f"  {count:,} rejected: {reason}")
    for finding in report.findings:
        print_line(f"  {finding.severity}: {finding.concerns}: {finding.message}")
