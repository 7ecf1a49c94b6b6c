"""Boosted trees as the complete trees that ``costmodel.learners._complete_trees.walk_trees`` walks."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xgboost
from numpy.typing import NDArray


def complete_trees(
    boosters: Sequence[xgboost.Booster], depth: int, dtype: type[np.floating[Any]] = np.float16
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return splits, thresholds and leaves of the mean of several boosters; early leaves stand for all below.

    Args:
        boosters: The boosters, whose columns have no names.
        depth: Depth that each tree is filled up to.
        dtype: Of thresholds and leaves.
    """
    every = [tree for booster in boosters for tree in _trees(booster)]
    splits = np.zeros((len(every), 2**depth - 1), np.uint8)
    thresholds = np.zeros(splits.shape, dtype)
    leaves = np.zeros((len(every), 2**depth), dtype)
    for i, tree in enumerate(every):
        for node, (split, threshold, leaf) in _complete(tree, depth):
            if node < 2**depth - 1:
                splits[i, node], thresholds[i, node] = split, threshold
            else:
                leaves[i, node - (2**depth - 1)] = leaf / len(boosters)
    return splits, thresholds, leaves


def _trees(booster: xgboost.Booster) -> Iterator[pd.DataFrame]:
    frame = booster.trees_to_dataframe()
    for _, tree in frame.groupby("Tree"):
        yield tree.set_index("ID")


def _complete(tree: pd.DataFrame, depth: int) -> Iterator[tuple[int, tuple[int, float, float]]]:
    """Each node of a complete tree, as (column, threshold, leaf)."""
    rows = tree[["Feature", "Split", "Yes", "No", "Gain"]].to_dict("index")
    below = [(0, next(iter(rows)))]
    while below:
        node, name = below.pop()
        told = rows[name]
        is_leaf = told["Feature"] == "Leaf"
        yield node, (0, 0.0, told["Gain"]) if is_leaf else (int(told["Feature"][1:]), told["Split"], 0.0)
        if node < 2**depth - 1:
            children = (name, name) if is_leaf else (told["Yes"], told["No"])
            below += [(2 * node + 1, children[0]), (2 * node + 2, children[1])]
