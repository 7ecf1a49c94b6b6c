"""Tuning jobs whose state is in a database, so that they survive the death of workers and submitters."""

from costmodel.jobs._job import CampaignTask, Job, JobFile, TuneSettings, TuneTask
from costmodel.jobs._ledger import LEASE_S, Lease, LeaseLostError
from costmodel.jobs._metrics import serve_metrics
from costmodel.jobs._rules import RULES, TaskState
from costmodel.jobs._status import Answer, JobStatus, TaskStatus
from costmodel.jobs._store import JobStore, Progress
from costmodel.jobs._work import Slice, work

__all__ = [
    "LEASE_S",
    "RULES",
    "Answer",
    "CampaignTask",
    "Job",
    "JobFile",
    "JobStatus",
    "JobStore",
    "Lease",
    "LeaseLostError",
    "Progress",
    "Slice",
    "TaskState",
    "TaskStatus",
    "TuneSettings",
    "TuneTask",
    "serve_metrics",
    "work",
]
