"""What is wrong with a manifest, all of it in one error."""

from collections.abc import Sequence

from msgspec import Struct

from plugins_host.faults import Fault


class ManifestProblem(Struct, frozen=True):
    """One thing that is wrong. ``path`` is where in the JSON; ``component`` may be ""."""

    path: str
    what: str
    fix: str = ""
    component: str = ""


class ManifestError(Fault):
    """A manifest that cannot be used, with everything that is wrong with it.

    Attributes:
        file: Which manifest.
        plugin: The name in it, or "".
        problems: All of them, in the order of the file.
    """

    def __init__(
        self, problems: Sequence[ManifestProblem], *, file: str, plugin: str
    ) -> None:
        self.file = file
        self.plugin = plugin
        self.problems = tuple(problems)
        who = f"plugin {plugin!r}" if plugin else ""
        if len(problems) == 1:
            only = problems[0]
            within = ", ".join(filter(None, [who, _of(only.component)]))
            place = f"{file} {only.path}" if only.path else file
            where = f"{place} ({within})" if within else place
            super().__init__(only.what, where=where, fix=only.fix)
        else:
            lines = "".join(
                f"\n  {Fault(each.what, where=_place(each), fix=each.fix)}"
                for each in problems
            )
            where = f"{file} ({who})" if who else file
            super().__init__(f"{len(problems)} things are wrong{lines}", where=where)


def _of(component: str) -> str:
    return f"component {component!r}" if component else ""


def _place(problem: ManifestProblem) -> str:
    place = problem.path or "$"
    return f"{place} ({_of(problem.component)})" if problem.component else place
