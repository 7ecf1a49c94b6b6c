"""Run a coroutine from synchronous code, notebooks included."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any


def run_to_end(work: Coroutine[Any, Any, None]) -> None:
    """``asyncio.run``; where an event loop runs in this thread already, in a thread beside it.

    The cells of a notebook run inside the loop of their kernel, where ``asyncio.run`` refuses to start. An
    interrupt cancels the work, and is raised when that has ended.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(work)
        return
    with closing(asyncio.new_event_loop()) as loop, ThreadPoolExecutor(1) as thread:
        task = loop.create_task(work)
        try:
            thread.submit(loop.run_until_complete, task).result()
        except BaseException:
            loop.call_soon_threadsafe(task.cancel)
            raise
