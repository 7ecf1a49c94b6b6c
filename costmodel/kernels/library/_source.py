"""What PyTorch runs, as a kernel source: the calls that compute a workload are its design space."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError, InvalidConfigError, MissingExtraError
from costmodel.files import write_whole
from costmodel.kernels._artifact import Built
from costmodel.kernels._base import KernelSource
from costmodel.kernels.cuda._family import CudaFamily
from costmodel.kernels.cuda._source import CudaSource
from costmodel.kernels.family._source import FamilySource
from costmodel.kernels.triton._family import TritonFamily
from costmodel.kernels.triton._source import TritonSource
from costmodel.reading import exists
from costmodel.records._candidate import SKETCH, Candidate, Config, ConfigBatch, Decision, KernelLaunch
from costmodel.records._identity import content_id
from costmodel.records._measurement import Outcome
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


CALL_NOTE_SUFFIX = ".torch.json"


class CallNote(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to call.

    Attributes:
        workload: Name of the workload.
        call: Name of the call.
        choices: What it is told.
    """

    workload: str
    call: str
    choices: dict[str, int]


def write_note(candidate: Candidate, folder: Path) -> Path:
    """Note the call of a candidate in ``folder``, unless it is noted there."""
    path = folder / f"{candidate.candidate_id}{CALL_NOTE_SUFFIX}"
    if exists(path):
        return path
    choices = dict(candidate.config.decisions)
    call = choices.pop(CALL)
    note = msgspec.convert({"workload": candidate.workload.name, "call": call, "choices": choices}, CallNote)
    write_whole(path, msgspec.json.encode(note))
    return path


def load_call(path: Path) -> Callable[[Sequence[Any]], Any]:
    """Return the call that a file notes, for tensors on one device. Imports PyTorch.

    From here on float32 means float32 in this process: TensorFloat-32 is switched off.

    Returns:
        A function of the operator's inputs in order and then the output, contiguous ``torch.Tensor`` in the
        workload's layout. It gives the tensor that holds the result: the output, or a new one. It works on
        PyTorch's current stream and raises what PyTorch raises, ``InvalidConfigError`` where cuBLASLt has no
        algorithm of that number, and ``RuntimeError`` with the name of a status where cuBLASLt refuses.
    """
    import torch

    from costmodel.kernels.library._calls import make_call, make_family_call

    note = msgspec.json.decode(path.read_bytes(), type=CallNote)
    # Its newer flags, one an operator, make PyTorch's own exporter fail, which asks for these.
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    workload = Workload.parse(note.workload)
    family = find_library_family(workload)
    call = (
        make_family_call(family, workload, note.call)
        if family
        else make_call(workload, note.call, **note.choices)
    )
    return lambda tensors: call(*tensors)


class LibrarySource(KernelSource):
    """What PyTorch runs of an operator: on a GPU mostly kernels of cuBLAS and cuDNN, on a CPU of oneDNN.

    Nothing is compiled, and which kernels a call launches is not known before it runs; what a call of a
    family's workload computes and moves is what the family says. A time of the library can mislead:

    - It is that of the call with all kernels that it needs, such as one for an activation behind a product,
      and of copies into a layout that the library wants, but without the time that Python takes: calls are
      timed as CUDA graphs. A small operator in a script that uses none takes longer.
    - float32 means float32: TensorFloat-32 is off, which PyTorch leaves on for convolutions.
    - The library chooses among its kernels by heuristics, at the first call of a shape, which takes up to
      seconds and does not count. These see the whole GPU also where they run on a part of it; only the call
      ``cublaslt`` can be told otherwise, by its ``sm_target``.
    - ``cudnn_benchmark`` tries cuDNN's kernels at the first call in a process and keeps the fastest: that of
      the largest SM budget that is measured together, for the smaller ones too.
    - Kernels that split a sum use a workspace beside the arguments, cuBLASLt's of up to 32 MiB; it is not in
      any count of bytes.
    - Another version of PyTorch, cuBLAS or cuDNN is another library: compare with the same one.
    """

    name = "library"
    artifact = CALL_NOTE_SUFFIX

    def makes(self, workload: Workload, kind: TargetKind) -> bool:
        """Return all operators, and workloads of families that say what a user of PyTorch would call."""
        return not workload.is_foreign or find_library_family(workload) is not None

    def space(self, workload: Workload, kind: TargetKind) -> LibrarySpace:
        """Return the calls that compute a workload."""
        return LibrarySpace(workload, kind)

    def arguments(self, workload: Workload) -> list[NDArray[Any]]:
        """Return those of the kernels that stand beside a call."""
        return find_owner(workload).arguments(workload)

    def outputs(self, workload: Workload) -> tuple[int, ...]:
        """Return the positions of the arguments that are compared."""
        return find_owner(workload).outputs(workload)

    def reference(self, workload: Workload) -> list[NDArray[Any]] | None:
        """Tell what the kernels beside a call should give too."""
        return find_owner(workload).reference(workload)

    def tolerance(self, workload: Workload) -> float:
        """Return the largest relative error of the outputs that is rounding."""
        return find_owner(workload).tolerance(workload)

    def check_installed(self, kind: TargetKind) -> None:
        """Check for PyTorch.

        Raises:
            MissingExtraError: It is not installed.
        """
        if find_spec("torch") is None:
            raise MissingExtraError(f"Measuring the library on {kind}", "torch")

    def build(self, candidate: Candidate, kind: TargetKind, architecture: str, folder: Path) -> Built:
        """Note what to call: nothing is to be built."""
        try:
            self.space(candidate.workload, kind).candidate(candidate.config)
        except InvalidConfigError as error:
            return Built(Outcome.INVALID_CONFIG, error=str(error))
        return Built(Outcome.OK, write_note(candidate, folder))
