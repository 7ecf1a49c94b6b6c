"""A bundle carries measurements to another store, whole and each once."""

from pathlib import Path

import pytest
from fake_records import DEVICE, fake_measurement, fake_platform
from msgspec.structs import replace

from costmodel.errors import CostModelError
from costmodel.records import Measurement, read_records
from costmodel.records._bundle import export_bundle, import_bundle
from costmodel.records._store import SharedRecordStore

pytestmark = pytest.mark.white_box

OTHER = replace(fake_platform(), software={"driver": "590.1"}, device=replace(DEVICE, name="Other GPU"))


def made(tile: int, driver: str = "580.1", latency_s: float = 1e-3) -> Measurement:
    """A measurement with another driver, under which the same config has another latency."""
    one = fake_measurement(tile=tile)
    software = {**one.platform.software, "driver": driver}
    return replace(one, platform=replace(one.platform, software=software), latencies_s=(latency_s,))


def store_of(path: Path, *measurements: Measurement) -> Path:
    SharedRecordStore(path).add(measurements)
    return path


@pytest.mark.parametrize("name", ["into.jsonl", "into.db"])
def test_what_is_exported_arrives_once(tmp_path: Path, name: str) -> None:
    measurements = [made(tile) for tile in range(1, 6)]
    source, bundle, into = (
        store_of(tmp_path / "a.jsonl", *measurements),
        tmp_path / "b.jsonl",
        tmp_path / name,
    )
    assert list(export_bundle(source, bundle)) == measurements
    store_of(into, measurements[2])
    assert import_bundle(bundle, into)[:2] == (4, 1)
    assert import_bundle(bundle, into)[:2] == (0, 5)
    assert sorted(each.key for each in read_records(into)) == sorted(each.key for each in measurements)


def test_only_what_is_meant_is_carried(tmp_path: Path) -> None:
    here, old = made(1), made(2, driver="570.1")
    there = replace(made(3), platform=OTHER)
    softmax = fake_measurement("softmax-m512-n512")
    source = store_of(tmp_path / "a.db", here, old, there, softmax)
    cases = {
        "device": ({"device": "test gpu"}, [here, old, softmax]),
        "kernel": ({"kernel": "soft*"}, [softmax]),
        "software": ({"software": {"driver": "570.1"}}, [old]),
    }
    for name, (criteria, wanted) in cases.items():
        bundle = tmp_path / f"{name}.jsonl"
        assert list(export_bundle(source, bundle, **criteria)) == wanted  # type: ignore[arg-type]
        assert list(read_records(bundle)) == wanted
    with pytest.raises(CostModelError, match="none does"):
        export_bundle(source, tmp_path / "none.jsonl", device="A100")


def test_another_measurement_of_the_same_config_is_a_further_visit(tmp_path: Path) -> None:
    old, new = made(1, driver="570.1", latency_s=2e-3), made(1, latency_s=1e-3)
    assert old.key == new.key
    bundle, into = store_of(tmp_path / "b.jsonl", new), store_of(tmp_path / "a.jsonl", old)
    found = import_bundle(bundle, into)
    assert (found.added, found.known) == (1, 0)
    assert list(read_records(into)) == [old, replace(new, visit=1)]
    assert import_bundle(bundle, into).known == 1


def test_a_bundle_that_was_cut_short_is_refused(tmp_path: Path) -> None:
    bundle, into = store_of(tmp_path / "b.jsonl", made(1), made(2)), tmp_path / "a.jsonl"
    whole = bundle.read_bytes()
    bundle.write_bytes(whole[:-30])
    with pytest.raises(CostModelError, match="must be whole"):
        import_bundle(bundle, into)
    bundle.write_bytes(whole[:100] + b"x" + whole[101:])
    with pytest.raises(CostModelError, match="line 1 is damaged"):
        import_bundle(bundle, into)
    assert not into.exists()


def test_a_bundle_replaces_nothing(tmp_path: Path) -> None:
    source = store_of(tmp_path / "a.jsonl", made(1))
    for name in ("a.jsonl", "b.db"):
        with pytest.raises(CostModelError, match="must be a new"):
            export_bundle(source, tmp_path / name)
    assert list(read_records(source)) == [made(1)]
