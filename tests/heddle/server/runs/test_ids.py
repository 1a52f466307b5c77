"""Ids of runs."""

import os
import re

from heddle.server.runs.ids import new_id


def test_ids_are_words_of_128_bits_and_never_the_same() -> None:
    made = [new_id() for _ in range(1000)]
    assert len(set(made)) == 1000
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{22}", each) for each in made)


def test_a_forked_process_gives_out_ids_of_its_own() -> None:
    new_id()  # some are ready now
    reading, writing = os.pipe()
    child = os.fork()
    if not child:  # pragma: no cover  measured in the parent
        os.write(writing, "".join(new_id() for _ in range(64)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    theirs = os.read(reading, 64 * 22).decode()
    os.close(reading)
    assert len(theirs) == 64 * 22
    assert not {new_id() for _ in range(64)} & {
        theirs[i : i + 22] for i in range(0, 1408, 22)
    }
