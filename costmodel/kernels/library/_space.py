"""The calls of a library that compute a workload, as a design space."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError, InvalidConfigError
from costmodel.kernels.cuda._family import CudaFamily
from costmodel.kernels.cuda._source import CudaSource
from costmodel.kernels.family._source import FamilySource
from costmodel.kernels.triton._family import TritonFamily
from costmodel.kernels.triton._source import TritonSource
from costmodel.records._candidate import SKETCH, Candidate, Config, ConfigBatch, Decision, KernelLaunch
from costmodel.records._identity import content_id
from costmodel.records._platform import TargetKind
from costmodel.records._workload import Workload

LibraryFamily = CudaFamily | TritonFamily

_SOURCES: tuple[FamilySource, ...] = (CudaSource(), TritonSource())
CALL = "call"
# What cuBLASLt may be told to count on: the usual SM budgets; 0 leaves it to see the whole device.
_SM_TARGETS = (0, 8, 16, 32, 48, 64, 96)
_UNKNOWN_BLOCKS = {"blocks": 0, "threads_per_block": 0, "vthreads": 0}
MOST_ALGORITHMS = 8  # of those that cuBLASLt's heuristics offer, best first; often there are fewer


def find_library_family(workload: Workload) -> LibraryFamily | None:
    """Return the family that ships with calls for a workload of its own; None where there is none."""
    if not workload.is_foreign:
        return None
    families: tuple[LibraryFamily, ...] = (*CudaSource.shipped(), *TritonSource.shipped())
    return next((each for each in families if each.library_calls and each.computes(workload)), None)


def find_owner(workload: Workload) -> FamilySource:
    """The source that says what a workload takes and should give: that of its family; any of an operator."""
    return next((each for each in _SOURCES if each.makes(workload, "cuda")), _SOURCES[0])


def find_call_facts(workload: Workload, name: str) -> dict[str, int]:
    """What a call computes and moves, by field of ``KernelLaunch``; nothing where its family says nothing."""
    family = find_library_family(workload)
    return family.call_facts(workload, name) if isinstance(family, CudaFamily) else {}


@dataclass(frozen=True)
class Calls:
    """A sketch: calls that take the same choices.

    Attributes:
        choices: The choices of each decision.
    """

    choices: Mapping[str, tuple[Decision, ...]]

    @cached_property
    def configs(self) -> tuple[Config, ...]:
        """All of its configs."""
        return tuple(
            Config(dict(zip(self.choices, values, strict=True))) for values in product(*self.choices.values())
        )


class LibrarySpace:
    """All ways in which PyTorch computes a workload; a config names the call.

    Attributes:
        workload: The workload.
        name: ``library-<kind>-<hash of the calls>``; equal names mean equal spaces.
        sketches: PyTorch's calls, then cuBLASLt with choices of its own where it applies.
    """

    def __init__(self, workload: Workload, kind: TargetKind) -> None:
        self.workload = workload
        family = find_library_family(workload)
        own = [{CALL: tuple(family.library_calls)}] if family else _choices(workload, kind)
        self.sketches = tuple(Calls(choices) for choices in own)
        self.name = f"library-{kind}-{content_id([sketch.choices for sketch in self.sketches])[:8]}"

    @property
    def size(self) -> int:
        """Number of calls, each with all its choices."""
        return sum(len(sketch.configs) for sketch in self.sketches)

    @property
    def starts(self) -> tuple[Config, ...]:
        """What a user of PyTorch would call, then what cuBLASLt offers first for each number of SMs."""
        offered_first = [
            config
            for sketch in self.sketches[1:]
            for config in sketch.configs
            if config.decisions["algorithm"] == 0
        ]
        return (*self.sketches[0].configs, *offered_first)

    def parameters(self) -> dict[str, int | tuple[Any, ...]]:
        """Return the sketch, and the choices of each sketch with its number and a dot in front."""
        own: dict[str, int | tuple[Any, ...]] = {
            f"{position}.{name}": choices
            for position, sketch in enumerate(self.sketches)
            for name, choices in sketch.choices.items()
        }
        return {SKETCH: tuple(range(len(self.sketches))), **own}

    def suggest(self, trial: Any) -> Config:
        """Return the config that an Optuna trial proposes."""
        position = trial.suggest_categorical(SKETCH, range(len(self.sketches)))
        choices = self.sketches[position].choices
        return Config(
            {name: trial.suggest_categorical(f"{position}.{name}", each) for name, each in choices.items()}
        )

    def params(self, config: Config) -> dict[str, Any]:
        """Tell what ``suggest`` would have to be told to give a config.

        Raises:
            InvalidConfigError: It is not of this space.
        """
        position = self._position(config)
        return {SKETCH: position, **{f"{position}.{name}": v for name, v in config.decisions.items()}}

    def config(self, params: Mapping[str, Any]) -> Config:
        """Return the config with these parameters.

        Raises:
            CostModelError: One is missing, or is none of its choices.
        """
        for sketch in self.sketches:
            for config in sketch.configs:
                if self.params(config) == params:
                    return config
        raise CostModelError(
            f"The parameters of a call must be choices of {self.parameters()}, but got {dict(params)}. Use a "
            "sampler of this space, and a new study for a new space."
        )

    def draw(self, sketch: int, size: int, rng: np.random.Generator) -> ConfigBatch:
        """Return random configs of one sketch, as columns; all of them if asked for as many."""
        every = ConfigBatch.from_configs(self.workload, self.sketches[sketch].configs)
        return every.take(np.sort(rng.permutation(every.size)[:size]))

    def sample(self, rng: np.random.Generator) -> Config:
        """Return a random config of a random sketch."""
        configs = self.sketches[int(rng.integers(len(self.sketches)))].configs
        return configs[int(rng.integers(len(configs)))]

    def mutate(self, config: Config, rng: np.random.Generator) -> Config:
        """A config of the same sketch with one other decision; the config itself where there is none."""
        others = [
            other
            for other in self.sketches[self._position(config)].configs
            if sum(other.decisions[name] != value for name, value in config.decisions.items()) == 1
        ]
        return others[int(rng.integers(len(others)))] if others else config

    def candidate(self, config: Config) -> Candidate:
        """The candidate of a config, with what is known of its call: its kernels are the library's secret.

        Raises:
            InvalidConfigError: It is not of this space.
        """
        self._position(config)
        facts = self._facts(config)
        launches = (KernelLaunch(**_UNKNOWN_BLOCKS, **facts),) if facts else ()
        return Candidate(self.workload, self.name, config, launches)

    def launches(self, batch: ConfigBatch) -> dict[str, FloatArray]:
        """Each field of ``KernelLaunch`` as ``(n, 1)``: what a family says of its calls, NaN of all else."""
        facts = [self._facts(config) for config in batch.configs()]
        return {
            field: np.array([[each.get(field) or np.nan] for each in facts], dtype=np.float64).reshape(-1, 1)
            for field in KernelLaunch.__struct_fields__
        }

    def program_hash(self, config: Config) -> int:
        """Return a hash of the config: each is a call of its own."""
        return int(config.config_id, 16)

    def _facts(self, config: Config) -> dict[str, int]:
        """Tell what is known of a call, by field of ``KernelLaunch``."""
        return find_call_facts(self.workload, str(config.decisions[CALL]))

    def _position(self, config: Config) -> int:
        """Return the sketch that a config is of."""
        for position, sketch in enumerate(self.sketches):
            if config in sketch.configs:
                return position
        raise InvalidConfigError(
            f"A config of {self.name} must be one of its calls of {self.workload.name}, {self._names()}, but "
            f"got {config.decisions}. Take configs from this space."
        )

    def _names(self) -> str:
        return ", ".join(str(call) for sketch in self.sketches for call in sketch.choices[CALL])


def _choices(workload: Workload, kind: TargetKind) -> Sequence[Mapping[str, tuple[Decision, ...]]]:
    """Return the calls that compute a workload, by what can be chosen of them."""
    anchor, epilogue = workload.operator.anchor, workload.operator.epilogue
    calls = ["eager"]
    if anchor in ("matmul", "batch_matmul") and epilogue[:1] in (("bias",), ("add",)):
        calls.append("addmm")
    if "conv2d" in anchor and kind == "cuda":
        calls.append("cudnn_benchmark")
    if anchor != "matmul" or kind != "cuda":
        return [{CALL: tuple(calls)}]
    cublaslt: dict[str, tuple[Decision, ...]] = {
        CALL: ("cublaslt",),
        "algorithm": tuple(range(MOST_ALGORITHMS)),
        "sm_target": _SM_TARGETS,
    }
    return [{CALL: tuple(calls)}, cublaslt]
