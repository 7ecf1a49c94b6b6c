"""The kernels at large with their parameters left open: what may be chosen is told by the kernels alone."""

from collections.abc import Mapping
from pathlib import Path

from costmodel.kernels.triton._family import TritonFamily
from costmodel.kernels.triton._source import load_families
from costmodel.kernels.triton.proposing._open_family import OpenFamily

AT_LARGE = Path(__file__).parents[1] / "kernels_at_large" / "families"
PLACES = [str(file.parent) for file in sorted(AT_LARGE.glob("*/family.py"))]
ARCHITECTURE = "sm_90"
SMS = (16, 32, 132)


def _opened(family: TritonFamily) -> TritonFamily:
    """Return a family with all that may be chosen on any number of SMs."""
    found: dict[str, set[int]] = {}
    for sms in SMS:
        opened = OpenFamily(family, family.workload(), ARCHITECTURE, sms)
        for name, values in opened.launch().space().choices.items():
            found.setdefault(name, set()).update(values)
    choices: Mapping[str, tuple[int, ...]] = {name: tuple(sorted(values)) for name, values in found.items()}
    return opened.with_choices(choices)


# A parameter that is text, of which one kernel has one, must be told.
AUTHORS = {
    family.name: family
    for place in PLACES
    for family in load_families(place)
    if not any(isinstance(each, str) for choices in family.parameters.values() for each in choices)
}
OPENED = {name: _opened(family) for name, family in AUTHORS.items()}
FAMILIES = list(OPENED.values())
