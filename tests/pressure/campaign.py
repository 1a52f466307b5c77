"""One campaign from begin to end: a server is started, loaded, disturbed, and looked at.

start  ->  undisturbed runs, each in one way; what the server holds then is the measure
       ->  load and disturbances together, until the time is up
       ->  undisturbed runs again; the server holds no more than before, and it ends well
"""

from collections import Counter
from pathlib import Path
from random import Random

import msgspec
import trio
import trio.testing

from tests.pressure import checks
from tests.pressure.cast import Does, has_node, write_cast
from tests.pressure.disturbances import Done, disturb, serving
from tests.pressure.load import NEVER, WAYS, Company, Fate, fate_of, open_company, work
from tests.pressure.models import Models
from tests.pressure.plan import Plan
from tests.pressure.relay import open_relay
from tests.pressure.report import Report
from tests.pressure.stage import STARTING, WORKERS, Stage, open_stage, until
from tests.pressure.verdicts import Found, judge
from tests.support.model_endpoint import ModelEndpoint, model_endpoint

FLAGS = ["--allow-request-code"]


async def campaign(plan: Plan, folder: Path, log: Path | None = None) -> Report:
    """Carry out a plan in an empty folder; the server's log goes to a file if wanted."""
    models = Models()
    async with model_endpoint(respond=models.respond) as endpoint:
        flags = [*FLAGS, *write_cast(folder, endpoint.url)]
        async with (
            open_stage(folder, flags, models, plan.limit) as stage,
            open_relay(stage.port) as relay,
        ):
            stage.relay = relay
            report = await _press(plan, stage, endpoint)
            if log is not None:
                log.write_bytes(b"\n".join(map(msgspec.json.encode, stage.log)))
    return report


async def _press(plan: Plan, stage: Stage, endpoint: ModelEndpoint) -> Report:
    fates: list[Fate] = []
    done: list[Done] = []
    async with open_company(stage, endpoint.url) as company:
        wrong = await checks.answers(company, undisturbed(plan, 0))
        before = checks.holdings(stage)
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_forget, endpoint)
            async with trio.open_nursery() as inside:
                inside.start_soon(disturb, stage, plan.schedule(), done)
                for number in range(plan.clients):
                    until = began + plan.seconds
                    inside.start_soon(work, company, plan, number, until, fates)
            nursery.cancel_scope.cancel()
        stage.set_clock(0)
        wrong += await _back_again(plan, stage, company)
    wrong += await checks.settled(stage, before)
    wrong += await checks.ends(stage)
    await trio.testing.wait_all_tasks_blocked(0.01)
    logged, odd = checks.check_log(stage, fates, done)
    words, found = _verdicts(fates, done)
    said = [] if has_node() else ["No policy was in JavaScript: there is no Node.js here."]
    if not stage.disk:
        said.append("No disk could be made for the server: files had no size instead.")
    ways = Counter(fate.way for fate in fates)
    return Report(plan, began, done, words, ways, logged, found, wrong + odd, said)


async def _back_again(plan: Plan, stage: Stage, company: Company) -> list[str]:
    """Whether all workers are there, and no run is left; then work as at first."""
    with trio.move_on_after(STARTING):
        await until(lambda: len(serving(stage)) == WORKERS)
    wrong = await checks.no_run_is_left(company)
    return wrong + await checks.answers(company, undisturbed(plan, 1))


def undisturbed(plan: Plan, turn: int) -> list[Fate]:
    """A run of each way, of which nothing but its end is asked."""
    random = Random(plan.seed)
    made = []
    for number, way in enumerate(WAYS):
        fate = fate_of(plan.seed, 900 + turn, number, random)
        fate.way, fate.flow = way, WAYS[way][2][-1]
        fate.does, fate.mode, fate.leaves, fate.relayed = Does.CALLS, "ok", "", False
        fate.patience = NEVER
        made.append(fate)
    return made


async def _forget(endpoint: ModelEndpoint) -> None:
    """The endpoint remembers all that was asked, which nobody here reads."""
    while True:
        await trio.sleep(1)
        endpoint.requests.clear()


def _verdicts(fates: list[Fate], done: list[Done]) -> tuple[Counter[str], list[Found]]:
    words: Counter[str] = Counter()
    found = []
    for fate in fates:
        try:
            words[judge(fate, done)] += 1
        except AssertionError as error:
            words["found"] += 1
            found.append(Found(fate, str(error)))
    return words, found
