"""JSON documents read an entry at a time hold what the standard library reads of them whole."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from costmodel.dataset.sources._document import Document
from costmodel.errors import CostModelError

pytestmark = pytest.mark.white_box

WINDOW = 2**20  # bytes that are read at a time

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def document_of(folder: Path, data: bytes) -> Document:
    path = folder / "document.json"
    path.write_bytes(data)
    return Document.open(path, "a document")


def whole(document: Document) -> dict[str, Any]:
    """All of a document, as if it had been parsed at once."""
    streamed: dict[str, Any] = {name: list(document.entries(name)) for name in document.counts}
    assert document.counts == {name: len(entries) for name, entries in streamed.items()}
    return {
        **document.fields,
        **({"cache": dict(streamed["cache"])} if "cache" in streamed else {}),
        **({"results": [result for _, result in streamed["results"]]} if "results" in streamed else {}),
    }


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    fields=st.dictionaries(st.sampled_from(["a", "cache", "results", "é"]), VALUES),
    cache=st.dictionaries(st.text(), VALUES),
    results=st.lists(VALUES),
    is_ascii=st.booleans(),
)
def test_any_document_is_what_it_is_whole(
    tmp_path: Path, fields: dict[str, Any], cache: dict[str, Any], results: list[Any], is_ascii: bool
) -> None:
    for content in (fields, {**fields, "cache": cache}, {"results": results, **fields}):
        try:
            data = json.dumps(content, indent=None if cache else 1, ensure_ascii=is_ascii).encode()
        except UnicodeEncodeError:  # half of a character
            continue
        document = document_of(tmp_path, data)
        assert document.closed
        assert whole(document) == content


@pytest.mark.parametrize("fill", ["é", "\\", "1"])
@pytest.mark.parametrize("shift", range(2))
def test_windows_may_end_anywhere(tmp_path: Path, fill: str, shift: int) -> None:
    """Texts, numbers and characters of several bytes across the ends of windows; an entry over several."""
    near = WINDOW - 60 + shift
    cache = {
        "first": fill * (near // len(json.dumps(fill, ensure_ascii=False).encode()[1:-1])),
        "long": [fill * WINDOW, 1234567890.25e-3] * 2,
        **{f"{i}": 10**i for i in range(100)},
    }
    content = {"a": 1, "cache": cache, "b": [True, None]}
    data = json.dumps(content, ensure_ascii=False).encode()
    assert len(data) > 3 * WINDOW
    path = tmp_path / "document.json.gz"
    path.write_bytes(gzip.compress(data, 1))
    assert whole(Document.open(path, "a document")) == content


@pytest.mark.parametrize("digits", range(1, 9))
def test_a_number_goes_on_behind_the_end_of_a_window(tmp_path: Path, digits: int) -> None:
    head = '{"cache": {"first": "", "number": '
    content = {"cache": {"first": "x" * (WINDOW - digits - len(head)), "number": 123456789}}
    data = json.dumps(content).encode()
    assert data[WINDOW - digits :].startswith(b"123456789")
    assert whole(document_of(tmp_path, data)) == content


@pytest.mark.parametrize(
    "content",
    [
        {"a": {"b": [1]}, "cache": {"1,\\n": {"time": 1.5}, "é": {"times": [[0, 12]]}, "3": 123, "4": "x,"}},
        {"cache": {}, "results": [{"time": 1.5}, 3]},
    ],
)
def test_a_document_may_end_behind_any_entry_of_a_cache(tmp_path: Path, content: dict[str, Any]) -> None:
    """As when it was parsed whole, with what closes a cache put behind it."""
    text = json.dumps(content)
    for end in range(len(text)):
        cut = text[:end]
        try:
            expected = json.loads(cut.rstrip().removesuffix(",") + "}}")
        except json.JSONDecodeError:
            expected = {}
        if "cache" in expected:
            document = document_of(tmp_path, cut.encode())
            assert not document.closed
            assert whole(document) == expected
        else:
            with pytest.raises(CostModelError, match="must be a document"):
                document_of(tmp_path, cut.encode())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "character 0 must be {"),
        (b"[1]", "character 0 must be {"),
        (b"\xef\xbb\xbf{}", "character 0 must be {"),
        (b'{"cache": {}} {', "nothing may follow it"),
        (b'{"cache": {}', "must be }, but is"),
        (b'{"cache": {"a": 1,,', "Expecting value"),
        (b'{"cache": {"a": 1,}}', "Expecting value"),
        (b'{"cache": {"a": 1 "b": 2}}', "must be }, but is"),
        (b'{"cache": {"a" 1}}', "must be :, but is"),
        (b'{"cache": {3: 1}}', "a key must precede"),
        (b'{"results": [1', "must be ], but is"),
        (b'{"results": [1}', "must be ], but is"),
        (b'{"cache": {"a": 1, "b": 2, "a": 3}}', "each key of an object must be unique"),
        (b'{"cache": {"a": {"b": 1, "b": 2}}}', "each key of an object must be unique"),
        (b'{"cache": {}, "cache": {}}', "each key of an object must be unique"),
        (b'{"a": 1, "a": 1}', "each key of an object must be unique"),
        (b'{"cache": {"\\ud800": 1}}', "surrogate escapes must come in pairs"),
        (b'{"cache": {"a": "\xff"}}', "is not UTF-8"),
        (b'{"cache": {"a": "\xc3', "is not UTF-8|Unterminated"),
        (b'{"a": ' + b"[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_wrong_is_one_error(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(CostModelError, match=message):
        document_of(tmp_path, data)
