import hashlib
import tomllib
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest
from fake_caches import fake_cache, write_cache
from fake_records import fake_measurement, fake_measurements

from costmodel.dataset import (
    CardHeader,
    append_dataset,
    build_dataset,
    export_dataset,
    load_dataset,
    merge_datasets,
    read_files,
)
from costmodel.dataset.publish._card import read_card_header
from costmodel.errors import CostModelError
from costmodel.records import Measurement, RecordStore, Workload

pytestmark = pytest.mark.white_box

PICTURES = {"budget_gap.png", "noise.png", "coverage.png"}
FILES = {"measurements.parquet", "README.md", "card.html", "SHA256SUMS", *PICTURES}


def write_store(path: Path, records: list[Measurement]) -> Path:
    with RecordStore(path) as store:
        store.append(records)
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_same_records_same_bytes_in_whatever_order(tmp_path: Path, header: CardHeader) -> None:
    records = list(fake_measurements())
    half = write_store(tmp_path / "half.jsonl", records[:40])
    rest = write_store(tmp_path / "rest.jsonl", records[40:])
    backwards = write_store(tmp_path / "backwards.jsonl", records[::-1])
    first = build_dataset([half, rest], tmp_path / "first", header=header)
    second = build_dataset([backwards, rest], tmp_path / "second", header=header)
    assert contents(first.path) == contents(second.path)
    assert contents(first.path).keys() == FILES
    assert first.sha256 == second.sha256
    assert (first.duplicates, second.duplicates) == (0, len(records) - 40)
    build_dataset([half, rest], first.path, header=header, force=True)
    assert contents(first.path) == contents(second.path)


def test_rows_are_sorted(built: Path) -> None:
    dataset = load_dataset(built)
    keys = [
        (m.candidate.workload.name, m.candidate.candidate_id, m.platform.sms_granted, m.visit)
        for m in dataset.to_measurements()
    ]
    assert keys == sorted(keys)


def test_checksums_are_those_of_sha256sum(built: Path) -> None:
    lines = (built / "SHA256SUMS").read_text().splitlines()
    assert lines == [
        f"{hashlib.sha256((built / name).read_bytes()).hexdigest()}  {name}"
        for name in sorted(FILES - {"SHA256SUMS"})
    ]


def test_rejects_are_written_with_their_reason_and_go_when_there_are_none(
    tmp_path: Path, header: CardHeader
) -> None:
    good, bad = fake_measurement(), msgspec.structs.replace(fake_measurement(tile=2), visit=7)
    out = tmp_path / "out"
    report = build_dataset([write_store(tmp_path / "a.jsonl", [good, bad])], out, header=header)
    reason = "visit must be 0 or 1, but got 7"
    assert (report.records, report.measurements, report.rejects) == (2, 1, {reason: 1})
    (line,) = (out / "rejects.jsonl").read_bytes().splitlines()
    reject = msgspec.json.decode(line)
    assert reject["reason"] == reason
    assert msgspec.convert(reject["record"], Measurement) == bad
    build_dataset([write_store(tmp_path / "b.jsonl", [good])], out, header=header, force=True)
    assert not (out / "rejects.jsonl").exists()


def test_a_dataset_is_replaced_where_that_is_asked_for(tmp_path: Path, header: CardHeader) -> None:
    old, new = (write_store(tmp_path / f"{tile}.jsonl", [fake_measurement(tile=tile)]) for tile in (1, 2))
    out = tmp_path / "out"
    build_dataset([old], out, header=header)
    before = contents(out)
    other = build_dataset([new], tmp_path / "other", header=header).path
    for write, source in ((build_dataset, new), (merge_datasets, other)):
        with pytest.raises(CostModelError, match=r"out has one, .* \(--force\), or .* dataset append"):
            write([source], out, header=header)
        assert contents(out) == before
    build_dataset([new], out, header=header, force=True)
    assert contents(out) != before


def test_paths_may_be_texts_and_a_file_may_be_alone(
    tmp_path: Path, header: CardHeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with RecordStore("a.jsonl") as store:
        store.append([fake_measurement()])
    assert build_dataset("a.jsonl", "one", header=header).measurements == 1
    assert merge_datasets(["one"], "two", header=header, partition_by="device").measurements == 1
    assert append_dataset("two", "a.jsonl").duplicates == 1
    assert len(export_dataset("two", "three", "t4").files) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"files": 3}, "files must be a path, but got 3"),
        ({"out": None}, "out must be a path, but got None"),
        ({"header": None}, "header must be a CardHeader"),
    ],
)
def test_arguments_are_checked_before_any_work(
    tmp_path: Path, header: CardHeader, arguments: dict[str, object], message: str
) -> None:
    usual = {"files": [tmp_path / "a.jsonl"], "out": tmp_path / "out", "header": header}
    with pytest.raises(CostModelError, match=message):
        build_dataset(**(usual | arguments))


def test_what_a_build_left_that_was_cut_off_is_replaced(tmp_path: Path, header: CardHeader) -> None:
    store = write_store(tmp_path / "a.jsonl", [fake_measurement()])
    out = tmp_path / "out"
    build_dataset([store], out, header=header)
    before = contents(out)
    (out / "SHA256SUMS").unlink()
    build_dataset([store], out, header=header)
    assert contents(out) == before


def test_anyone_can_build_what_published_datasets_leave_out(tmp_path: Path, header: CardHeader) -> None:
    """Such as the matrix products of BERT, which are kept for blind tests."""
    one = fake_measurement()
    candidate = msgspec.structs.replace(one.candidate, workload=Workload.parse("matmul-m384-n1024-k1024"))
    store = write_store(tmp_path / "a.jsonl", [msgspec.structs.replace(one, candidate=candidate)])
    assert build_dataset([store], tmp_path / "out", header=header).measurements == 1


def test_no_usable_record(tmp_path: Path, header: CardHeader) -> None:
    bad = msgspec.structs.replace(fake_measurement(), visit=7)
    with pytest.raises(CostModelError, match="1 of 1 records were rejected, the first because visit must be"):
        build_dataset([write_store(tmp_path / "a.jsonl", [bad])], tmp_path / "out", header=header)
    with pytest.raises(CostModelError, match="has no complete record"):
        build_dataset([write_store(tmp_path / "b.jsonl", [])], tmp_path / "out", header=header)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written(store: Path, tmp_path: Path, header: CardHeader) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CostModelError, match="Cannot write"):
        build_dataset([store], tmp_path / "file", header=header)


def test_a_folder_may_look_like_an_address(
    store: Path, tmp_path: Path, header: CardHeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    build_dataset([store], Path("http:/x"), header=header)
    assert len(load_dataset(Path("http:/x")).rows) == len(load_dataset(tmp_path / "http:" / "x").rows) > 0


def test_a_readme_that_is_no_card_is_kept(store: Path, tmp_path: Path, header: CardHeader) -> None:
    out = tmp_path / "project"
    out.mkdir()
    (out / "README.md").write_text("my project")
    with pytest.raises(CostModelError, match="project has a README"):
        build_dataset([store], out, header=header)
    assert [(file.name, file.read_text()) for file in out.iterdir()] == [("README.md", "my project")]


def test_the_card_says_what_the_data_say(built: Path) -> None:
    card = (built / "README.md").read_text()
    for text in (
        "# Fake kernels\n",
        "CC-BY-4.0",
        "Nobody, 2026.",
        "Not real.",
        "SHA256SUMS",
        "- driver: 580.1",
    ):
        assert text in card
    assert "| measurements | 84 |" in card
    assert "| Test GPU/green_context/8 | 18 | 3 |" in card
    assert "| `latencies_s` | s |" in card
    assert "{" not in card
    tables = [block.splitlines() for block in card.split("\n\n") if block.startswith("|")]
    assert len(tables) == 7
    assert all(len({line.count("|") for line in table}) == 1 for table in tables)


class _Page(HTMLParser):
    """Pictures, rows of tables and headings of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.pictures: set[str] = set()
        self.tags: Counter[str] = Counter()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        if tag == "img":
            self.pictures.add(str(dict(attrs)["src"]))


def test_the_page_shows_what_the_card_says(store: Path, tmp_path: Path, header: CardHeader) -> None:
    header = msgspec.structs.replace(header, title="A <title>", limits="No <script>alert(1)</script> here.")
    out = build_dataset([store], tmp_path / "out", header=header).path
    card, page = (out / "README.md").read_text(), _Page()
    text = (out / "card.html").read_text()
    page.feed(text)
    assert page.pictures == PICTURES
    assert page.tags["h2"] == card.count("\n## ")
    rows = [line for line in card.splitlines() if line.startswith("|")]
    assert page.tags["tr"] == sum(not line.startswith("| ---") for line in rows)
    assert page.tags["script"] == 0
    assert "<title>A &lt;title&gt;</title>" in text


def test_card_header_round_trip(tmp_path: Path, header: CardHeader) -> None:
    file = tmp_path / "card.toml"
    file.write_text("\n".join(f'{key} = "{text}"' for key, text in msgspec.structs.asdict(header).items()))
    assert tomllib.loads(file.read_text())["licence"] == "CC-BY-4.0"
    assert read_card_header(file) == header


@pytest.mark.parametrize("text", ["title = ", 'title = "only"', 'nonsense = "x"', "title = 1"])
def test_a_wrong_card_header(tmp_path: Path, text: str) -> None:
    file = tmp_path / "card.toml"
    file.write_text(text)
    with pytest.raises(
        CostModelError, match="must be a card in TOML with the texts title, summary, method, limits"
    ):
        read_card_header(file)


def test_a_missing_card_header(tmp_path: Path) -> None:
    with pytest.raises(
        CostModelError, match=r"Cannot read .* A card has a line for each of title, summary, "
    ):
        read_card_header(tmp_path / "card.toml")


def test_names_are_not_read_as_mathematics(tmp_path: Path, header: CardHeader) -> None:
    """Nor do dollars in the name of a device end a build."""
    one = fake_measurement()
    device = msgspec.structs.replace(one.platform.device, name=r"GPU $\frac{1}$ for $5")
    platform = msgspec.structs.replace(one.platform, device=device)
    store = write_store(tmp_path / "a.jsonl", [msgspec.structs.replace(one, platform=platform)])
    built = build_dataset([store], tmp_path / "out", header=header)
    assert "GPU $" in (built.path / "README.md").read_text()
    assert (built.path / "coverage.png").read_bytes().startswith(b"\x89PNG")


def test_files_are_read_together_without_writing(tmp_path: Path) -> None:
    paths = [write_cache(tmp_path / f"{name}.json", fake_cache(f"NVIDIA {name}")) for name in "AB"]
    both = read_files(paths)
    assert (len(both.measurements), both.devices) == (24, ("NVIDIA A", "NVIDIA B"))
    assert read_files([both]) is both
    with_another = read_files([read_files(paths[:1]), str(paths[1])])
    assert with_another.rows["latency_s"].tolist() == both.rows["latency_s"].tolist()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["A.json", "B.json"]
    with pytest.raises(CostModelError, match=r"nowhere\.json is not there"):
        read_files([tmp_path / "nowhere.json"])
