"""The question of matrix products: which back end and kernel, of model families that were never measured."""

import re
from collections.abc import Sequence

import msgspec
import numpy as np
import pandas as pd

from costmodel.arrays import FloatArray
from costmodel.benchmark._question import ASKED, KNOWN, AnswerKey, BenchQuestion, Posed, draw_names, short_ids
from costmodel.columns import Column, Group
from costmodel.dataset.table._files import check_checksum, hash_file
from costmodel.errors import CostModelError
from costmodel.files import find_shipped
from costmodel.products._columns import COLUMNS, kernel_columns
from costmodel.products._core import Rates, time_terms
from costmodel.products._measured import kernel_of, read_timed
from costmodel.products._product import Kernel, Product
from costmodel.reading import refusing

DATASET, DEVICE, WHOLE_SMS = "products-sm-budgets", "NVIDIA H200", 132
_FILE = "h200.parquet"
_SMS = (16, 64, 132)  # that are asked; the dataset has three more
_SHARE = 1 / 3  # of the products, by the hash of their names
_HELD_OUT = 1 / 3  # of the families
# An H200 by its datasheet and by hand: rates that are fitted have seen what is asked.
_FLOPS = {
    "float16": 7.3e12, "bfloat16": 7.3e12, "tfloat32": 3.6e12, "float32": 4.5e11, "float8_e4m3": 1.4e13,
    "int8": 1.4e13,
}  # fmt: skip
_SMS_AT_FULL_CLOCK = 100
# Columns that say what follows from a kernel and its product, and not what was chosen.
_DERIVED = {
    "compute", "l2", "latency", "memory", "sums", "total", "waves", "per_sm", "tiles", "slabs", "programs",
    "padding", "idle", "programs_per_sm_of_device", "ragged_k",
}  # fmt: skip
_OF_PRODUCT = {
    "log_m", "log_n", "log_k", "log_batch", "log_sms", "log_intensity", "dtype", "a_t", "b_t", "odd_operands",
    "odd_results", "epilogue",
}  # fmt: skip
_NAME = re.compile(r"product-m(\d+)-n(\d+)-k(\d+)-b(\d+)-(\w+)-(\w+)-(\w*)")


def pose_products(name: str, salt: str) -> Posed:
    """Choose kernels of PyTorch, cuBLASLt and Triton for products of families that were never measured.

    Args:
        name: Name of the question.
        salt: Salt of all that is drawn.

    Raises:
        CostModelError: The dataset is not there or damaged.
    """
    rows, kernels, sha256 = _read(salt)
    features = np.empty((len(rows), len(COLUMNS)))
    workloads, granted = rows["workload"].tolist(), rows["sms_granted"].tolist()
    for places in rows.groupby("task", sort=False).indices.values():
        product, own = parse_product(workloads[places[0]]), [kernels[i] for i in places]
        sms = granted[places[0]]
        terms = time_terms(product, own, sms, _rates(product.dtype), WHOLE_SMS)
        features[places] = kernel_columns(product, own, sms, terms)
    families = sorted(rows["kind"].unique())
    draws = dict(zip(families, draw_names(families, salt), strict=True))
    rows["role"] = np.where(rows["kind"].map(draws) < _HELD_OUT, ASKED, KNOWN)
    asked = (rows["role"] == ASKED).to_numpy()
    whole_s = _whole_s(rows)[asked]
    key = AnswerKey(rows["latency_s"].to_numpy(np.float64)[asked], whole_s)
    rows.loc[asked, "latency_s"] = np.nan
    columns = tuple(Column(f"product/{each}", "1", _group(each)) for each in COLUMNS)
    return Posed(BenchQuestion(name, rows, features, columns), key, {DATASET: sha256})


def _group(column: str) -> Group:
    if column in _DERIVED:
        return "launch"
    return "workload" if column in _OF_PRODUCT else "config"


def parse_product(workload: str) -> Product:
    """Return the product of a workload's name."""
    found = _NAME.fullmatch(workload)
    assert found, workload
    m, n, k, batch, dtype, layout, epilogue = found.groups()
    return Product(int(m), int(n), int(k), int(batch), dtype, layout, epilogue)


def product_kernels(configs: Sequence[str]) -> list[Kernel]:
    """Return the kernels of configs."""
    return [Kernel(**msgspec.json.decode(config)) for config in configs]


def _read(salt: str) -> tuple[pd.DataFrame, list[Kernel], str]:
    """Rows of a question without roles, the kernel of each, and the hash of their file."""
    folder = find_shipped("datasets", DATASET)
    if folder is None:
        raise CostModelError(
            f"The question needs the dataset {DATASET}, but it is not there. It is in the distribution of "
            "the larger datasets (`pip install ./datasets`)."
        )
    check_checksum(folder, _FILE)
    with refusing(folder / _FILE, "a table of products", "Download it again."):
        table = read_timed(folder / _FILE)
    table = table[table.sms.isin(_SMS)]
    sizes = ("m", "n", "k", "batch", "dtype", "layout", "epilogue")
    names = (
        "product-m{}-n{}-k{}-b{}-{}-{}-{}".format(*each) for each in zip(*map(table.get, sizes), strict=True)
    )
    table["workload"] = list(names)
    table = table[table.family == table.groupby("workload").family.transform("first")]  # of one model
    distinct = table["workload"].unique()
    drawn = dict(zip(distinct, draw_names(distinct, f"{salt}/products"), strict=True))
    table = table[table["workload"].map(drawn) < _SHARE].reset_index(drop=True)
    kernels = [kernel_of(each) for each in table.to_dict("records")]
    configs = [msgspec.json.encode(each._asdict()).decode() for each in kernels]
    tasks = [f"{name}@{DEVICE}/{sms}" for name, sms in zip(table["workload"], table["sms"], strict=True)]
    rows = pd.DataFrame(
        {
            "id": short_ids(f"{task}/{config}" for task, config in zip(tasks, configs, strict=True)),
            "task": tasks,
            "workload": table["workload"],
            "kind": table["family"].astype(str),
            "device": DEVICE,
            "sms_granted": table["sms"].astype(np.int64),
            "config": configs,
            "latency_s": table["seconds"].astype(np.float64),
        }
    )
    first = ~rows["id"].duplicated().to_numpy()  # algorithms that differ in what is not known of them
    return (
        rows[first].reset_index(drop=True),
        [kernels[i] for i in np.flatnonzero(first)],
        hash_file(folder / _FILE),
    )


def _rates(dtype: str) -> Rates:
    return Rates(
        flops_per_sm=_FLOPS[dtype],
        flops_per_s=_FLOPS[dtype] * _SMS_AT_FULL_CLOCK,
        l2_bytes_per_sm=1e11,
        l2_bytes_per_s=1e13,
        memory_bytes_per_s=4.2e12,
        memory_bytes_per_sm=8e10,
        latency_s=7e-7,
        start_s=6e-7,
        launch_s=2e-6,
        l2_bytes=60 << 20,
    )


def _whole_s(rows: pd.DataFrame) -> FloatArray:
    """``(n,)`` latency of each kernel on the whole GPU; inf where it was not measured."""
    keys = ["workload", "config"]
    whole = rows[rows["sms_granted"] == WHOLE_SMS].set_index(keys)["latency_s"]
    return rows[keys].join(whole, on=keys)["latency_s"].fillna(np.inf).to_numpy(np.float64)
