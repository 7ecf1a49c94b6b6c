"""Tune, train, evaluate and collect: the commands as Python functions."""

from costmodel.tuning._collect import Collected, collect
from costmodel.tuning._describe_training import describe_training
from costmodel.tuning._evaluate import evaluate
from costmodel.tuning._kernels import KernelEntry, KernelsCheck, check_kernels, list_kernels
from costmodel.tuning._knowledge import NOTHING, Knowledge, from_model, known_from
from costmodel.tuning._propose import Proposed, propose
from costmodel.tuning._request import TuneRequest
from costmodel.tuning._result import TuneResult
from costmodel.tuning._shipped import models_folder, pretrain, pretrained
from costmodel.tuning._training import train
from costmodel.tuning._tune import tune
from costmodel.tuning.report import describe_page, describe_search, describe_trial, page_of

__all__ = [
    "NOTHING",
    "Collected",
    "KernelEntry",
    "KernelsCheck",
    "Knowledge",
    "Proposed",
    "TuneRequest",
    "TuneResult",
    "check_kernels",
    "collect",
    "describe_page",
    "describe_search",
    "describe_training",
    "describe_trial",
    "evaluate",
    "from_model",
    "known_from",
    "list_kernels",
    "models_folder",
    "page_of",
    "pretrain",
    "pretrained",
    "propose",
    "train",
    "tune",
]
