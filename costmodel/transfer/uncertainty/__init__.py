"""Uncertainty of a model: calibrated intervals, and unfamiliarity of a row with the training data."""

from costmodel.transfer.uncertainty._conformal import Conformal
from costmodel.transfer.uncertainty._familiarity import Familiarity
from costmodel.transfer.uncertainty._folds import Codes, group_codes, group_folds, twin_codes
from costmodel.transfer.uncertainty._mondrian import MondrianQuantiles
from costmodel.transfer.uncertainty._rehearsal import Rehearsed, ShotQuantiles, rehearse, std_of
from costmodel.transfer.uncertainty._unseen_devices import UnseenDevices

__all__ = [
    "Codes",
    "Conformal",
    "Familiarity",
    "MondrianQuantiles",
    "Rehearsed",
    "ShotQuantiles",
    "UnseenDevices",
    "group_codes",
    "group_folds",
    "rehearse",
    "std_of",
    "twin_codes",
]
