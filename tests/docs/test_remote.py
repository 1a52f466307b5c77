"""The page about requests: its example is a node, and its numbers are those of the code."""

import json
import re
from pathlib import Path

from heddle.engine.plan import make_plan
from heddle.engine.requests.request import RequestTemplate
from heddle.engine.retries import MAX_RETRY_AFTER
from heddle.remote.client import MAX_ANSWER
from heddle.spec import ApiNode, RetryPolicy, read_document
from tests.support.flows import document, end, flow, start

PAGE = (Path(__file__).parents[2] / "docs" / "remote.md").read_text(encoding="utf-8")


def test_the_example_is_sent_as_the_page_says() -> None:
    (written,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    node = json.loads(written)
    plan = make_plan(
        read_document(document(flow([start(), node, end()], ["start", "item", "end"])))
    )
    assert plan.graph.warnings == ()
    component = plan.graph.nodes[1].component
    assert isinstance(component, ApiNode)
    request = RequestTemplate(component).render({"id": "a/b", "lang": "de", "token": "t"})
    assert request.target == "/v1/items/a%2Fb?lang=de"
    assert request.headers == (("Authorization", "Bearer t"),)


def test_the_numbers_of_the_page_are_those_of_the_code() -> None:
    assert f"at most {MAX_ANSWER >> 20} MiB" in PAGE
    assert f"up to {MAX_RETRY_AFTER:g} seconds" in PAGE
    assert "(409 and 429;" in PAGE
    assert list(RetryPolicy().recoverable_statuses) == ["409", "429"]
