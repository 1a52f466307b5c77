"""Who would be asked where in a run of a flow, and what bounds it there.

    Explanation(policies, consulted=(Consulted(place, (policy, …)), …), limits, unasked, …)

Consultations of a run are a walk along the rows of ``consulted``: forward, or back to one
that it has been at before, as in the next round of an agent or the next item of a map.
"""

from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct

from heddle.preview.limits import Bounds, Limit, limits
from heddle.preview.policies import Policy, Unasked, models_called, policies_of, unasked
from heddle.preview.seams import MAX_PLACES, Place, places

if TYPE_CHECKING:
    from heddle.engine.plan import Plan
    from heddle.installation import Installed


class Consulted(Struct, frozen=True):
    """A place, and who is asked there, in order."""

    place: Place
    policies: tuple[Policy, ...]


class Explanation(Struct, frozen=True):
    """What there is to say.

    Attributes:
        policies: All, in the order in which they are asked.
        consulted: The places in the order in which a run meets them.
        limits: What bounds the run there.
        unasked: What was declared in vain.
        quiet: How many places were left out because nobody is asked there.
        cut: Whether there are more places than were looked at.
    """

    policies: tuple[Policy, ...]
    consulted: tuple[Consulted, ...]
    limits: tuple[Limit, ...]
    unasked: tuple[Unasked, ...]
    quiet: int
    cut: bool


def explain(
    plan: "Plan", installed: "Installed", bounds: Bounds, *, everywhere: bool = False
) -> Explanation:
    """Look at a flow and at what is installed; starts nothing.

    Args:
        plan: The flow.
        installed: The plugins.
        bounds: What the operator's flags say.
        everywhere: Also the places where nobody is asked.
    """
    policies = policies_of(installed)
    every = places(plan.graph, plan.graphs, lambda each: models_called(installed, each))
    met = list(islice(every, MAX_PLACES))
    # Chains are short and places are many: who is asked at a half is found out once.
    asked = {
        half: tuple(each for each in policies if each.is_asked(*half))
        for half in {(place.seam, place.half) for place in met}
    }
    consulted = tuple(
        Consulted(place, who)
        for place in met
        if (who := asked[place.seam, place.half]) or everywhere
    )
    return Explanation(
        policies,
        consulted,
        tuple(limits(bounds, met, policies, tools=bool(plan.tools))),
        tuple(unasked(policies, met)),
        len(met) - len(consulted),
        len(met) == MAX_PLACES,
    )
