"""A call that goes on: its next question asked by whoever reads the answer to the last one.

    answer ─▶ Call.onward ─▶ the next question ─▶ asked, under an id of its own
                          └▶ None: the task that asked wakes

To wake a task so that it asks again and waits takes longer than most of what it has to do
in between.
"""

from msgspec import Raw

from plugins_host.processes.calls import Call, ids
from plugins_host.processes.open_calls import OpenCalls
from plugins_host.processes.writer import Writer


def goes_on(call: Call, answer: Raw, calls: OpenCalls, writer: Writer) -> bool:
    """Ask what comes behind ``answer``, if anything does; else it is the task's.

    Not where the task wakes anyway: it was cancelled, or has something to serve.
    """
    if call.onward is None or call.waiting is None or call.holds or call.asked:
        return False
    following = call.onward(answer)
    if following is None:
        return False
    verb, params, call.services, call.components, patience = following
    call.verb, call.params, call.patience = verb, params, patience
    call.id = id_ = next(ids)
    line = b'{"id":%d,"method":"%b","params":%b}\n'
    writer.send(line % (id_, verb.encode(), params), alone=not calls.open)
    call.began = now = calls.now()
    call.due = now + patience
    call.end = writer.sent
    call.at = None
    calls.open[id_] = call
    if call.due < calls.watched:
        calls.watch_from(call.due)
    return True
