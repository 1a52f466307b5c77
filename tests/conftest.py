"""What all tests share: no example of a law fails because the machine was busy.

HYPOTHESIS_PROFILE=thorough make test      ten times as many examples of each law, but
                                           for those that say how many themselves
"""

import gc
import os

import pytest
from hypothesis import HealthCheck, settings

from tests.support.bytecode import keep_bytecode, share_rewriting
from tests.support.signals import hear_signals

keep_bytecode()
hear_signals()

_EXAMPLES = {"quick": 40, "thorough": 400}

for _name, _examples in _EXAMPLES.items():
    settings.register_profile(
        _name,
        deadline=None,
        max_examples=_examples,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Before several workers collect the whole suite, let them prepare it together."""
    config = session.config
    worker = getattr(config, "workerinput", None)
    if worker and config.args_source is config.ArgsSource.TESTPATHS:
        share_rewriting(
            config.rootpath,
            sorted((config.rootpath / "tests").rglob("test_*.py")),
            worker=int(worker["workerid"].removeprefix("gw")),
            workers=worker["workercount"],
        )


def pytest_collection_finish() -> None:
    """Take what collecting made out of what each collection of garbage looks through."""
    gc.collect()
    gc.freeze()
