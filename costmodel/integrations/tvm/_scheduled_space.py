"""The space of a program that MetaSchedule tunes: configs, and the schedules that come of them."""

from typing import Any

from costmodel.records._candidate import Candidate, Config
from costmodel.records._platform import Platform
from costmodel.search.spaces._kernel import KernelSpace


class ScheduledSpace(KernelSpace):
    """The space of an operator, whose configs schedule somebody's program of it.

    Args:
        space: Space of the operator.
        platform: Where the kernels would run.
        program: The program, as ``MetaKernelSpace.other_program`` gives it.
    """

    def __init__(self, space: Any, platform: Platform, program: Any) -> None:
        super().__init__(space, platform)
        self._program = program
        self._schedules: dict[str, Any] = {}

    def candidate(self, config: Config) -> Candidate:
        """The candidate of a config of which a schedule of the program comes.

        Raises:
            InvalidConfigError: None does.
        """
        if config.config_id not in self._schedules:
            self._schedules[config.config_id] = self._program.schedule(config)
        return Candidate(self.space.workload, self.space.name, config)

    def take_schedule(self, config: Config) -> Any:
        """The schedule of a candidate, which is forgotten."""
        self.candidate(config)
        return self._schedules.pop(config.config_id)
