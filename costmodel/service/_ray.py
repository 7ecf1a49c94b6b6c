"""An engine on workers of Ray, on this machine or on others."""

import os
from collections.abc import Callable
from concurrent.futures import Future
from importlib.util import find_spec
from typing import Any

from costmodel.collector._engine import EngineJob, EngineLostError, EngineWorker, WorkerDiedError
from costmodel.errors import CostModelError, MissingExtraError
from costmodel.service._cluster import ClusterEngine, JobProcesses, is_of_this_machine

# A Ray worker is a process that runs one task at a time.
_PROCESSES = JobProcesses(1)


def run_in_ray_process(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    resources: tuple[str, ...],
    timeout_s: float | None,
    key: str | None,
) -> Any:
    """Make a call in the job process of this Ray worker, and wait for it."""
    return _PROCESSES.of(resources).submit(function, *arguments, timeout_s=timeout_s, key=key).result()


class RayEngine(ClusterEngine):
    """Workers of Ray: one per CPU of the machines that ``ray start`` joined.

    Ray places jobs, monitors workers and reruns the job of a lost worker. On a worker each job runs in a
    process of its own, as on a ``LocalEngine``: a job that hangs or dies costs only that process. A job takes
    one CPU of Ray. Other resources are custom resources, which a machine has if it was started with them, as
    in ``ray start --resources '{"gpu": 1}'``. A job that requests resources that no machine has waits for
    such a machine.

    A process is connected to one Ray at a time: engines share the existing connection, and the engine that
    made it ends it.

    Functions are sent by name and arguments by pickle, so anyone who can connect can run code. For other
    machines TLS must be on, for which Ray reads its variables ``RAY_USE_TLS``, ``RAY_TLS_SERVER_CERT``,
    ``RAY_TLS_SERVER_KEY`` and ``RAY_TLS_CA_CERT`` on every machine.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        insecure: bool = False,
        shares_files: bool | None = None,
        retries: int = 3,
        **settings: Any,
    ) -> None:
        """Connect to Ray.

        Args:
            address: Address of a Ray Client server, such as ``ray://host:10001``. Unless given, the Ray that
                this process is connected to, and where there is none one of this machine, which starts now.
            insecure: Whether jobs may go to another machine without encryption and authentication.
            shares_files: Whether the workers see this machine's files, under the same paths; unless given,
                where Ray is of this machine.
            retries: Times that a job is run again whose Ray worker or machine was lost.
            settings: Others of ``ray.init``, such as ``num_cpus`` and ``resources`` of a Ray that starts now.

        Raises:
            CostModelError: Ray is not installed, the address is not safe, or nobody answers there.
        """
        super().__init__(shares_files=address is None if shares_files is None else shares_files)
        if find_spec("ray") is None:
            raise MissingExtraError("Running jobs on Ray workers", "ray")
        if address and not insecure:
            _check_safe(address)
        import ray

        self._retries = retries
        self._ray, self._place = ray, address or "this machine"
        self._is_own = bool(address) or not ray.is_initialized()
        if self._is_own:
            self._connect(address, settings)
        self._task = ray.remote(run_in_ray_process)

    def _connect(self, address: str | None, settings: dict[str, Any]) -> None:
        quiet = {"include_dashboard": False, "configure_logging": False} if address is None else {}
        try:
            self._ray.init(address or "local", **{"log_to_driver": False, **quiet, **settings})
        except Exception as error:
            raise CostModelError(
                f"Ray must answer at {self._place}, but connecting failed ({error}). Start it there with "
                "`ray start --head`, of the same version of Ray and of Python."
            ) from error

    def _run(self, job: EngineJob, outcome: "Future[Any]") -> "Future[Any]":
        resources = tuple(sorted(job.resources))
        settings = {"num_cpus": 1, "max_retries": self._retries, "resources": job.resources}
        run = self._task.options(name=job.name, **settings).remote(
            job.function, job.arguments, resources, job.timeout_s, job.key
        )
        outcome.add_done_callback(lambda outcome: self._give_up(run) if outcome.cancelled() else None)
        following: Future[Any] = run.future()
        return following

    def _give_up(self, run: Any) -> None:
        """Cancel a task; one that runs costs its Ray worker the life, and a new one is started."""
        if self._ray.is_initialized():
            self._ray.cancel(run, force=True)

    def _told(self, error: BaseException, job: EngineJob) -> BaseException:
        exceptions = self._ray.exceptions
        if isinstance(error, exceptions.RayTaskError):
            cause: BaseException = error.cause
            return cause
        if isinstance(error, exceptions.WorkerCrashedError | exceptions.NodeDiedError):
            return WorkerDiedError(f"{self._retries + 1} Ray workers, one after the other", job.name)
        if isinstance(error, exceptions.RayError):
            return self._lost(job)
        return error

    def _lost(self, job: EngineJob) -> EngineLostError:
        return EngineLostError(
            f"Ray at {self._place} must live until `{job.name}` is done, but it was lost. Start it again, "
            "and submit what is missing."
        )

    def workers(self) -> tuple[EngineWorker, ...]:
        """Return the machines that Ray knows, with one of its workers per CPU."""
        return tuple(
            EngineWorker(
                node["NodeID"],
                node["NodeManagerHostname"],
                int(node["Resources"].get("CPU", 0)),
                _custom(node["Resources"]),
            )
            for node in self._ray.nodes()
            if node["Alive"]
        )

    def _disconnect(self) -> None:
        if self._is_own:
            self._is_own = False
            self._ray.shutdown()


def _custom(resources: dict[str, float]) -> dict[str, float]:
    """Those that whoever started the machine named, without those of Ray, such as ``node:10.0.0.1``."""
    of_ray = ("CPU", "memory", "object_store_memory")
    return {name: amount for name, amount in resources.items() if ":" not in name and name not in of_ray}


def _check_safe(address: str) -> None:
    """Check that what goes to an address is encrypted, or stays on this machine.

    Raises:
        CostModelError: It would go to another machine, and anybody between could read and change it.
    """
    if os.environ.get("RAY_USE_TLS") != "1" and not is_of_this_machine(address):
        raise CostModelError(
            f"Connections to Ray on another machine must use TLS, but RAY_USE_TLS is not 1 for {address}: "
            "anyone who can connect could run code on the workers. Give all machines certificates and set "
            "Ray's variables RAY_USE_TLS=1, RAY_TLS_SERVER_CERT, RAY_TLS_SERVER_KEY and RAY_TLS_CA_CERT, "
            "or, in a network that you trust, pass `insecure=True`."
        )
