"""A worker process of the tests: tunes a shared study, slowly, and may kill itself in a measurement."""

import logging
import os
import signal
import time

import optuna
from optuna.distributions import IntDistribution

from costmodel.collector import Runner
from costmodel.records import Device, Measurement, Outcome, Platform
from costmodel.search import DeclaredSpace, ModelSampler, open_study, tune

logging.getLogger("optuna").setLevel(logging.ERROR)
PLATFORM = Platform(Device("formula", "cpu", "", 1, 1.0), "whole", 1, 1)


def make_space():
    """A grid of 1,600 configs."""
    parameters = {"a": IntDistribution(0, 39), "b": IntDistribution(0, 39)}
    return DeclaredSpace("grid", parameters, platforms=[PLATFORM])


def latency_s(decisions):
    return 1e-3 * (1.0 + 0.01 * (decisions["a"] - 17) ** 2 + 0.01 * (decisions["b"] - 29) ** 2)


class SlowFormula(Runner):
    """Takes a while to evaluate a formula."""

    def __init__(self, seconds=0.0, dies_after=None, in_flight=1):
        self.seconds = seconds
        self._in_flight = in_flight
        self.dies_after = dies_after
        self.measured = 0

    @property
    def description(self):
        return "A formula."

    @property
    def in_flight(self):
        return self._in_flight

    @property
    def budgets(self):
        return (1,)

    def platform(self, sms=None):
        return PLATFORM

    def sources(self, workload):
        return ("formula",)

    def space(self, workload, platforms, *, source=None):
        return make_space()

    def measure(self, candidates, platform, *, visit=0):
        if self.measured == self.dies_after:
            os.kill(os.getpid(), signal.SIGKILL)
        self.measured += len(candidates)
        time.sleep(self.seconds)
        return [
            Measurement(
                candidate=candidate,
                platform=platform,
                outcome=Outcome.OK,
                latencies_s=(latency_s(candidate.config.decisions),),
                measured_at="2026-11-21T10:00:00+00:00",
            )
            for candidate in candidates
        ]


def tune_shared(place, count, *, shared=True, **settings):
    """Take part in the study at ``place`` until it has ``count`` trials; settings are those of the runner."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = open_study(place, "shared", shared=shared)
    tune(SlowFormula(**settings), ModelSampler(make_space()), count, study=study)
