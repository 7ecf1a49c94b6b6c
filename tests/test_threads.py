"""Calls run beside this thread one after the other, and items are made while others are used."""

from collections.abc import Iterator
from threading import Event

import pytest

from costmodel.threads import SecondThread, make_ahead

LONG_S = 60.0  # what is waited for comes at once, unless something is broken


def test_a_call_runs_beside_and_the_next_waits_for_it():
    may_end, ended = Event(), list[str]()

    def first() -> None:
        assert may_end.wait(LONG_S)
        ended.append("first")

    beside = SecondThread()
    beside.run(first)
    assert ended == []
    may_end.set()
    beside.run(ended.append, "second")
    assert ended[0] == "first"
    beside.wait()
    assert ended == ["first", "second"]


def test_what_a_call_raised_is_raised_once_where_it_is_waited_for():
    beside = SecondThread()
    beside.run(int, "no number")
    with pytest.raises(ValueError, match="no number"):
        beside.run(int, "1")
    beside.run(int, "2")
    beside.wait()
    beside.run(int, "none either")
    with pytest.raises(ValueError, match="none either"):
        beside.wait()
    beside.wait()


def test_leaving_waits_for_the_last_call():
    may_end, ended = Event(), list[bool]()
    with SecondThread() as beside:
        beside.run(lambda: ended.append(may_end.wait(LONG_S)))
        may_end.set()
    assert ended == [True]


def test_the_next_item_is_made_while_one_is_used():
    made = [Event() for _ in range(3)]

    def items() -> Iterator[int]:
        for i, event in enumerate(made):
            event.set()
            yield i

    used = []
    for item in make_ahead(items()):
        assert all(event.wait(LONG_S) for event in made[: item + 2])
        used.append(item)
    assert used == [0, 1, 2]


def test_items_before_an_error_are_used_before_it_is_raised():
    def items() -> Iterator[int]:
        yield 1
        raise OSError("gone")

    coming = make_ahead(items())
    assert next(coming) == 1
    with pytest.raises(OSError, match="gone"):
        next(coming)


def test_no_more_is_made_than_one_item_ahead():
    asked = []

    def items() -> Iterator[int]:
        for i in range(9):
            asked.append(i)
            yield i

    coming = make_ahead(items())
    assert next(coming) == 0
    coming.close()
    assert asked == [0, 1]


def test_nothing_ahead_of_nothing():
    assert list(make_ahead([])) == []
