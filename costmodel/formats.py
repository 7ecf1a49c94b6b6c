"""What a file looks like, by its first bytes: so that an error can name the format that a file is of."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

HEAD_BYTES = 64 * 2**10
# What stands first, behind comments: a table or a key; an item or a key.
_YAML = re.compile(r"(?:\s*#[^\n]*\n)*\s*(?:---|- \w|[\w.\"-]+:\s)")
_PART = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:]')


@dataclass(frozen=True)
class Head:
    """The first bytes of a file, unpacked."""

    data: bytes

    @cached_property
    def text(self) -> str:
        """What they are as text, without the space before it."""
        return self.data.decode("utf-8-sig", "replace").lstrip()

    @cached_property
    def keys(self) -> frozenset[str]:
        """Keys of the JSON object that they begin with; empty where they begin with none."""
        return frozenset(_keys(self.text)) if self.text.startswith("{") else frozenset()

    @cached_property
    def first_line(self) -> str:
        """The first line that is not empty."""
        return self.text.partition("\n")[0].rstrip()

    def has(self, *keys: str) -> bool:
        """Tell whether they begin with a JSON object that has all of these keys."""
        return self.keys.issuperset(keys)

    def begins(self, *texts: str) -> bool:
        """Tell whether the text begins with one of these, whatever its case."""
        return self.text[:200].lower().startswith(texts)


@dataclass(frozen=True)
class FileFormat:
    """A format that people hold.

    Attributes:
        key: Short name, for programs.
        name: What such a file is, with an article.
        use: What can be done with it, as a sentence.
        is_of: Whether a file is of it, by its head.
    """

    key: str
    name: str
    use: str
    is_of: Callable[[Head], bool]


_BUILD = "`costmodel dataset build FILE --out FOLDER` makes a dataset of it."
_PLAN = "`costmodel plan FILE` reads it."
_TABLE = (
    "With a map of its columns, `costmodel dataset build FILE --columns map.toml --out FOLDER` reads "
    "measurements, and `costmodel model predict MODEL WORKLOAD FILE --columns map.toml` ranks configs."
)
_BEST_ONLY = "`costmodel dataset validate FILE` reads its choices, which have no timings to learn from."

# A file looks like the first that it is of: those that are told by more stand before those told by less.
FORMATS = (
    FileFormat(
        "tvm-database",
        "a database of costmodel's options for TVM",
        _BUILD,
        lambda h: bool(re.search(r'^\{"crc32":[^{]*\{"type": ?"(program|measured)"', h.text, re.MULTILINE)),
    ),
    FileFormat(
        "record-store",
        "a record store",
        _BUILD,
        # Also one of which a kill left the beginning of its first line.
        lambda h: bool(re.search(r'^\{"crc32"|^\{"c?r?c?3?2?$', h.text, re.MULTILINE)),
    ),
    FileFormat(
        "kernel-tuner-cache",
        "a cache of Kernel Tuner",
        _BUILD,
        lambda h: h.has("tune_params_keys") or h.has("cache"),
    ),
    FileFormat(
        "t4",
        "results in T4",
        _BUILD,
        lambda h: h.has("results") and (h.has("schema_version") or '"invalidity"' in h.text),
    ),
    FileFormat(
        "t1",
        "a T1 description of a kernel",
        "`costmodel kernels check FILE` and `--source FILE` read it.",
        lambda h: h.has("ConfigurationSpace"),
    ),
    FileFormat(
        "auto-scheduler-log",
        "a log of TVM's auto-scheduler",
        _BUILD,
        lambda h: h.has("i", "r", "v") or bool(re.match(r'(?:#.*\n)*\s*\{\s*"i"\s*:', h.text)),
    ),
    FileFormat(
        "autotvm-log",
        "a log of AutoTVM",
        _BUILD,
        lambda h: h.has("input", "config", "result") or bool(re.match(r'\{\s*"input"\s*:\s*\[', h.text)),
    ),
    FileFormat("triton-autotune", "a cache of triton.autotune", _BUILD, lambda h: h.has("configs_timings")),
    FileFormat(
        "moe-configs",
        "a file of best configs of a fused MoE kernel",
        _BEST_ONLY,
        lambda h: "BLOCK_SIZE_M" in h.text and any(key.isdigit() for key in h.keys),
    ),
    FileFormat("ktt", "results of KTT", _BUILD, lambda h: h.has("Metadata", "Results")),
    FileFormat(
        "dispatch-table",
        "a dispatch table",
        "`costmodel.load_dispatch_table` reads it.",
        lambda h: h.has("workload", "device", "objective"),
    ),
    FileFormat("nvbench", "results of nvbench", _BUILD, lambda h: h.has("benchmarks", "devices")),
    FileFormat("kernel-graph", "a kernel graph", _PLAN, lambda h: h.has("tasks")),
    FileFormat(
        "chrome-trace",
        "a trace of PyTorch's profiler",
        _PLAN,
        lambda h: h.has("traceEvents") or (h.begins("[") and '"ph"' in h.text[:4096]),
    ),
    FileFormat(
        "placement",
        "a placement problem of dnn-partitioning",
        "`costmodel place FILE` reads it.",
        lambda h: h.has("maxSizePerFPGA") or h.has("fpgas", "cpus"),
    ),
    FileFormat(
        "tvm-program",
        "a program that tvm.ir.save_json wrote",
        "`costmodel tune FILE` tunes it, and `costmodel plan FILE` reads a Relax module.",
        lambda h: h.has("root_index"),
    ),
    FileFormat(
        "metaschedule",
        "a database of MetaSchedule",
        _BUILD,
        lambda h: bool(re.search(r'^\[\s*("[^"\n]*"|[-\w.]+)\s*,\s*\[', h.text, re.MULTILINE)),
    ),
    FileFormat(
        "metaschedule-programs",
        "the programs of a database of MetaSchedule",
        _BUILD,
        lambda h: bool(re.match(r'\[\s*"-?\d+"\s*,\s*"', h.text)),
    ),
    FileFormat(
        "parquet",
        "a Parquet file",
        "`costmodel dataset build` and `costmodel evaluate` read those of costmodel.",
        lambda h: h.data.startswith(b"PAR1"),
    ),
    FileFormat(
        "tunableop",
        "results of PyTorch's TunableOp",
        _BUILD,
        lambda h: h.begins("validator,") or bool(re.match(r"\w*Gemm\w*TunableOp_\w+,", h.text)),
    ),
    FileFormat(
        "ncu",
        "a table of Nsight Compute",
        _BUILD,
        lambda h: '"Kernel Name"' in h.text and ('"ID"' in h.text or h.begins("==prof==")),
    ),
    FileFormat(
        "nsys",
        "a table of Nsight Systems",
        _PLAN,
        lambda h: bool(re.match(r'"?(API )?Start \(\w+\)"?,', h.first_line)),
    ),
    FileFormat(
        "rocprof",
        "a table of kernels of rocprof",
        _PLAN,
        lambda h: bool(re.search(r'\bkernel_?name"?,.*\b(start_timestamp|beginns)\b', h.first_line.lower())),
    ),
    FileFormat(
        "cutlass-profiler",
        "output of cutlass_profiler",
        _BUILD,
        lambda h: bool(
            re.search(
                r"^([^\n]*,)?Problem,Provider,OperationKind,|^=+\s+Problem ID: \d+\s+Provider: ",
                h.text,
                re.MULTILINE,
            )
        ),
    ),
    FileFormat(
        "nvbench-table",
        "output of nvbench",
        _BUILD,
        lambda h: bool(
            re.search(
                r"^(# (Devices|Benchmark Results)\s*$|Benchmark,Device,Device Name,)", h.text, re.MULTILINE
            )
        ),
    ),
    FileFormat(
        "workbook",
        "a workbook of a spreadsheet",
        "Save its sheet as CSV.",
        lambda h: h.data.startswith(b"PK\x03\x04") and b"[Content_Types].xml" in h.data,
    ),
    FileFormat(
        "packed",
        "a file packed by zstd, bzip2 or xz",
        "Unpack it first: gzip alone is unpacked here.",
        lambda h: h.data.startswith((b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ\0")),
    ),
    FileFormat(
        "archive",
        "an archive of several files",
        "Unpack it first, and name one of them.",
        lambda h: h.data[257:262] == b"ustar" or h.data.startswith((b"7z\xbc\xaf", b"Rar!")),
    ),
    FileFormat(
        "picture",
        "a picture",
        "Name the file with the numbers that it shows.",
        lambda h: h.data.startswith((b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"%PDF")),
    ),
    FileFormat(
        "safetensors",
        "tensors of a network",
        "Its kernels are known by a trace of a run.",
        lambda h: h.data[8:10] == b'{"' and int.from_bytes(h.data[:8], "little") < 2**32,
    ),
    FileFormat(
        "model",
        "a zip file, as those of models are",
        "`costmodel model info FILE` reads models.",
        lambda h: h.data.startswith(b"PK\x03\x04"),
    ),
    FileFormat(
        "profiler-database",
        "a database of Nsight Systems or of ROCm's profilers",
        _PLAN,
        lambda h: h.begins("sqlite format") and bool(re.search(rb"CUPTI_ACTIVITY|StringIds|rocpd_", h.data)),
    ),
    FileFormat(
        "sqlite",
        "an SQLite database",
        "`--store FILE` reads those of jobs.",
        lambda h: h.begins("sqlite format"),
    ),
    FileFormat(
        "git-lfs",
        "a pointer of Git LFS",
        "Get the file that it stands for with `git lfs pull`.",
        lambda h: h.begins("version https://git-lfs"),
    ),
    FileFormat(
        "web-page",
        "a web page",
        "Download the file itself, not the page that shows it.",
        lambda h: h.begins("<!doctype html", "<html"),
    ),
    FileFormat(
        "ncu-report",
        "a report of Nsight Compute",
        "Export a table: `ncu --import FILE --csv`.",
        lambda h: h.data.startswith(b"NVR\0"),
    ),
    FileFormat(
        "pickle",
        "a pickle of Python",
        "It is never read, as it could run any code.",
        lambda h: h.data[:1] == b"\x80" and h.data[1:2] in b"\2\3\4\5",
    ),
    FileFormat(
        "program",
        "a compiled program",
        "",
        lambda h: h.data.startswith((b"\x7fELF", b"MZ", b"\xcf\xfa\xed\xfe")),
    ),
    FileFormat("numpy", "an array of NumPy", "", lambda h: h.data.startswith(b"\x93NUMPY")),
    FileFormat("hdf5", "an HDF5 file", _TABLE, lambda h: h.data.startswith(b"\x89HDF")),
    FileFormat(
        "utf-16",
        "text in UTF-16",
        "Save it as UTF-8.",
        lambda h: h.data.startswith((b"\xff\xfe", b"\xfe\xff")),
    ),
    FileFormat("xml", "an XML file", "", lambda h: h.begins("<?xml")),
    FileFormat(
        "toml",
        "TOML",
        "",
        lambda h: bool(
            re.match(r"(#.*\n|\s)*(\[\[?[\w.\"-]+\]\]?\s*$|[\w\"-]+ *= *\S)", h.text, re.MULTILINE)
        ),
    ),
    FileFormat(
        "python",
        "a program in Python",
        "Files of measurements hold data only; a kernel or a program in one is named: `FILE:NAME`.",
        lambda h: bool(
            re.match(
                r"(#.*\n|\s)*([rR]?\"\"\"|import \w|from [\w.]+ import |def \w+\(|@\w|class \w+)", h.text
            )
        ),
    ),
    FileFormat(
        "json", "JSON of another kind", "", lambda h: bool(re.match(r"[{\[]\s*[\"{\[\]}\d-]", h.text))
    ),
    FileFormat(
        "yaml",
        "YAML",
        "Write what it says as TOML or JSON.",
        lambda h: bool(_YAML.match(h.text)),
    ),
    FileFormat(
        "csv", "a CSV file", _TABLE, lambda h: "\0" not in h.text and bool(re.search(r"[,;\t]", h.first_line))
    ),
)


def detect_format(head: bytes) -> FileFormat | None:
    """Find the format that a file looks to be of.

    Args:
        head: Its first ``HEAD_BYTES`` bytes, unpacked.

    Returns:
        The format; None if it looks like none that is known.

    Example:
        >>> detect_format(b'{"traceEvents": [').key
        'chrome-trace'
    """
    first = Head(head)
    return next((each for each in FORMATS if each.is_of(first)), None)


def _keys(text: str) -> list[str]:
    """The keys of the object that a text of JSON begins with, as far as it goes."""
    keys: list[str] = []
    depth, before = 0, ""
    for found in _PART.finditer(text):
        part = found[0]
        if part == ":" and depth == 1 and before.startswith('"'):
            keys.append(before[1:-1])
        depth += (part in ("{", "[")) - (part in ("}", "]"))
        if depth == 0:
            break
        before = part
    return keys
