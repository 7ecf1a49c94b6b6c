import base64
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from costmodel.collector import ReplayRunner
from costmodel.errors import CostModelError
from costmodel.records import Outcome
from costmodel.report._page import TextTable
from costmodel.search import Objective, SearchResult, Trial
from costmodel.search._objective import ObjectiveName
from costmodel.search._portfolio import BudgetRange
from costmodel.search._provenance import Provenance
from costmodel.testing import landscape_platform
from costmodel.tuning._figures import PredictedPoints, ProgressCurve
from costmodel.tuning._findings import (
    BEST_KNOWN,
    BEST_MEASURED,
    CHOSEN,
    WHOLE_CHOICE,
    BudgetCurve,
    recorded_curves,
    searched_curves,
)
from costmodel.tuning._page import SearchReport, render_report, write_report

pytestmark = pytest.mark.white_box

PROVENANCE = Provenance("a <runner>", {"model": "<script>alert(1)</script>"}, "0" * 16, 60, 3)


@pytest.fixture
def report():
    return SearchReport(
        title="a & b",
        answer=["Run <b>this</b>."],
        tables=[TextTable("Kernels", ("config", "us"), [["<i>x</i>", "1.0"]])],
        curves=[BudgetCurve(BEST_MEASURED, {8: 2e-5, 132: 1e-5}), BudgetCurve(CHOSEN, {8: 2e-5, 132: 2e-5})],
        sms=[8, 132],
        unit="SMs",
        progress=ProgressCurve(np.array([3.0, np.inf, 1.0]), np.array([np.inf, 3.0, 1.0]), "latency (µs)"),
        predictions=[PredictedPoints(8, np.array([1e-5]), np.array([2e-5]))],
        provenance=PROVENANCE,
    )


class Page(HTMLParser):
    """Tags and texts of a page."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.texts, self.attributes = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.texts.append(data)


def test_texts_are_shown_and_not_followed(report):
    page = Page(render_report(report))
    assert {"a & b", "Run <b>this</b>.", "<i>x</i>", "<script>alert(1)</script>", "a <runner>"} <= set(
        page.texts
    )
    assert not {"b", "i", "script"} & set(page.tags)


def test_the_page_needs_no_other_file(report):
    page = Page(render_report(report))
    assert not {"script", "link", "iframe"} & set(page.tags)
    sources = [value for name, value in page.attributes if name in ("src", "href")]
    assert len(sources) == 3
    for source in sources:
        data = source.removeprefix("data:image/png;base64,")
        assert base64.b64decode(data, validate=True).startswith(b"\x89PNG")
    assert "http" not in re.sub(r"base64,[^\"]*", "", render_report(report))


def test_pictures_without_data_are_left_out(report):
    from dataclasses import replace

    page = Page(render_report(replace(report, curves=[], predictions=[])))
    assert page.tags.count("img") == 1


def test_the_same_report_is_the_same_page(report):
    assert render_report(report) == render_report(report)


def test_an_unwritable_report_is_an_error_for_the_user(report, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CostModelError, match="Cannot write"):
        write_report(report, tmp_path / "file" / "report.html")
    write_report(report, tmp_path / "new" / "report.html")
    assert (tmp_path / "new" / "report.html").read_text(encoding="utf-8") == render_report(report)


@pytest.fixture
def result(pool):
    latencies = [(4e-5, 2e-5), (3e-5, np.inf), (6e-5, 1e-5)]
    trials = tuple(
        Trial(i, pool.candidates[i], (32, 132), (Outcome.OK, Outcome.OK), latency_s, 0.0)
        for i, latency_s in enumerate(latencies)
    )
    platforms = landscape_platform(32), landscape_platform(132)
    objective = Objective.make(ObjectiveName.WORST_REGRET, 2)
    return SearchResult(platforms, objective, trials, PROVENANCE)


def test_curves_of_a_search_are_those_of_its_table(result):
    ranges = [BudgetRange(0, 0, 1), BudgetRange(1, 1, 0)]
    curves = {curve.label: curve.latency_s for curve in searched_curves(result, ranges)}
    assert curves == {
        BEST_MEASURED: {32: 3e-5, 132: 1e-5},
        WHOLE_CHOICE: {32: 6e-5, 132: 1e-5},
        CHOSEN: {32: 3e-5, 132: 2e-5},
    }


def test_recorded_curves_follow_the_choice_at_each_budget(records, pool):
    runner = ReplayRunner(records)
    one, other = pool.candidates[3], pool.candidates[8]
    curves = recorded_curves(
        runner.known_latencies("matmul-m512-n512-k512"), 132, lambda sms: one if sms < 132 else other
    )
    chosen = next(c.latency_s for c in curves if c.label == CHOSEN)
    by_key = {(m.candidate.candidate_id, m.platform.sms_granted): m.latency_s for m in records}
    assert chosen == {32: by_key[one.candidate_id, 32], 132: by_key[other.candidate_id, 132]}
    assert [c.label for c in curves] == [BEST_KNOWN, WHOLE_CHOICE, CHOSEN]


def test_a_portfolio_may_hold_what_fails_elsewhere(result):
    assert [part.kernel for part in result.portfolio(2)] == [1, 2]
    (only,) = result.portfolio(1)
    assert only.kernel in {0, 2}
    assert result.regret_of([only]).max() == pytest.approx(1.0)
