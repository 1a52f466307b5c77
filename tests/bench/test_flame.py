"""Stacks are counted while a process works, and drawn as a flame graph."""

import time
from xml.etree import ElementTree as ET

from bench.flame import boxes, flame
from bench.sampler import Sampler

SEEN = """#seconds 1.0
main a.py:1;walk heddle/x.py:3;<lambda> trio/_core.py:9@12 30
main a.py:1;walk heddle/x.py:3@7 10
main a.py:1;end heddle/y.py:4@5 60
"""


def test_a_box_has_the_time_of_all_that_stands_on_it() -> None:
    (main,) = boxes(SEEN).inside.values()
    assert main.times == 100
    assert {name: box.times for name, box in main.inside.items()} == {
        "walk heddle/x.py:3": 40,
        "end heddle/y.py:4": 60,
    }


def test_the_picture_is_xml_that_needs_nothing_else_and_says_shares() -> None:
    picture = flame(SEEN, "a & b")
    root = ET.fromstring(picture)
    titles = [each.text for each in root.iter("{http://www.w3.org/2000/svg}title")]
    assert "end heddle/y.py:4: 60 times, 60.0 %" in titles
    assert "<lambda> trio/_core.py:9: 30 times, 30.0 %" in titles
    assert "href" not in picture


def test_nothing_seen_is_a_picture_too() -> None:
    ET.fromstring(flame("#seconds 0\n", "nothing"))


def test_the_sampler_sees_what_works() -> None:
    sampler = Sampler()

    def work() -> None:
        until = time.process_time() + 0.1
        while time.process_time() < until:
            pass

    sampler.start()
    work()
    sampler.stop()

    head, *stacks = sampler.collapsed().splitlines()
    assert head.startswith("#seconds 0.")
    assert any(
        "test_the_sampler_sees_what_works.work tests/bench" in each for each in stacks
    )
