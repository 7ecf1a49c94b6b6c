"""Specification of a job: kernels to tune, or a campaign to measure."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import msgspec

from costmodel.arguments import MOST_SEED, check_texts
from costmodel.collector.campaign._config import CampaignConfig, find_campaign
from costmodel.errors import CostModelError, shorten
from costmodel.reading import decode_json, exists, read_toml, refusing
from costmodel.records._workload import Workload
from costmodel.workloads._catalogue import catalogue

RuleName = Literal["round-robin", "gradient", "expected-gain"]
RunnerName = Literal["replay", "cpu", "cuda"]
_Count = Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
# Settings that may be paths.
_PLACES = ("learn_from", "start_from", "replay", "model")
_Weight = Annotated[float, msgspec.Meta(gt=0.0)]


class TuneTask(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,  # what names no device can be read by workers that know of none
    tag="tune",
    tag_field="kind",
):
    """A workload to tune at one SM budget.

    Attributes:
        workload: Name of the workload.
        sms: Number of SMs available to the kernel. Default: the whole device.
        weight: Number of calls of the workload in what is to be fast, such as a network.
        device: Name of the GPU, of which model and number are enough (``h100``). Default: whatever the worker
            has that takes the task.
    """

    workload: str
    sms: _Count | None = None
    weight: _Weight = 1.0
    device: str | None = None

    @property
    def name(self) -> str:
        """Name of the task."""
        of = f" of {self.device}" if self.device else ""
        return f"{self.workload} on {self.sms or 'all'} SMs{of}"


class CampaignTask(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="campaign", tag_field="kind"):
    """A campaign to measure into a folder.

    Attributes:
        campaign: What to measure.
        out: The folder, the same for all workers.
        weight: Weight of the task.
    """

    campaign: CampaignConfig
    out: str
    weight: _Weight = 1.0

    @property
    def name(self) -> str:
        """Name of the task."""
        return f"campaign in {self.out}"


class TuneSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Settings of the search; see ``costmodel.tune``, which has the same arguments."""

    source: str | tuple[str, ...] | None = None
    learn_from: str | None = None
    start_from: str | None = None
    replay: str | None = None
    device: str | None = None
    model: str | None = None
    learner: str | None = None
    screened: _Count = 50_000
    stop_gain: Annotated[float, msgspec.Meta(gt=0.0, lt=1.0)] | None = None
    seed: Annotated[int, msgspec.Meta(ge=0, le=MOST_SEED)] = 0

    def with_whole_paths(self) -> Self:
        """Return the same settings with absolute paths, for a process with another working directory."""
        named = {name: getattr(self, name) for name in _PLACES}
        found = {name: str(Path(at).absolute()) for name, at in named.items() if at and exists(at)}
        return msgspec.structs.replace(self, **found)


class Job(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Tasks that are submitted together.

    Attributes:
        name: Name of the job.
        tasks: The tasks: any number of tuning tasks, or one campaign.
        trials: Average number of candidates to measure per tuning task. The rule distributes them.
        slice: Maximum number of candidates that a worker measures before the rule chooses again, at most
            ``trials``. Default: a quarter of ``trials``, or all of them if tasks take turns.
        rule: Rule that chooses the next task, see ``costmodel.service.RULES``.
        runner: Where measurements are made.
        settings: Settings of the search.
    """

    name: str
    tasks: tuple[TuneTask | CampaignTask, ...]
    trials: _Count = 16
    slice: _Count | None = None
    rule: RuleName = "round-robin"
    runner: RunnerName = "replay"
    settings: TuneSettings = TuneSettings()

    @property
    def total(self) -> int:
        """Total number of candidates to measure; 0 for a campaign, which has its own number."""
        return self.trials * sum(isinstance(task, TuneTask) for task in self.tasks)

    @property
    def devices(self) -> tuple[str | None, ...]:
        """Device that each task names, if any."""
        return tuple(task.device if isinstance(task, TuneTask) else None for task in self.tasks)

    @property
    def largest_slice(self) -> int:
        """Maximum number of candidates that a worker measures before the rule chooses again."""
        usual = self.trials if self.rule == "round-robin" else max(1, self.trials // 4)
        return min(self.slice or usual, self.trials)

    def check(self) -> None:
        """Check what the types cannot express.

        Raises:
            CostModelError: If there is no task, a task occurs twice, a workload is unknown, or a device is
                named twice or for a CPU.
        """
        names = [task.name for task in self.tasks]
        if not names or len(set(names)) < len(names):
            raise CostModelError(f"A job must have one task or more, each once, but got {names}.")
        for task in self.tasks:
            if isinstance(task, TuneTask):
                Workload.parse(task.workload)
                self._check_device(task)

    def _check_device(self, task: TuneTask) -> None:
        if task.device is not None and not task.device.strip():
            raise CostModelError(f"A device must have a name, such as h100, but got {task.device!r}.")
        if task.device is not None and (self.runner == "cpu" or self.settings.device):
            raise CostModelError(
                f"A job must name its devices once, and none for a CPU, but `{task.name}` is for the runner "
                f"{self.runner} with the device {self.settings.device or 'of any worker'} in its settings. "
                "Leave one of them out."
            )


class JobFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A job as its author writes it in TOML: workloads, a network or a campaign.

    Attributes:
        name: Name of the job. Default: made from its contents.
        workloads: Names of workloads, or a mapping from names to weights.
        network: A network of ``costmodel workloads``. Each of its workloads is weighted by its number of
            calls.
        sms: SM budgets; each makes a task of each workload. Default: the whole device.
        devices: Names of GPUs; each makes a task of each workload and SM budget, which workers with that GPU
            take. Default: one task, for whatever the worker has.
        campaign: A campaign file, or the name of a shipped campaign.
        out: Folder of the campaign's measurements.
        trials: See ``Job``; so are the remaining attributes.
    """

    name: str | None = None
    workloads: dict[str, _Weight] | tuple[str, ...] = ()
    network: str | None = None
    sms: tuple[_Count, ...] = ()
    devices: tuple[str, ...] = ()
    campaign: str | None = None
    out: str | None = None
    trials: _Count = 16
    slice: _Count | None = None
    rule: RuleName = "round-robin"
    runner: RunnerName = "replay"
    settings: TuneSettings = TuneSettings()

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a job file.

        Raises:
            CostModelError: If the file is missing, or is not a job.
        """
        return read_toml(path, cls, "a job file", remedy="`costmodel jobs submit --help` describes it.")

    def to_toml(self) -> str:
        """Return the file's text without ``settings``: values that differ from the defaults, tables last."""
        given = {name: getattr(self, name) for name in self.__struct_fields__ if name != "settings"}
        usual = type(self)()
        changed = {name: value for name, value in given.items() if value != getattr(usual, name)}
        tables = {name: value for name, value in changed.items() if isinstance(value, dict)}
        lines = [f"{name} = {json.dumps(value)}" for name, value in changed.items() if name not in tables]
        for name, table in tables.items():
            lines += ["", f"[{name}]", *(f"{json.dumps(key)} = {value}" for key, value in table.items())]
        return "\n".join(lines) + "\n"

    def job(self) -> Job:
        """Return the job, with all that it needs from other files.

        Raises:
            CostModelError: If the file asks for none or several of workloads, a network and a campaign; or if
                one of these is invalid.
        """
        asked = [name for name in ("workloads", "network", "campaign") if getattr(self, name)]
        if len(asked) != 1:
            raise CostModelError(
                "A job must have workloads, a network or a campaign, but got "
                f"{' and '.join(asked) or 'none'}."
            )
        tasks, runner = self._tasks(), self.runner
        if isinstance(tasks[0], CampaignTask):
            runner = tasks[0].campaign.runner
        job = Job(
            self.name or self._usual_name,
            tasks,
            self.trials,
            self.slice,
            self.rule,
            runner,
            self.settings.with_whole_paths(),
        )
        job.check()
        return job

    @property
    def _usual_name(self) -> str:
        if self.network or self.campaign:
            return str(self.network or Path(str(self.campaign)).stem)
        first, *others = self.workloads
        return f"{first} and {len(others)} more" if others else first

    def _tasks(self) -> tuple[TuneTask | CampaignTask, ...]:
        if self.campaign:
            if not self.out:
                raise CostModelError("A campaign must have a folder for its measurements: give `out`.")
            if self.sms or self.devices:
                raise CostModelError(
                    "A campaign must be asked for without sms and devices, but got some: its file says "
                    "the SMs, and it runs on the device of whoever takes it. Leave them out."
                )
            return (CampaignTask(find_campaign(self.campaign), str(Path(self.out).absolute())),)
        budgets: tuple[int | None, ...] = self.sms or (None,)
        devices: tuple[str | None, ...] = check_texts("devices", self.devices) or (None,)
        return tuple(
            TuneTask(name, sms, weight, device)
            for name, weight in self._weights().items()
            for sms in budgets
            for device in devices
        )

    def _weights(self) -> dict[str, float]:
        if self.network:
            entries = catalogue(self.network)
            return {each.workload.name: float(sum(each.networks.values())) for each in entries}
        _check_once(self.workloads)
        return (
            dict(self.workloads) if isinstance(self.workloads, dict) else dict.fromkeys(self.workloads, 1.0)
        )


def _check_once(names: Iterable[str]) -> None:
    """Check that each workload is named once, however it is spelt.

    Raises:
        CostModelError: One is named twice, or is none.
    """
    counts = Counter(Workload.parse(name).name for name in names)
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise CostModelError(
            f"A job must name each workload once, but names {shorten(', '.join(twice))} more than once. To "
            f'give it more of the trials, weigh it in a job file: `[workloads]`, and `"{twice[0]}" = 2`.'
        )


def decode_job(text: str, where: str) -> Job:
    """Decode a job as it was stored.

    Raises:
        CostModelError: The text is none.
    """
    what = "the specification of a job of this version"
    with refusing(where, what, "Cancel it and submit it again."):
        return decode_json(text, Job)


def encode_json(job: Any) -> str:
    """Encode a job, or what one gives, as JSON."""
    return msgspec.json.encode(job).decode()
