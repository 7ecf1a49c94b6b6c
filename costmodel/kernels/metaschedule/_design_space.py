"""A MetaSchedule design space as named discrete decisions."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Trace

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError, InvalidConfigError
from costmodel.kernels.metaschedule._choices import Choices, SameOperator, apply_postprocessors, choices_of
from costmodel.kernels.metaschedule._estimate import estimate_launches
from costmodel.kernels.metaschedule._lowered import kernel_launches
from costmodel.kernels.metaschedule._parameters import Recorded, Suggester
from costmodel.kernels.metaschedule._recorded_trace import read_config
from costmodel.kernels.metaschedule._sketch import Sketch, draw_columns, skeleton_of
from costmodel.kernels.metaschedule._tvm_start import (
    make_target,
    register_tensor_intrinsics,
    without_tensor_intrinsics,
)
from costmodel.kernels.metaschedule._workload_ir import workload_module
from costmodel.records._candidate import SKETCH, Candidate, Config, ConfigBatch, KernelLaunch
from costmodel.records._identity import content_id
from costmodel.records._platform import TargetKind
from costmodel.records._workload import Workload

_MOST_DRAWS = 2000  # one in 20 to 500 meets the constraints where any does; a draw takes 30 us


class MetaScheduleSpace:
    """What MetaSchedule may decide for one workload on one kind of device.

    On CUDA, float16 operators that are matrix products have tensorised sketches behind the others.

    A config names the sketch (a position among MetaSchedule's sketches) and the decision of each sampling
    instruction of that sketch: ``tile.<block>.<loop>`` (factors, outermost first),
    ``cooperative_fetch.<block>`` (vector width), ``unroll_explicit.root`` (steps), ``split.<block>``
    (threads), on a CPU ``compute_at.<block>`` (loop position, -1 at the root, -2 inlined). A tensorised one
    has ``tensor_tile.<block>.<loop>``: the loops m, n and k of a matrix product, in fragments of 16.

    Source: Shao et al., Tensor Program Optimization with Probabilistic Programs, NeurIPS 2022
    (arXiv:2205.13603).

    Attributes:
        source: Name of the source that the space is of.
        workload: The workload.
        target: TVM target that kernels are made for.
        module: Unscheduled ``tvm.IRModule`` of the workload.
        name: ``<source>-<kind>-<hash of the sketches>``, the kind ``cuda-tensorcore`` where sketches are
            tensorised; equal names mean equal spaces.
        sketches: The sketches, in MetaSchedule's order.
        context: ``TuneContext`` of the last rules, whose postprocessors complete all schedules.

    Example:
        >>> space = MetaScheduleSpace(Workload.parse("matmul-m64-n64-k64"), "cpu")
        >>> config = space.sample(np.random.default_rng(0))
        >>> space.config_of(space.schedule(config).trace) == config
        True
    """

    source = "metaschedule"

    def __init__(self, workload: Workload, kind: TargetKind, module: Any = None) -> None:
        """Generate the design space of ``workload``, whose program is ``module`` if it is no operator."""
        self.workload = workload
        self.target = make_target(kind)
        self.module = workload_module(workload) if module is None else module
        contexts = [self._context(rules) for rules in _rule_sets(workload, kind)]
        first, *others = contexts
        tensorized = [
            sketch for context in others for sketch in self._possible_sketches(context) if sketch.tensorized
        ]
        self.sketches = (*self._sketches(first), *tensorized)
        # The last set's complete all sketches. They refer to their context, which must live as long.
        self.context, self._postprocs = contexts[-1], contexts[-1].space_generator.postprocs
        flavour = f"{kind}-tensorcore" if tensorized else kind
        self.name = f"{self.source}-{flavour}-{content_id([sketch.skeleton for sketch in self.sketches])[:8]}"

    def _context(self, rules: str) -> Any:
        """MetaSchedule's context for these rules, with their postprocessors."""
        generator = ms.space_generator.PostOrderApply(sch_rules=rules, postprocs=rules, mutator_probs=rules)
        with without_tensor_intrinsics():
            return ms.TuneContext(
                mod=self.module, target=self.target, space_generator=generator, rand_state=1, num_threads=1
            )

    def _sketches(self, context: Any) -> list[Sketch]:
        original = tvm.s_tir.Schedule(self.module)
        limit = int(self.target.attrs.get("max_shared_memory_per_block", 0))
        return [Sketch(schedule, original, limit) for schedule in context.generate_design_space()]

    def _possible_sketches(self, context: Any) -> list[Sketch]:
        """The sketches of rules that TVM cannot apply to every program: none where it fails.

        Those for Tensor Cores fail where a padded product has an epilogue (TVM 0.27, ``compute-at``).
        """
        try:
            return self._sketches(context)
        except Exception:  # noqa: BLE001 (TVM raises its own error types)
            return []

    def sample(self, rng: np.random.Generator) -> Config:
        """A random config of a random sketch that meets its constraints; it may still turn out invalid.

        Each sketch is equally likely, however few of its configs meet them. Where none of 2,000 draws does,
        the last of them.
        """
        position = int(rng.integers(len(self.sketches)))
        sketch = self.sketches[position]
        for _ in range(_MOST_DRAWS):
            decisions = {parameter.name: parameter.sample(rng) for parameter in sketch.parameters}
            if sketch.worth_lowering(decisions):
                break
        return Config({SKETCH: position, **decisions})

    def draw(self, sketch: int, size: int, rng: np.random.Generator) -> ConfigBatch:
        """Random configs of one sketch that meet its constraints, as columns; some may turn out invalid.

        For screening: 100,000 configs of a matrix product take seconds. The same config may come twice, and
        fewer come back where hardly any config meets the constraints.
        """
        found, columns = draw_columns(self.sketches[sketch], size, rng)
        return ConfigBatch(self.workload, found, {SKETCH: np.full(found, sketch), **columns})

    def mutate(self, config: Config, rng: np.random.Generator) -> Config:
        """A neighbour of ``config`` in one parameter that meets the constraints.

        Where there is nothing to change, or no neighbour is found in 100 draws, ``config`` itself.
        """
        sketch = self._sketch(config)
        for _ in range(100 if sketch.parameters else 0):
            parameter = sketch.parameters[int(rng.integers(len(sketch.parameters)))]
            value = parameter.mutate(config.decisions[parameter.name], rng)
            changed = Config({**config.decisions, parameter.name: value})
            if changed != config and sketch.worth_lowering(changed.decisions):
                return changed
        return config

    def suggest(self, trial: Suggester) -> Config:
        """The config that an Optuna trial proposes; parameters of a sketch are conditional on it."""
        position = trial.suggest_categorical(SKETCH, range(len(self.sketches)))
        parameters = self.sketches[position].parameters
        decisions = {parameter.name: parameter.suggest(trial, f"{position}.") for parameter in parameters}
        return Config({SKETCH: position, **decisions})

    @property
    def size(self) -> None:
        """Too many to draw them all."""
        return None

    @property
    def starts(self) -> Sequence[Config]:
        """None: no config is known to be good before any was measured."""
        return ()

    def parameters(self) -> dict[str, int | tuple[int, ...]]:
        """What ``suggest`` may ask for, over all sketches: the highest index from 0, or the choices."""
        found: dict[str, int | tuple[int, ...]] = {SKETCH: tuple(range(len(self.sketches)))}
        for position, sketch in enumerate(self.sketches):
            for parameter in sketch.parameters:
                found |= parameter.suggested(f"{position}.")
        return found

    def params(self, config: Config) -> dict[str, int]:
        """What ``suggest`` would have to be told to give ``config``.

        Raises:
            InvalidConfigError: It is not of this space.
        """
        found = {SKETCH: int(config.decisions[SKETCH])} if SKETCH in config.decisions else {}  # type: ignore[arg-type]
        for parameter in self._sketch(config).parameters:
            found |= parameter.params(config.decisions[parameter.name], f"{found[SKETCH]}.")
        return found

    def config(self, params: Mapping[str, Any]) -> Config:
        """The config that ``suggest`` gives of these parameters.

        Raises:
            CostModelError: One is missing, or is none of its choices.
        """
        return self.suggest(Recorded(params))

    def launches(self, batch: ConfigBatch) -> Mapping[str, FloatArray]:
        """What the lowered programs of configs of one sketch would say, see ``estimate_launches``."""
        return estimate_launches(batch)

    def schedule(self, config: Config) -> Any:
        """The ``tvm.s_tir.Schedule`` of ``config``, postprocessed and verified.

        Raises:
            InvalidConfigError: A decision is not in the space, or no valid kernel comes of it.
        """
        sketch = self._sketch(config)
        for parameter in sketch.parameters:
            if not parameter.contains(config.decisions[parameter.name]):
                raise InvalidConfigError(
                    f"{parameter.name} must be a choice of {parameter}, but got "
                    f"{config.decisions[parameter.name]}. Take decisions from this space."
                )
        try:
            schedule = sketch.apply(config.decisions, self.module)
        except Exception as error:  # noqa: BLE001 (TVM raises its own error types for decisions that do not fit)
            raise InvalidConfigError(f"The schedule cannot be applied: {_first_line(error)}") from None
        apply_postprocessors(schedule, self._postprocs)
        return schedule

    def candidate(self, config: Config) -> Candidate:
        """The candidate of ``config`` with what its lowered program says of its launches.

        Its config is the one that TVM applied: a compute location that does not exist is moved to the nearest
        one that does, so that one kernel has one config.

        Raises:
            InvalidConfigError: No valid kernel comes of it.
        """
        schedule = self.schedule(config)
        return Candidate(self.workload, self.name, self.config_of(schedule.trace), self.counted(schedule.mod))

    def counted(self, module: Any) -> tuple[KernelLaunch, ...]:
        """What the lowered program of a scheduled module says of its kernels."""
        return kernel_launches(module)

    def program_hash(self, config: Config) -> int:
        """Structural hash of the program that ``config`` lowers to; equal programs give equal kernels.

        Comparable within one process only. Takes 5 to 300 ms: explicit unrolling makes long programs.

        Raises:
            InvalidConfigError: It cannot be lowered.
        """
        pipeline, _, _ = tvm.tirx.get_tir_pipeline("s_tir")
        target = self.target.with_host(tvm.target.Target("llvm"))  # as tvm.compile does
        module = tvm.tirx.transform.BindTarget(target)(self.schedule(config).mod)
        try:
            return int(tvm_ffi.structural_hash(pipeline(module)))
        except Exception as error:  # noqa: BLE001 (TVM raises its own error types)
            raise InvalidConfigError(f"The schedule cannot be lowered: {_first_line(error)}") from None

    def config_of(self, trace: Any) -> Config:
        """The config that a trace stands for, the inverse of ``schedule``.

        Args:
            trace: A trace of this workload, or its JSON as MetaSchedule's databases keep it. Postprocessing
                instructions are ignored.

        Raises:
            CostModelError: No sketch of this space has these instructions with choices for these decisions.
        """
        if not isinstance(trace, Trace):
            trace = self._trace_of(trace)
        trace = trace.simplified(remove_postproc=True)
        skeleton = skeleton_of(trace)
        for position, sketch in enumerate(self.sketches):
            if sketch.skeleton == skeleton:
                samples = [inst for inst in trace.insts if inst.kind.name.startswith("Sample")]
                decisions = sketch.decisions_of([trace.decisions[inst] for inst in samples])
                if sketch.holds(decisions):
                    return Config({SKETCH: position, **decisions})
        raise self._foreign("it follows none")

    def read_config(self, trace: Any) -> Config | None:
        """The config of a trace in JSON, read without replaying it: a fraction of a millisecond.

        Args:
            trace: Its JSON as MetaSchedule's databases keep it.

        Returns:
            What ``config_of`` gives of it where TVM applies the decisions as they are written; None where the
            instructions are not those of a sketch to the letter, or a decision is none of its choices.
        """
        return read_config(self.sketches, trace)

    def config_like(self, trace: Any) -> Config | None:
        """The config that makes the choices of a trace of the same operator written in another way.

        Where that program needs more kernels than this one, its choices for them are left out. Nothing is
        lowered: a fraction of a millisecond.

        Args:
            trace: A trace of a program with any names of blocks and loops.

        Returns:
            The config; None where no sketch of this space samples the same.
        """
        choices = choices_of(trace)
        position = self._position_of(choices, trace)
        if position is None:  # some sketches sample what nothing uses
            choices = choices_of(trace.simplified(remove_postproc=True))
            position = self._position_of(choices, trace)
        if position is None:
            position = self._position_like(choices)
        if position is None:
            return None
        sketch = self.sketches[position]
        decisions = sketch.decisions_of(choices.decisions)
        return Config({SKETCH: position, **decisions}) if sketch.holds(decisions) else None

    def is_like(self, other: "MetaScheduleSpace") -> bool:
        """Whether choices of another program's space are those of this space, though its loops differ.

        They are not where a position among the loops is chosen, as on a CPU.
        """
        names = [parameter.name for sketch in other.sketches for parameter in sketch.parameters]
        if any(name.startswith("compute_at.") for name in names):
            return False
        return any(self.config_like(sketch.trace) for sketch in other.sketches)

    def other_program(self, context: Any, design_spaces: Sequence[Any]) -> SameOperator:
        """The same operator written in another way, to be scheduled by configs of this space.

        Args:
            context: ``TuneContext`` of the program, which must outlive what is returned.
            design_spaces: Schedules that its space generator gave.
        """
        traces: dict[int, Any] = {}
        for schedule in design_spaces:
            config = self.config_like(schedule.trace)
            if config is not None:
                traces.setdefault(int(str(config.decisions[SKETCH])), schedule.trace)
        return SameOperator(self.sketches, traces, context)

    def _position_of(self, choices: Choices, trace: Any) -> int | None:
        """Position of the sketch that has these choices.

        On a CPU two sketches of a row-wise reduction can differ in nothing but the block that they tile: then
        the one with the same names of blocks, or the first.
        """
        equal = [i for i, sketch in enumerate(self.sketches) if choices.same_as(sketch.choices)]
        if len(equal) > 1:
            skeleton = skeleton_of(trace.simplified(remove_postproc=True))
            equal.sort(key=lambda i: self.sketches[i].skeleton != skeleton)
        return equal[0] if equal else None

    def _position_like(self, choices: Choices) -> int | None:
        """Position of the sketch that has the most in common with choices that go on behind its own."""
        fitting = [i for i, sketch in enumerate(self.sketches) if choices.begin_as(sketch.choices)]
        return max(fitting, key=lambda i: choices.common_steps(self.sketches[i].choices), default=None)

    def _trace_of(self, as_json: Any) -> Trace:
        schedule = tvm.s_tir.Schedule(self.module, debug_mask=0)
        try:
            Trace.apply_json_to_schedule(as_json, schedule)
        except Exception as error:  # noqa: BLE001 (TVM raises its own error types for blocks that are not there)
            raise self._foreign(f"it cannot be applied: {_first_line(error)}") from None
        return schedule.trace

    def _foreign(self, what: str) -> CostModelError:
        return CostModelError(
            f"The trace must follow one of the {len(self.sketches)} sketches of {self.name} for "
            f"{self.workload.name}, but {what}. It was made for another workload, target or rule set."
        )

    def _sketch(self, config: Config) -> Sketch:
        """The sketch of ``config``, once its decisions are known to be the sketch's parameters."""
        position = config.decisions.get(SKETCH)
        if not isinstance(position, int) or not 0 <= position < len(self.sketches):
            raise InvalidConfigError(
                f"{SKETCH} must be in [0, {len(self.sketches) - 1}] in {self.name}, but got {position!r}."
            )
        sketch = self.sketches[position]
        expected = {SKETCH, *(parameter.name for parameter in sketch.parameters)}
        if set(config.decisions) != expected:
            raise InvalidConfigError(
                f"A config of sketch {position} of {self.name} must decide {sorted(expected)}, but got "
                f"{sorted(config.decisions)}. It was made for another space."
            )
        return sketch


def _rule_sets(workload: Workload, kind: TargetKind) -> list[str]:
    """MetaSchedule's rules for the workload; of a second set only the tensorised sketches are taken."""
    if kind == "cpu":
        return ["llvm"]
    if workload.dtype != "float16":
        return ["cuda"]
    register_tensor_intrinsics()
    return ["cuda", "cuda-tensorcore"]


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
