"""Boosted trees out of a file that nobody vouches for, checked before XGBoost's native code sees them.

XGBoost believes its files: an index out of range reads or writes memory that is not its own, and a cycle
among the nodes never ends.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from costmodel.learners._stored_state import StoredState
from costmodel.learners.trees._ubjson import read_ubjson

# What XGBoost says of each node: floats, indices and flags.
_FLOATS = ("base_weights", "loss_changes", "split_conditions", "sum_hessian")
_INDICES = ("left_children", "right_children", "parents", "split_indices")
_FLAGS = ("default_left", "split_type")
_NODES = (*_FLOATS, *_INDICES, *_FLAGS)
# Nodes on a path; XGBoost's Shapley values go down paths by recursion.
_DEEPEST = 256
_ROOTS_PARENT = 2**31 - 1


def check_booster(content: bytes, width: int, objective: str) -> None:
    """Check that a booster is one of trees as ``BoostedTrees`` grows them.

    Args:
        content: The booster in XGBoost's UBJSON.
        width: Columns that the trees may split on.
        objective: Name of the loss.

    Raises:
        ValueError: It is something else.
        KeyError: Something is missing.
        TypeError: Something is of another type.
    """
    document = read_ubjson(content)
    learner = document["learner"]
    booster = learner["gradient_booster"]
    model = booster["model"]
    trees = model.pop("trees")
    _require(booster["name"] == "gbtree", "a booster must be of trees")
    _require(learner["objective"]["name"] == objective, f"the objective must be {objective}")
    settings = {**learner["learner_model_param"], **model["gbtree_model_param"]}
    expected = {"num_class": 0, "num_target": 1, "num_feature": width}
    _require_numbers(settings, {**expected, "num_parallel_tree": 1, "num_trees": len(trees)})
    base = settings["base_score"].removeprefix("[").removesuffix("]")
    _require(np.isfinite(float(base)), "base_score must be finite")
    info, rounds = model.pop("tree_info"), model.pop("iteration_indptr")
    _require(np.array_equal(info, np.zeros(len(trees))), "all trees must be of one output")
    _require(np.array_equal(rounds, np.arange(len(trees) + 1)), "each round must have one tree")
    del document["version"]
    _require_no_arrays(document)
    for tree in trees:
        _check_tree(tree, width)


def _check_tree(tree: dict[str, Any], width: int) -> None:
    stored = StoredState({name: tree.pop(name) for name in _NODES})
    for name in _FLOATS:
        stored.floats(name, "nodes")
    nodes = stored.length("nodes")
    _require(nodes > 0, "a tree must have a node")
    _require_numbers(tree["tree_param"], {"num_nodes": nodes, "num_feature": width, "num_deleted": 0})
    stored.integers("split_indices", "nodes", low=0, below=width)
    stored.integers("default_left", "nodes", low=0, below=2)
    stored.integers("split_type", "nodes", low=0, below=1)  # no categories
    left, right = (
        stored.integers(name, "nodes", low=-1, below=nodes) for name in ("left_children", "right_children")
    )
    parents = stored.integers("parents", "nodes", low=0, below=_ROOTS_PARENT + 1)
    inner = np.flatnonzero(left >= 0)
    _require(((left >= 0) == (right >= 0)).all(), "a node must have two children or none")
    children = np.concatenate([left[inner], right[inner]])
    # Children behind their parents, and none of two parents: no path comes back to where it was.
    _require((left[inner] != right[inner]).all(), "two children must not be the same node")
    _require((children > np.tile(inner, 2)).all(), "children must stand behind their parents")
    _require((parents[children] == np.tile(inner, 2)).all(), "parents must be those of the children")
    _require(parents[0] == _ROOTS_PARENT, "the first node must be the root")
    level, depth = np.zeros(1, dtype=np.intp), 0
    while level.size:
        depth += 1
        _require(depth <= _DEEPEST, f"a tree must be at most {_DEEPEST} deep")
        level = np.concatenate([left[level], right[level]])
        level = level[level >= 0]
    _require_no_arrays(tree)


def _require_numbers(settings: Mapping[str, Any], expected: Mapping[str, int]) -> None:
    """XGBoost writes numbers of a model as text."""
    for name, number in expected.items():
        _require(settings[name] == str(number), f"{name} must be {number}, but is {settings[name]!r}")


def _require_no_arrays(value: Any) -> None:
    """Refuse arrays that are not known here, by which native code could be led astray; text may be there."""
    if isinstance(value, dict):
        for item in value.values():
            _require_no_arrays(item)
    elif isinstance(value, list | np.ndarray):
        _require(not len(value), f"a booster has no arrays but those known, and got one of {len(value)}")


def _require(holds: Any, what: str) -> None:
    if not holds:
        raise ValueError(f"in the trees of XGBoost, {what}")
