"""An engine on workers of Dask distributed, on this machine or on others."""

import asyncio
import uuid
from collections.abc import Sequence
from concurrent.futures import Future
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from costmodel.collector._engine import EngineJob, EngineLostError, EngineWorker, WorkerDiedError
from costmodel.errors import CostModelError, MissingExtraError
from costmodel.service._cluster import ClusterEngine, is_of_this_machine

if TYPE_CHECKING:
    import distributed
    from distributed.deploy import Cluster


# A job, and the run of it that Dask will have.
_Order = tuple[EngineJob, "asyncio.Future[distributed.Future[Any]]"]
# What a client of Dask is that gave up its scheduler, or was closed.
_GONE = ("closing", "closed")


class DaskEngine(ClusterEngine):
    """Workers of Dask distributed: ``dask worker`` on any machine, or a cluster object of Dask's adapters.

    Dask places jobs, monitors workers, and gives the job of a lost worker to another one, at most as often as
    its setting ``distributed.scheduler.allowed-failures`` permits. On a worker each job runs in a process of
    its own, as on a ``LocalEngine`` with as many processes as the worker has threads: a job that hangs or
    dies costs only that process. Jobs that request other resources have other processes. A job that requests
    resources that no worker has waits for such a worker.

    Functions are sent by name and arguments by pickle, so anyone who can connect can run code. Other machines
    must therefore have ``tls://`` addresses, whose certificates Dask checks. Every user of this machine can
    connect to a scheduler on a loopback address.
    """

    def __init__(
        self,
        cluster: "str | Cluster",
        *,
        security: "distributed.Security | None" = None,
        insecure: bool = False,
        shares_files: bool = False,
        connect_timeout_s: float = 30.0,
    ) -> None:
        """Connect to a scheduler.

        Args:
            cluster: Address of a scheduler, such as ``tls://host:8786``, or a cluster, which stays open.
            security: Certificates, those of Dask's configuration unless given.
            insecure: Whether jobs may go to another machine without encryption and authentication.
            shares_files: Whether the workers see this machine's files, under the same paths.
            connect_timeout_s: Seconds after which connecting is given up.

        Raises:
            CostModelError: Dask is not installed, the address is not safe, or no scheduler answers there.
        """
        super().__init__(shares_files=shares_files)
        if find_spec("distributed") is None:
            raise MissingExtraError("Running jobs on Dask workers", "dask")
        self._address = cluster if isinstance(cluster, str) else cluster.scheduler_address
        if not insecure:
            _check_safe(self._address)
        self._orders: list[_Order] = []
        self._client = _connect(cluster, self._address, security, connect_timeout_s)

    def _run(self, job: EngineJob, outcome: "Future[Any]") -> "Future[Any]":
        if self._client.status in _GONE:
            raise self._lost(job)
        following = asyncio.run_coroutine_threadsafe(self._result(job), self._client.loop.asyncio_loop)
        # A run that nobody follows any more is one that Dask forgets, or does not begin.
        outcome.add_done_callback(lambda outcome: following.cancel() if outcome.cancelled() else None)
        return following

    async def _result(self, job: EngineJob) -> Any:
        """The result of a job, waited for in Dask's event loop, which fetches several at once."""
        run = await self._placed(job)
        try:
            return await self._client.gather(run, asynchronous=True)
        finally:
            run.release()

    def _placed(self, job: EngineJob) -> "asyncio.Future[distributed.Future[Any]]":
        """Have a job sent to the scheduler, in one message with all that are to be sent at this moment."""
        loop = asyncio.get_running_loop()
        if not self._orders:
            loop.call_soon(self._send_orders)
        placed = loop.create_future()
        self._orders.append((job, placed))
        return placed

    def _send_orders(self) -> None:
        """Send jobs; those of each set of resources together, as Dask has it."""
        by_resources: dict[tuple[tuple[str, float], ...], list[_Order]] = {}
        for order in self._orders:
            if not order[1].cancelled():
                by_resources.setdefault(tuple(sorted(order[0].resources.items())), []).append(order)
        self._orders.clear()
        for resources, orders in by_resources.items():
            try:
                runs = self._send([job for job, _ in orders], dict(resources))
            except Exception as error:  # noqa: BLE001 (it goes to whoever waits)
                for _, placed in orders:
                    placed.set_exception(error)
            else:
                for run, (_, placed) in zip(runs, orders, strict=True):
                    placed.set_result(run)

    def _send(
        self, jobs: Sequence[EngineJob], resources: dict[str, float]
    ) -> "list[distributed.Future[Any]]":
        from costmodel.service._dask_worker import run_in_dask_process

        runs: list[distributed.Future[Any]] = self._client.map(
            run_in_dask_process,
            [job.function for job in jobs],
            [job.arguments for job in jobs],
            [tuple(resources)] * len(jobs),
            [job.timeout_s for job in jobs],
            [job.key for job in jobs],
            key=[f"{job.name}-{uuid.uuid4().hex}" for job in jobs],  # as one of that key may have failed
            resources=resources or None,
            pure=False,
        )
        return runs

    def _lost(self, job: EngineJob) -> EngineLostError:
        return EngineLostError(
            f"The Dask scheduler at {self._address} must live until `{job.name}` is done, but it was lost. "
            "Start it again, and submit what is missing."
        )

    def workers(self) -> tuple[EngineWorker, ...]:
        """Return the workers that the scheduler knows."""
        known = self._client.scheduler_info(n_workers=-1)["workers"]
        return tuple(
            EngineWorker(address, worker["host"], worker["nthreads"], worker["resources"])
            for address, worker in known.items()
        )

    def _told(self, error: BaseException, job: EngineJob) -> BaseException:
        from distributed import KilledWorker
        from distributed.comm import CommClosedError

        if isinstance(error, CommClosedError):  # the scheduler went while it handed over a result
            return self._lost(job)
        if isinstance(error, KilledWorker):
            return WorkerDiedError(
                f"{error.allowed_failures + 1} Dask workers, one after the other", job.name
            )
        return error

    def _disconnect(self) -> None:
        self._client.close()


def _connect(
    cluster: "str | Cluster", address: str, security: "distributed.Security | None", timeout_s: float
) -> "distributed.Client":
    from distributed import Client

    try:
        return Client(cluster, security=security, timeout=timeout_s, set_as_default=False)
    except (OSError, TypeError) as error:  # TypeError: TLS without certificates
        raise CostModelError(
            f"A Dask scheduler must answer at {address}, but connecting failed ({error}). Start one with "
            "`dask scheduler`; for tls:// Dask's configuration must name certificates here too."
        ) from error


def _check_safe(address: str) -> None:
    """Check that what goes to an address is encrypted, or stays on this machine.

    Raises:
        CostModelError: It may go to another machine, and anybody between could read and change it.
    """
    scheme, _, _ = address.rpartition("://")
    # Without a scheme Dask takes tcp, unless its configuration says otherwise.
    if scheme in ("tls", "inproc") or (scheme in ("", "tcp") and is_of_this_machine(address)):
        return
    raise CostModelError(
        f"The address of a scheduler on another machine must begin with tls://, but got {address}: "
        "anyone who can connect could run code on the workers and on this machine. Install "
        "certificates on both ends or, in a trusted network, pass `insecure=True`."
    )
