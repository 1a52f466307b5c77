"""What all tests share: no example of a law fails because the machine was busy.

HYPOTHESIS_PROFILE=thorough make test      ten times as many examples of each law
"""

import os

from hypothesis import HealthCheck, settings

_EXAMPLES = {"quick": 40, "thorough": 400}

for _name, _examples in _EXAMPLES.items():
    settings.register_profile(
        _name,
        deadline=None,
        max_examples=_examples,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
