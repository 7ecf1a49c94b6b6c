"""The ledger of SMs, with real processes: some of them are killed."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from fresh_processes import Pipe, Process

from costmodel.liveness import WHOLE, SmLedger

pytestmark = pytest.mark.white_box

DEVICE = "0000:19:00.0"
LANES = [range(0, 32), range(32, 64), range(64, 96), range(96, 128)]


def hold(folder, choices, out):
    """Take SMs, tell which, and have them until told to let go."""
    with SmLedger(DEVICE, folder).taken(*choices) as sms:
        out.send(sms)
        out.recv()


def holder(folder: Path, *choices: range):
    ours, its = Pipe()
    process = Process(target=hold, args=(folder, choices, its), daemon=True)
    process.start()
    its.close()
    return process, ours


def test_as_many_as_fit_have_sms_of_their_own(tmp_path):
    holders = [holder(tmp_path, *LANES) for _ in range(4)]
    assert sorted(pipe.recv().start for _, pipe in holders) == [0, 32, 64, 96]
    fifth, waiting = holder(tmp_path, *LANES)
    assert not waiting.poll(0.3)
    process, pipe = holders[2]
    pipe.send("let go")
    process.join()
    assert waiting.recv() in LANES
    waiting.send("let go")
    fifth.join()
    for process, _ in holders:
        process.kill()


def test_parts_of_any_size_do_not_overlap(tmp_path):
    first, pipe = holder(tmp_path, range(0, 64))
    assert pipe.recv() == range(0, 64)
    ledger = SmLedger(DEVICE, tmp_path)
    with (
        ledger.taken(range(0, 48), range(48, 96), range(96, 128)) as one,
        ledger.taken(*LANES) as other,
    ):
        assert (one, other) == (range(96, 128), range(64, 96))
    first.kill()


def test_the_sms_of_a_killed_process_come_free_at_once(tmp_path):
    process, pipe = holder(tmp_path, WHOLE)
    pipe.recv()
    next_, waiting = holder(tmp_path, LANES[0])
    assert not waiting.poll(0.3)
    os.kill(process.pid, signal.SIGKILL)
    assert waiting.recv() == LANES[0]
    next_.kill()


def test_one_that_is_killed_while_it_waits_is_in_nobodys_way(tmp_path):
    process, pipe = holder(tmp_path, LANES[0])
    pipe.recv()
    waits, waiting = holder(tmp_path, WHOLE)
    assert not waiting.poll(0.3)
    os.kill(waits.pid, signal.SIGKILL)
    last, free = holder(tmp_path, LANES[1])
    assert free.recv() == LANES[1]
    process.kill()
    last.kill()


def test_whoever_wants_the_whole_device_is_not_passed_by(tmp_path):
    """While it waits for a part, the parts that are free are given to nobody."""
    first, pipe = holder(tmp_path, LANES[0])
    pipe.recv()
    alone, waits = holder(tmp_path, WHOLE)
    assert not waits.poll(0.3)
    later, behind = holder(tmp_path, *LANES)
    assert not behind.poll(0.3)
    pipe.send("let go")
    assert waits.recv() == WHOLE
    assert not behind.poll(0.3)
    waits.send("let go")
    assert behind.recv() == LANES[0]
    behind.send("let go")
    for process in (first, alone, later):
        process.join()


def test_threads_of_one_process_take_turns_too(tmp_path):
    ledger, inside, most = SmLedger(DEVICE, tmp_path), [], []

    def work() -> None:
        for _ in range(20):
            with ledger.taken(WHOLE):
                inside.append(1)
                most.append(len(inside))
                time.sleep(0.001)
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(most), max(most)) == (80, 1)


def test_devices_have_ledgers_of_their_own_that_any_user_may_open(tmp_path):
    with SmLedger("a", tmp_path).taken(WHOLE), SmLedger("b", tmp_path).taken(WHOLE):
        assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o666}
        assert len(list(tmp_path.iterdir())) == 2
