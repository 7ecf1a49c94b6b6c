"""A family whose parameters are left to be chosen: what may be chosen of them, and how a choice is read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from costmodel.kernels._read_facts import Reading
from costmodel.kernels.family._formula import Formula
from costmodel.kernels.triton._build import family_function, prepare_reading
from costmodel.kernels.triton._family import OPTIONS, TritonFamily
from costmodel.kernels.triton._read_many import BoundConfig, ManyReader
from costmodel.kernels.triton.proposing._open_space import STAGES, WARPS, Choices, OpenLaunch
from costmodel.kernels.triton.proposing._propose import ConfigRanker, Proposer
from costmodel.kernels.triton.proposing._uses import find_uses
from costmodel.records._candidate import Candidate, Config, ConfigBatch
from costmodel.records._workload import Workload

_USUAL_SMS = 64  # of which programs that stay are multiples, where the device is not known yet
_WARPS, _STAGES = (1, 2, 4, 8), (3,)  # where the kernel tells nothing: stages act on products in loops


@dataclass(frozen=True)
class OpenFamily:
    """A family whose parameters are open, for a workload.

    Attributes:
        family: The family; of its parameters the names alone count.
        workload: What it computes.
        architecture: Architecture of the device, such as ``sm_90``.
        sms: SMs that it has.
    """

    family: TritonFamily
    workload: Workload
    architecture: str
    sms: int

    def propose(self, count: int, reader: ManyReader, rank: ConfigRanker) -> list[Config]:
        """Return up to so many configs, the most promising first; see ``Proposer``."""
        space = self.launch().space()
        family = self.with_choices(space.choices)

        def read(configs: Sequence[Mapping[str, int]]) -> list[Reading]:
            candidates = [Candidate(self.workload, family.space_name, Config({**each})) for each in configs]
            return reader.read([bind_candidate(family, each, self.architecture) for each in candidates])

        return [Config({**each}) for each in Proposer(space, self.architecture, read, rank).propose(count)]

    def with_choices(self, choices: Choices) -> TritonFamily:
        """Return the family with other choices of its parameters, and no conditions."""
        return replace(self.family, parameters=choices, conditions=(), defaults={}, starts=())

    def launch(self) -> OpenLaunch:
        """Return what is known of a launch."""
        family, dims = self.family, self.workload.dims
        names = [name for name in family.parameters if name not in OPTIONS]

        def grid(chosen: Mapping[str, int]) -> Sequence[int]:
            batch = ConfigBatch.from_configs(self.workload, [Config({**chosen})])
            programs: list[int] = family.geometry(self.workload, batch.decisions, 1).grid[0].tolist()
            return programs

        numbers: dict[str, int] = {}
        for name, formula in {**family.constants, **family.scalars}.items():
            if set(Formula(formula).names) <= dims.keys():
                value = Formula(formula).value(dims)
                numbers |= {name: value} if isinstance(value, int) else {}
        uses = find_uses(family_function(family))
        return OpenLaunch(uses, names, grid, {**dims, **numbers}, self.sms)


def bind_candidate(family: TritonFamily, candidate: Candidate, architecture: str) -> BoundConfig | Exception:
    """Tell what is read of a candidate; return what fails of it, such as a formula."""
    try:
        return BoundConfig(*prepare_reading(family, candidate, architecture))
    except Exception as error:  # noqa: BLE001 (of a user's file: the config stays unread)
        return error


def fill_choices(family: TritonFamily) -> TritonFamily:
    """Return a family with choices for the parameters that have none, and what tiles must hold of a thread.

    Raises:
        CostModelError: What may be chosen of a parameter cannot be told.
    """
    unfilled = [name for name, choices in family.parameters.items() if not choices]
    if not unfilled:
        return family
    space = OpenFamily(family, family.workload(), "", _USUAL_SMS).launch().space()
    found = {WARPS: _WARPS, STAGES: _STAGES, **space.choices}
    filled = {name: choices or found[name] for name, choices in family.parameters.items()}
    middle = {name: filled[name][len(filled[name]) // 2] for name in unfilled}
    condition = space.condition if WARPS in filled else ""
    return replace(
        family,
        parameters=filled,
        defaults={**middle, **family.defaults},
        conditions=[*family.conditions, *([condition] if condition else [])],
    )
