import ast
import pkgutil
import re
import subprocess
import sys
import tomllib
import zlib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from command_line import MAIN, find, parse
from typer.core import TyperGroup
from typer.main import get_command

import costmodel
from costmodel.cli._app import app

pytestmark = pytest.mark.white_box

ROOT = Path(__file__).parents[1]
PACKAGES = [f"costmodel.{package.name}" for package in pkgutil.iter_modules(costmodel.__path__)]
BACKENDS = (
    "tvm",
    "tvm_ffi",
    "torch",
    "triton",
    "xgboost",
    "mlflow",
    "cuda",
    "pynvml",
    "kernel_tuner",
    "helion",
    "ray",
    "simpy",
)
# What replaying recorded measurements must do without: all that the extras bring.
EXTRAS = (*BACKENDS, "psutil", "pebble", "cloudpickle")


def python(code: str, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run code in a new interpreter."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False, cwd=cwd
    )


def command_names() -> Iterator[tuple[str, ...]]:
    """Every command that is not a group of others."""
    for name in get_command(app).list_commands(None):
        command, _ = find(name)
        subcommands = command.commands if isinstance(command, TyperGroup) else {}
        yield from ((name, sub) for sub in subcommands)
        if not subcommands:
            yield (name,)


def test_version_is_the_one_of_the_project_file() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert costmodel.__version__ == version("sm-costmodel") == project["version"]


def test_all_that_names_the_version_names_the_same() -> None:
    expected = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    data = tomllib.loads((ROOT / "datasets" / "pyproject.toml").read_text())["project"]["version"]
    cited = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    pages = [(ROOT / page).read_text() for page in ("CHANGELOG.md", "docs/release-notes.md")]
    newest = [re.search(r"^## (\d.*)$", page, re.MULTILINE) for page in pages]
    assert [data, *(found and found[1] for found in (cited, *newest))] == [expected] * 4


def test_the_distribution_is_small() -> None:
    """Under 9.7 MB as a wheel (10 at most), which compresses each file like this and adds 200 bytes."""
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    left_out = {path for pattern in (*wheel["exclude"], "**/__pycache__/*") for path in ROOT.glob(pattern)}
    files = [path for name in wheel["only-include"] for path in (ROOT / name).rglob("*") if path.is_file()]
    size = sum(200 + len(zlib.compress(path.read_bytes())) for path in files if path not in left_out)
    assert 5_000_000 < size < 9_700_000


@pytest.mark.parametrize("extra", ["tvm", "cuda", "triton"])
def test_an_extra_that_builds_kernels_brings_the_pool_that_builds_them(extra: str) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    names = {re.split("[<>=]", requirement)[0] for requirement in extras[extra]}
    assert "pebble" in names


def test_package_is_typed_for_its_users() -> None:
    assert Path(costmodel.__file__).with_name("py.typed").is_file()


def test_import_loads_nothing_heavy() -> None:
    heavy = (*BACKENDS, "optuna", "matplotlib", "pandas", "pyarrow", "sklearn")
    done = python(f"import sys, costmodel; print(sorted(set({heavy}) & set(sys.modules)))")
    assert done.stdout == "[]\n", done.stderr


def test_packages_load_no_backend() -> None:
    slow = (*BACKENDS, "matplotlib.pyplot")
    done = python(f"import sys, {', '.join(PACKAGES)}; print(sorted(set({slow}) & set(sys.modules)))")
    assert done.stdout == "[]\n", done.stderr


def test_what_every_command_and_worker_loads_is_without_scipy() -> None:
    """Which would take a third of a second of each."""
    slow = ("scipy", "sklearn", "matplotlib")
    packages = "costmodel.collector, costmodel.tuning"
    done = python(f"import sys, {packages}; print(sorted(set({slow}) & set(sys.modules)))")
    assert done.stdout == "[]\n", done.stderr


def test_make_tune_needs_no_extra(tmp_path: Path) -> None:
    makefile = (ROOT / "Makefile").read_text()
    workload, sms = (
        re.findall(rf"^{name} \?= (\S+)$", makefile, re.MULTILINE)[0] for name in ("WORKLOAD", "SMS")
    )
    code = f"import sys; sys.modules.update(dict.fromkeys({EXTRAS})); {MAIN}"
    done = python(code, "tune", workload, "--sms", sms, "--trials", "2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [file.name for file in (tmp_path / "out").iterdir()] == [f"tune-{workload}-{sms}sms.png"]


def test_help_of_the_installed_command() -> None:
    script = Path(sys.executable).with_name("costmodel")
    done = subprocess.run([script, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Usage: costmodel" in done.stdout


@pytest.mark.parametrize("names", list(command_names()), ids=" ".join)
def test_help_has_examples_that_parse(capsys: pytest.CaptureFixture[str], names: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as ended:
        app([*names, "--help"])
    assert ended.value.code == 0
    assert "Example" in capsys.readouterr().out
    examples = re.findall(r"`(costmodel [^`]+)`", find(*names)[0].help.partition("Example")[2])
    assert examples
    for example in examples:
        assert example.startswith(" ".join(["costmodel", *names]))
        parse(example)


def readme_python(word: str) -> str:
    """The one Python block of the README that holds the word."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (block,) = (block for block in blocks if word in block)
    return block


@pytest.mark.parametrize(("plug_in", "word"), [("tvm", "tuning_options"), ("kernel_tuner", "tune_kernel")])
def test_lines_for_a_plug_in_are_those_of_its_docstring(plug_in: str, word: str) -> None:
    source = (ROOT / "costmodel" / "integrations" / plug_in / "__init__.py").read_text()
    assert readme_python(word) in (ast.get_docstring(ast.parse(source)) or "")
