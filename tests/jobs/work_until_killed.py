"""Worker processes of the tests, which may be killed."""

import optuna

from costmodel.jobs import JobStore, work


def work_once(place):
    """Do what there is to do."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    work(JobStore(place, allowed_deaths=1000), once=True)


def take_all(place, out):
    """Take tasks until there is none; the numbers of those that were taken."""
    store, taken = JobStore(place), []
    while lease := store.lease():
        taken.append(lease.task)
    out.send(taken)
    out.recv()  # and hold them
