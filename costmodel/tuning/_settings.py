"""How a search proceeds."""

from dataclasses import dataclass

from costmodel.arguments import check_seed, check_share, check_whole


@dataclass(frozen=True)
class SearchSettings:
    """How a search proceeds; the defaults are those of ``tune`` and of the command line.

    Attributes:
        screened: Number of configs to score at a time, without building any. A replay scores all its configs.
        stop_gain: Stop when the expected gain of the next measurement is below this share of the best
            latency, such as 0.01. None for no such limit.
        study: File or URL in which to keep the search and from which to resume it (see
            ``costmodel.search.open_study``). None to keep it in memory.
        study_name: Prefix of the study names. Searches with the same name, space and goal share a study.
        seed: Seed of all random choices.
        measure_curves: On a device, also measure the chosen kernel at other SM budgets, and search the whole
            device for the kernel to compare it with. A replay has both without this option.

    Raises:
        CostModelError: A value is out of range.
    """

    screened: int = 50_000
    stop_gain: float | None = None
    study: str | None = None
    study_name: str = "tune"
    seed: int = 0
    measure_curves: bool = False

    def __post_init__(self) -> None:
        """Check everything that needs no file."""
        check_seed(self.seed)
        check_whole("screened", self.screened, 1)
        if self.stop_gain is not None:
            check_share("stop_gain", self.stop_gain)
