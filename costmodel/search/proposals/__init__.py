"""Proposals from a design space, by a joint model of its measurements or a model of other workloads."""

from costmodel.search.proposals._choice import finalists, least_known
from costmodel.search.proposals._decisions import DecisionColumns
from costmodel.search.proposals._gaussian_process import GaussianProcess
from costmodel.search.proposals._improvement import ImprovementModel
from costmodel.search.proposals._propose import propose_candidates
from costmodel.search.proposals._screened import screen_candidates

__all__ = [
    "DecisionColumns",
    "GaussianProcess",
    "ImprovementModel",
    "finalists",
    "least_known",
    "propose_candidates",
    "screen_candidates",
]
