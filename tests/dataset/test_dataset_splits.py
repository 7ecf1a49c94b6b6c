"""Splits: what is held out, that nothing leaks, that order and process do not matter, and their files."""

import json
import random
import shutil
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from fake_devices import Key, contents, dataset_of, measured_on
from fake_records import WORKLOADS, fake_measurement
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.dataset import (
    CardHeader,
    Dataset,
    Split,
    build_dataset,
    find_dataset,
    load_dataset,
    make_split,
    read_split,
    write_split,
)
from costmodel.dataset.splits._file import run_lengths, taken_by
from costmodel.dataset.splits._folds import Fold
from costmodel.dataset.splits._make import (
    FINAL_REPORT,
    LEAVE_ONE_OUT,
    STRATEGIES,
    WHOLE_DEVICE_ONLY,
    SplitRecipe,
    check_split,
    choose_final_shapes,
    drop_final_report,
    write_final_shapes,
)
from costmodel.dataset.table._files import hash_dataset
from costmodel.dataset.table._read import dataset_from_measurements
from costmodel.errors import CostModelError
from costmodel.records import RecordStore, Workload

pytestmark = pytest.mark.white_box

DEVICES = ("NVIDIA RTX A4000", "NVIDIA RTX A6000", "NVIDIA TITAN RTX")
BUDGETS = (8, 32, 132)
KEYS = st.tuples(
    st.sampled_from(DEVICES), st.sampled_from(WORKLOADS), st.integers(1, 6), st.sampled_from(BUDGETS)
)
LATENCIES = st.dictionaries(KEYS, st.none() | st.floats(1e-6, 1.0), min_size=1, max_size=40)
RECIPES = st.builds(SplitRecipe, st.sampled_from([*LEAVE_ONE_OUT, "random", "few-shot"]), st.integers(0, 5))
GROUPED = st.builds(
    SplitRecipe, st.sampled_from([*LEAVE_ONE_OUT, WHOLE_DEVICE_ONLY]), folds=st.sampled_from([0, 2, 3])
)
quick = settings(max_examples=60)


def full(seed: int = 0, tiles: int = 12, devices: tuple[str, ...] = DEVICES) -> dict[Key, float | None]:
    """A latency for everything; no device is a twin of another."""
    rng = np.random.default_rng(seed)
    keys = [(d, w, t, s) for d in devices for w in WORKLOADS for t in range(1, tiles + 1) for s in BUDGETS]
    return {key: float(rng.lognormal()) for key in keys}


def task(key: Key) -> tuple[str, str, int]:
    device, workload, _, sms = key
    return device, workload, sms


def held_out_of(key: Key, strategy: str) -> str:
    device, workload, _, sms = key
    return {
        "leave-one-workload-out": workload,
        "leave-one-operator-kind-out": workload.split("-")[0],
        "leave-one-budget-out": str(sms),
        "leave-one-device-out": device,
        "leave-one-architecture-out": "sm_90",
    }[strategy]


def sides(dataset: Dataset, split: Split) -> list[tuple[str, set[Key], set[Key], set[Key]]]:
    """What is held out, and the contents of train, test and shots, fold by fold."""
    return [
        (fold.held_out, *(contents(dataset, rows) for rows in (fold.train, fold.test, fold.shots)))
        for fold in split.folds
    ]


@quick
@given(LATENCIES, RECIPES)
def test_no_split_of_any_dataset_leaks(latencies: dict, recipe: SplitRecipe) -> None:
    dataset = dataset_of(latencies)
    try:
        split = make_split(dataset, recipe)
    except CostModelError:
        return
    tested = Counter[Key]()
    for _, train, test, shots in sides(dataset, split):
        assert train
        assert test
        assert not train & test
        assert train | test == set(latencies)
        tested.update(test)
        if recipe.strategy != "random":
            assert not {task(key) for key in train - shots} & {task(key) for key in test}
            assert {task(key) for key in shots} <= {task(key) for key in test}
    assert max(tested.values()) == 1
    if recipe.strategy in LEAVE_ONE_OUT:
        assert set(tested) == set(latencies)


@pytest.mark.parametrize("strategy", [s for s in LEAVE_ONE_OUT if s != "leave-one-architecture-out"])
def test_each_value_is_held_out_once(strategy: str) -> None:
    latencies = full()
    dataset = dataset_of(latencies)
    split = make_split(dataset, SplitRecipe(strategy))
    assert (split.name, split.twins) == (strategy, ())
    values = {held_out_of(key, strategy) for key in latencies}
    assert [fold.held_out for fold in split.folds] == sorted(values, key=lambda v: (len(v) * v.isdigit(), v))
    for held_out, _, test, _ in sides(dataset, split):
        assert test == {key for key in latencies if held_out_of(key, strategy) == held_out}


def test_architectures_are_looked_up_where_records_do_not_say_them() -> None:
    records = [measured_on(name, tile=t, architecture="") for name in DEVICES for t in (1, 2)]
    records += [measured_on("Unheard of", tile=t, architecture="gfx90a") for t in (1, 2)]
    dataset = dataset_from_measurements(records)
    split = make_split(dataset, SplitRecipe("leave-one-architecture-out"))
    found = {held_out: {key[0] for key in test} for held_out, _, test, _ in sides(dataset, split)}
    assert found == {"gfx90a": {"Unheard of"}, "sm_75": {DEVICES[2]}, "sm_86": set(DEVICES[:2])}
    unknown = dataset_from_measurements([*records, measured_on("Unseen", architecture="")])
    with pytest.raises(
        CostModelError, match=r"do not contain that of 'Unseen'.* choose leave-one-device-out"
    ):
        make_split(unknown, SplitRecipe("leave-one-architecture-out"))


def test_twins_are_held_out_together_unless_they_are_kept_apart() -> None:
    latencies = full()
    for (device, *rest), value in list(latencies.items()):
        if device == DEVICES[0]:
            latencies["Copy", *rest] = 2 * value
    dataset = dataset_of(latencies)
    split = make_split(dataset, SplitRecipe("leave-one-device-out"))
    assert split.twins == (("Copy", DEVICES[0]),)
    together = f"Copy + {DEVICES[0]}"
    tested = {held_out: {key[0] for key in test} for held_out, _, test, _ in sides(dataset, split)}
    assert tested == {together: {"Copy", DEVICES[0]}, DEVICES[1]: {DEVICES[1]}, DEVICES[2]: {DEVICES[2]}}
    shots = make_split(dataset, SplitRecipe("few-shot", base="leave-one-device-out"))
    assert [fold.held_out for fold in shots.folds] == [fold.held_out for fold in split.folds]
    apart = make_split(dataset, SplitRecipe("leave-one-device-out", keep_twins_apart=True))
    assert [fold.held_out for fold in apart.folds] == ["Copy", *DEVICES]


def test_nothing_but_twins_is_an_error_that_names_the_option() -> None:
    latencies = full(devices=DEVICES[:1])
    latencies |= {("Copy", *key[1:]): value for key, value in latencies.items()}
    dataset = dataset_of(latencies)
    with pytest.raises(CostModelError, match=rf"Copy \+ {DEVICES[0]}.* near-twins.*--keep-twins-apart"):
        make_split(dataset, SplitRecipe("leave-one-device-out"))
    assert len(make_split(dataset, SplitRecipe("leave-one-device-out", keep_twins_apart=True)).folds) == 2


@quick
@given(LATENCIES, GROUPED)
def test_groups_of_what_is_held_out_do_not_leak(latencies: dict, recipe: SplitRecipe) -> None:
    dataset = dataset_of(latencies)
    try:
        split = make_split(dataset, recipe)
    except CostModelError:
        return
    whole_of = {name: max(key[3] for key in latencies if key[0] == name) for name, *_ in latencies}
    tested = Counter[Key]()
    for _, train, test, shots in sides(dataset, split):
        assert train | test == set(latencies)
        tested.update(test)
        column = {"workload": 1, "sms_granted": 3, "device": 0}.get(recipe.column or "")
        if column is not None and not split.twins:
            assert not {key[column] for key in train - shots} & {key[column] for key in test}
        if recipe.strategy == WHOLE_DEVICE_ONLY:
            assert all(key[3] == whole_of[key[0]] for key in shots)
            assert not any(key[3] == whole_of[key[0]] for key in test)
    assert max(tested.values()) == 1
    assert recipe.folds == 0 or len(split.folds) <= recipe.folds


@pytest.mark.parametrize("strategy", ["leave-one-workload-out", WHOLE_DEVICE_ONLY, "few-shot"])
def test_siblings_of_one_shape_are_held_out_together(strategy: str) -> None:
    """A kernel in float16 or with a bias would give away what is asked of its sibling."""
    siblings = (
        "conv2d-n1-c64-h56-w56-o64-k3-s1",
        "conv2d_nhwc_bias_relu-n1-c64-h56-w56-o64-k3-s1-float16",
    )
    workloads = (*siblings, "matmul-m128-n768-k3072", "matmul-m128-n768-k768")
    latencies = {(d, w, t, s): 1e-3 * t for d in DEVICES for w in workloads for t in (1, 2) for s in BUDGETS}
    dataset = dataset_of(latencies)
    split = make_split(dataset, SplitRecipe(strategy, **({"shots": 1} if strategy == "few-shot" else {})))
    assert [fold.held_out for fold in split.folds] == [" + ".join(siblings), *workloads[2:]]
    for held_out, train, test, shots in sides(dataset, split):
        assert {key[1] for key in test} == set(held_out.split(" + "))
        assert not {key[1] for key in train - shots} & set(held_out.split(" + "))


def test_siblings_on_both_sides_leak() -> None:
    siblings = ("matmul-m128-n768-k3072", "matmul_bias-m128-n768-k3072-float16")
    workloads = (*siblings, "softmax-m512-n512")
    dataset = dataset_of({(DEVICES[0], w, t, 8): 1e-3 for w in workloads for t in (1, 2)})
    first = np.array([name == siblings[0] for name in dataset.rows["workload"]])
    fold = Fold.of(siblings[0], first)
    with pytest.raises(CostModelError, match="No held-out value may be on both sides"):
        check_split(dataset, Split("x", SplitRecipe("leave-one-workload-out"), (), (fold,)))


def test_groups_are_balanced_by_rows_and_need_no_order() -> None:
    sizes = dict(zip(WORKLOADS, (3, 7, 11), strict=True))
    latencies = {(DEVICES[0], w, t, 8): 1e-3 for w in WORKLOADS for t in range(1, sizes[w] + 1)}
    split = make_split(dataset_of(latencies), SplitRecipe("leave-one-workload-out", folds=2))
    assert {fold.held_out: fold.test.size for fold in split.folds} == {
        WORKLOADS[2]: 11,
        f"{WORKLOADS[0]} + {WORKLOADS[1]}": 10,
    }
    reverse = dataset_of(dict(reversed(latencies.items())))
    again = make_split(reverse, SplitRecipe("leave-one-workload-out", folds=2))
    assert [fold.held_out for fold in again.folds] == [fold.held_out for fold in split.folds]


def test_only_the_whole_device_is_known_of_a_held_out_workload() -> None:
    latencies = full()
    split = make_split(dataset_of(latencies), SplitRecipe(WHOLE_DEVICE_ONLY))
    assert len(split.folds) == len(WORKLOADS)
    for held_out, train, test, shots in sides(dataset_of(latencies), split):
        assert test == {key for key in latencies if key[1] == held_out and key[3] != 132}
        assert shots == {key for key in latencies if key[1] == held_out and key[3] == 132}
        assert train == set(latencies) - test
    fold = split.folds[0]
    stolen = replace(fold, test=fold.test[1:], train=np.union1d(fold.train, fold.test[:1]))
    with pytest.raises(CostModelError, match="may be on both sides of a fold"):
        check_split(dataset_of(latencies), replace(split, folds=(stolen,)))
    smuggled = replace(stolen, shots=np.union1d(fold.shots, fold.test[:1]))
    with pytest.raises(CostModelError, match="must be exactly the whole-device measurements"):
        check_split(dataset_of(latencies), replace(split, folds=(smuggled,)))


@quick
@given(LATENCIES, st.floats(0.01, 0.99))
def test_a_random_share_of_each_task_is_held_out(latencies: dict, share: float) -> None:
    dataset = dataset_of(latencies)
    sizes = Counter(task(key) for key in latencies)
    try:
        (side,) = sides(dataset, make_split(dataset, SplitRecipe("random", share=share)))
    except CostModelError:
        assert set(sizes.values()) == {1}
        return
    tested = Counter(task(key) for key in side[2])
    for name, size in sizes.items():
        if size > 1:
            assert tested[name] == min(max(round(share * size), 1), size - 1)


@quick
@given(LATENCIES, st.integers(1, 7), st.integers(0, 3))
def test_each_held_out_task_has_its_shots_or_all_rows_but_one(latencies: dict, shots: int, seed: int) -> None:
    dataset = dataset_of(latencies)
    if len({key[1] for key in latencies}) < 2:
        return
    few, more = (
        sides(dataset, make_split(dataset, SplitRecipe("few-shot", seed, shots=n)))
        for n in (shots, shots + 1)
    )
    for held_out, _, test, moved in few:
        of_target = {key for key in latencies if key[1] == held_out}
        assert test | moved == of_target
        for name, size in Counter(map(task, of_target)).items():
            assert sum(task(key) == name for key in moved) == min(shots, size - 1)
    # Who learns from more rows has seen the same ones.
    assert all(a[3] <= b[3] for a, b in zip(few, more, strict=True))


@pytest.mark.parametrize("strategy", ["random", "few-shot"])
def test_seeds_reproduce_and_differ_and_grown_datasets_keep_their_draws(strategy: str) -> None:
    latencies = full(tiles=30)
    dataset = dataset_of(latencies)

    def drawn(data: Dataset, seed: int) -> list[set[Key]]:
        split = make_split(data, SplitRecipe(strategy, seed))
        return [test for _, _, test, _ in sides(data, split)]

    assert drawn(dataset, 1) == drawn(dataset, 1)
    assert drawn(dataset, 1) != drawn(dataset, 2)
    grown = dataset_of({**full(tiles=30, devices=("AAA",)), **latencies})
    assert [{key for key in test if key[0] != "AAA"} for test in drawn(grown, 1)] == drawn(dataset, 1)


@quick
@given(LATENCIES, RECIPES, st.randoms(use_true_random=False))
def test_no_order_of_rows_matters(latencies: dict, recipe: SplitRecipe, rng: random.Random) -> None:
    items = list(latencies.items())
    rng.shuffle(items)
    found = []
    for each in (latencies, dict(items)):
        dataset = dataset_of(each)
        try:
            found.append(sides(dataset, make_split(dataset, recipe)))
        except CostModelError as error:
            found.append(str(error))
    assert found[0] == found[1]


PLANTED = {
    "nothing to train": ("Both sides of a fold must have rows", [], range(24), []),
    "nothing to test": ("Both sides of a fold must have rows", range(24), [], []),
    "same row": ("No candidate and platform may be on both sides", range(13), range(12, 24), []),
    "same workload": ("No held-out value may be on both sides", range(6), range(6, 24), []),
    "shots of other tasks": ("must be training rows of tasks that it tests", range(12), range(12, 24), [0]),
    "shots to test": ("must be training rows of tasks that it tests", range(12), range(12, 24), [13]),
}


@pytest.mark.parametrize(("message", "train", "test", "shots"), PLANTED.values(), ids=PLANTED)
def test_planted_leaks_are_found(message: str, train: range, test: range, shots: list[int]) -> None:
    # 24 rows of two workloads on two budgets: 12 of a workload, 6 of a task.
    dataset = dataset_of({("A", w, t, s): 1.0 for w in WORKLOADS[:2] for t in range(1, 7) for s in (8, 32)})
    fold = Fold("x", *(np.array(rows, dtype=np.intp) for rows in (train, test, shots)))
    with pytest.raises(CostModelError, match=message):
        check_split(dataset, Split("x", SplitRecipe("leave-one-workload-out"), (), (fold,)))


def test_a_task_on_both_sides_and_a_row_tested_twice_are_found() -> None:
    dataset = dataset_of({("A", w, t, s): 1.0 for w in WORKLOADS[:2] for t in range(1, 7) for s in (8, 32)})
    half = np.arange(12)
    halves = [Fold("x", half + 12, half), Fold("y", half, half + 12)]
    check_split(dataset, Split("x", SplitRecipe("leave-one-workload-out"), (), tuple(halves)))
    for folds in ([halves[0]] * 2, [*halves, Fold("z", half, half + 12)]):
        with pytest.raises(CostModelError, match="12 are on the test side of several"):
            check_split(dataset, Split("x", SplitRecipe("leave-one-workload-out"), (), tuple(folds)))
    broken = Dataset(dataset.candidates, dataset.platforms, dataset.measurements)
    broken.rows["task"] = "the same"
    with pytest.raises(CostModelError, match="No task may be on both sides"):
        check_split(broken, Split("x", SplitRecipe("leave-one-workload-out"), (), tuple(halves)))


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        (SplitRecipe("by-magic"), "A split must be one of leave-one-workload-out, .*, but got 'by-magic'"),
        (SplitRecipe("random", share=1.0), "share held out must be more than 0 and less than 1, but got 1.0"),
        (SplitRecipe("random", share=float("nan")), "share held out must be"),
        (SplitRecipe("few-shot", shots=0), "shots must be at least 1, but got 0"),
        (SplitRecipe("few-shot", base="random"), "base must be one of leave-one-"),
        (SplitRecipe("random", seed=-1), "seed must be at least 0"),
        (SplitRecipe("random", shots=3), "shots must be left out, as random does not use it, but got 3"),
        (SplitRecipe("few-shot", keep_twins_apart=True), "keep_twins_apart must be left out"),
        (SplitRecipe("leave-one-budget-out", share=0.5), "share must be left out"),
        (SplitRecipe("leave-one-workload-out", folds=1), "folds must be 0 or at least 2, but got 1"),
        (SplitRecipe("random", folds=3), "folds must be left out, as random does not use it"),
    ],
)
def test_impossible_recipes_are_refused(recipe: SplitRecipe, message: str) -> None:
    with pytest.raises(CostModelError, match=message):
        make_split(dataset_of(full(tiles=2)), recipe)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A built dataset of three devices, of which two are twins."""
    from costmodel.records import RecordStore

    place = tmp_path_factory.mktemp("dataset")
    latencies = full(tiles=9)
    latencies |= {("Copy", *k[1:]): v for k, v in latencies.items() if k[0] == DEVICES[0]}
    with RecordStore(place / "records.jsonl") as store:
        store.append([measured_on(*key, latency_s=value) for key, value in latencies.items()])
    header = CardHeader("Fake", "For tests.", "Not at all.", "Not real.", "CC-BY-4.0", "Nobody, 2026.")
    return build_dataset([place / "records.jsonl"], place / "built", header=header).path


@pytest.fixture
def built(folder: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(folder, tmp_path / "built"))


def make(path: Path, recipe: SplitRecipe, name: str = "mine", *, force: bool = False) -> tuple[Path, Split]:
    dataset = load_dataset(path)
    split = make_split(dataset, recipe, name)
    return write_split(dataset, split, force=force), split


@pytest.mark.parametrize(
    "strategy", [s for s in STRATEGIES if s not in ("leave-one-architecture-out", FINAL_REPORT)]
)
def test_a_written_split_comes_back_and_is_the_same_bytes(built: Path, strategy: str) -> None:
    before = set((built / "SHA256SUMS").read_text().splitlines())
    file, split = make(built, SplitRecipe(strategy, seed=3))
    data, sums = file.read_bytes(), (built / "SHA256SUMS").read_text()
    (added,) = set(sums.splitlines()) - before
    assert added.endswith(f"  splits/{file.name}")
    assert before < set(sums.splitlines())
    read = read_split(load_dataset(built / "measurements.parquet"), "mine")
    assert (read.name, read.recipe, read.twins) == ("mine", split.recipe, split.twins)
    for ours, theirs in zip(read.folds, split.folds, strict=True):
        assert ours.held_out == theirs.held_out
        for side in ("train", "test", "shots"):
            np.testing.assert_array_equal(getattr(ours, side), getattr(theirs, side))
    make(built, SplitRecipe(strategy, seed=3))
    assert (file.read_bytes(), (built / "SHA256SUMS").read_text()) == (data, sums)


def test_others_can_read_the_file_without_us(built: Path) -> None:
    file, split = make(built, SplitRecipe("few-shot", 1, shots=2, base="leave-one-device-out"))
    said = json.loads(file.read_text())
    assert said["dataset_sha256"] == hash_dataset(built)
    assert said["parameters"] == {"base": "leave-one-device-out", "shots": 2, "keep_twins_apart": False}
    assert said["twins"] == [["Copy", DEVICES[0]]]
    frame = pd.read_parquet(built / "measurements.parquet")
    frame = frame[frame["co_runners"].map(len) == 0].drop_duplicates(["candidate_id", "platform_id"])
    frame["name"] = [
        f"{device['name']}/{isolation}/{sms}"
        for device, isolation, sms in zip(
            frame["device"], frame["isolation"], frame["sms_granted"], strict=True
        )
    ]
    frame = frame.sort_values(["workload", "name", "candidate_id"])
    assert len(frame) == said["rows"]
    dataset = load_dataset(built)
    for fold, ours in zip(said["folds"], split.folds, strict=True):
        for side, positions in (("test", ours.test), ("shots", ours.shots)):
            at, taken, places = 0, False, []
            for length in fold[side]:
                places += range(at, at + length) if taken else []
                at, taken = at + length, not taken
            found = set(
                zip(frame["candidate_id"].iloc[places], frame["platform_id"].iloc[places], strict=True)
            )
            rows = dataset.rows.iloc[positions]
            assert found == {
                (dataset.candidates[c].candidate_id, dataset.platforms[p].platform_id)
                for c, p in zip(rows["candidate"], rows["platform"], strict=True)
            }


@given(st.lists(st.booleans(), max_size=30))
def test_runs_name_any_rows(taken: list[bool]) -> None:
    mask = np.array(taken, dtype=np.bool_)
    assert taken_by(run_lengths(mask), len(mask)).tolist() == taken


def test_another_split_of_a_name_is_refused_unless_forced(built: Path) -> None:
    first, _ = make(built, SplitRecipe("random"))
    data = first.read_bytes()
    with pytest.raises(CostModelError, match=r"contains another one\. Choose another name"):
        make(built, SplitRecipe("random", seed=1))
    assert first.read_bytes() == data
    make(built, SplitRecipe("random", seed=1), force=True)
    assert read_split(load_dataset(built), "mine").recipe.seed == 1
    make(built, SplitRecipe("random"), "other")
    sums = (built / "SHA256SUMS").read_text()
    assert sums.count("splits/mine.json") == sums.count("splits/other.json") == 1


@pytest.mark.parametrize("name", ["", "../mine", "a/b", ".hidden", "random", "few-shot", "a b", "a\n"])
def test_names_stay_in_the_folder_and_apart_from_strategies(built: Path, name: str) -> None:
    dataset = load_dataset(built)
    split = replace(make_split(dataset, SplitRecipe("random")), name=name)
    with pytest.raises(CostModelError, match="name of a split must consist of letters"):
        write_split(dataset, split)
    assert not (built / "splits").exists()
    with pytest.raises(CostModelError, match=r"A split must be one of .* \(there are none\)"):
        read_split(dataset, name)


def test_unknown_names_tell_the_known_ones(built: Path) -> None:
    make(built, SplitRecipe("random"), "b")
    make(built, SplitRecipe("random"), "a")
    with pytest.raises(CostModelError, match=r"leave-one-workload-out.*\(a, b\), but got 'c'"):
        read_split(load_dataset(built), "c")


def test_a_changed_dataset_is_refused(built: Path) -> None:
    make(built, SplitRecipe("random"))
    file = built / "measurements.parquet"
    table = pq.read_table(file)
    pq.write_table(table.slice(0, table.num_rows - 1), file)
    (built / "SHA256SUMS").unlink()
    with pytest.raises(
        CostModelError, match=r"the dataset has changed since\. Restore the earlier dataset, or write"
    ):
        read_split(load_dataset(built), "mine")


def test_a_changed_split_is_noticed_by_its_checksum(built: Path) -> None:
    file, _ = make(built, SplitRecipe("random"))
    file.write_bytes(file.read_bytes().replace(b'"share":0.2', b'"share":0.3'))
    with pytest.raises(CostModelError, match=r"mine\.json must match its checksum in SHA256SUMS"):
        read_split(load_dataset(built), "mine")
    load_dataset(built)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "must be of version 1, but is of version 2"),
        ({"rows": 5}, "rows must be"),
        ({"strategy": "by-magic"}, "A split must be one of"),
        ({"parameters": {"luck": 7}}, "must be a split, but: .*luck"),
        ({"parameters": {"share": "most"}}, "must be a split, but: "),
        ({"folds": [{"held_out": "x", "test": [0, -1]}]}, "runs must be at least 0"),
        ({"folds": [{"held_out": "x", "test": [0, 10**9]}]}, "runs must be at least 0 and sum to"),
        ({"folds": [{"held_out": "x", "test": []}]}, "Both sides of a fold must have rows"),
        ({"folds": 1}, "must be a split, but: "),
        ({"strategy": "leave-one-workload-out", "parameters": {}}, "No held-out value may be on both sides"),
    ],
)
def test_a_damaged_split_without_checksums_is_an_error(built: Path, change: dict, message: str) -> None:
    file, _ = make(built, SplitRecipe("random"))
    (built / "SHA256SUMS").unlink()
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(CostModelError, match=message):
        read_split(load_dataset(built), "mine")
    file.write_bytes(b"\xff")
    with pytest.raises(CostModelError, match="must be a split, but"):
        read_split(load_dataset(built), "mine")


def test_sums_of_other_files_stay_as_they_were(built: Path) -> None:
    (built / "README.md").write_text("changed")
    before = set((built / "SHA256SUMS").read_text().splitlines())
    make(built, SplitRecipe("random"))
    assert before < set((built / "SHA256SUMS").read_text().splitlines())


def test_a_folder_that_cannot_be_written_is_one_error(built: Path) -> None:
    (built / "splits").write_text("a file")
    with pytest.raises(CostModelError, match=r"Cannot write .*mine\.json"):
        make(built, SplitRecipe("random"))


@pytest.fixture
def built_with_final(tmp_path: Path, header: CardHeader) -> Path:
    """A dataset of four shapes, one of which is kept for the final report."""
    with RecordStore(tmp_path / "a.jsonl") as store:
        store.append(
            [
                fake_measurement(f"matmul-m{m}-n64-k64", tile, sms)
                for m, tile, sms in product((16, 32, 64, 128), (1, 2, 4), (8, 32))
            ]
        )
    built = build_dataset([tmp_path / "a.jsonl"], tmp_path / "built", header=header).path
    write_final_shapes(load_dataset(built))
    return built


def test_a_final_report_judges_by_what_no_other_split_has_seen(built_with_final: Path) -> None:
    dataset = load_dataset(built_with_final)
    final = make_split(dataset, SplitRecipe(FINAL_REPORT))
    (fold,) = final.folds
    kept = set(dataset.rows["workload"].iloc[fold.test])
    assert 0 < len(kept) < len(dataset.workloads)
    assert set(dataset.rows["workload"].iloc[fold.train]) == set(dataset.workloads) - kept
    for recipe in (
        SplitRecipe("leave-one-budget-out"),
        SplitRecipe("random"),
        SplitRecipe("few-shot", shots=1, base="leave-one-budget-out"),
    ):
        split = make_split(dataset, recipe, "mine")
        write_split(dataset, split, force=True)
        for each in (split, read_split(dataset, "mine")):
            for one in each.folds:
                rows = np.concatenate([one.train, one.test])
                assert not set(dataset.rows["workload"].iloc[rows]) & kept
    with pytest.raises(CostModelError, match="may be in no other split"):
        check_split(dataset, Split("x", SplitRecipe("random"), (), (fold,)))


def test_what_is_kept_is_left_out_where_all_else_stays(built_with_final: Path) -> None:
    whole = load_dataset(built_with_final)
    (fold,) = make_split(whole, SplitRecipe(FINAL_REPORT)).folds
    rest = drop_final_report(whole)
    assert set(rest.workloads) == set(whole.rows["workload"].iloc[fold.train])
    assert rest.to_measurements() == [
        measured for measured in whole.to_measurements() if measured.candidate.workload.name in rest.workloads
    ]
    assert drop_final_report(rest) is rest


def test_a_dataset_that_keeps_nothing_has_no_final_report(built: Path) -> None:
    with pytest.raises(CostModelError, match="but it reserves none"):
        make_split(load_dataset(built), SplitRecipe(FINAL_REPORT))


def test_sm_budgets_keeps_a_third_of_its_shapes_by_hash() -> None:
    folder = find_dataset("sm-budgets")
    names = pd.read_parquet(folder / "measurements.parquet", columns=["workload"])["workload"].unique()
    kept = json.loads((folder / "final_report.json").read_text())
    assert {family: tuple(shapes) for family, shapes in kept.items()} == choose_final_shapes(names)
    shapes = {Workload.parse(name).shape.name for name in names}
    assert sum(map(len, kept.values())) == pytest.approx(len(shapes) / 3, abs=1)
