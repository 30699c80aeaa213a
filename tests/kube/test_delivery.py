"""One annotation gives a workload its model: the four kinds, each reason, and what happens to workloads, volumes and Jobs on the way. The
cases run beside one another; each test tells how one ended."""

import re

import pytest

from harness import tools

from . import delivery_bad_cases, delivery_cases
from .delivery_scene import Cases

CASES = Cases()
CASES.functions = {**delivery_cases.cases.functions, **delivery_bad_cases.cases.functions}


@pytest.fixture(scope="module")
def ended(delivery, request):
    """Futures of the cases that this run asks for, of all when it asks for none."""
    wanted = {item.callspec.params["name"] for item in request.session.items
              if item.module is request.module and item.originalname in ("test_case", "test_reason", "test_event")}
    return CASES.start(delivery, [name for name in CASES.functions if name in wanted or not wanted])


@pytest.mark.parametrize("name", CASES.functions)
def test_case(ended, name):
    ended[name].result()


def names_in_code(table):
    text = (tools.ROOT / "src" / "domain" / "delivery_reason.c").read_text()
    return set(re.findall(r'{ "(\w+)"', text[text.index(table):].split("};")[0]))


def test_every_reason_and_event_has_a_row():
    assert names_in_code("reasons[") == set(delivery_cases.REASONS)
    assert names_in_code("events[") | {"ModelDeliveryFailed"} == set(delivery_cases.EVENTS)


@pytest.mark.parametrize("reason, name", [one for one in delivery_cases.REASONS.items() if one[1]])
def test_reason(ended, reason, name):
    assert reason in ended[name].result()[0]


@pytest.mark.parametrize("event, kind, name", [(event, *row) for event, row in delivery_cases.EVENTS.items() if row[1]])
def test_event(ended, event, kind, name):
    assert (kind, event) in ended[name].result()[1]


def test_what_must_never_be(ended, delivery):
    """No Pod started without its models whole, and no more copied at a time than may."""
    for future in ended.values():
        future.exception()
    assert delivery.take_faults() == []
    assert 0 < delivery.guard.most_running <= delivery.max_materializations and delivery.guard.n_checked > 0
