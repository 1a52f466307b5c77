"""The ids of one document's components: every one has its own, by which state knows it.

{"id": "writer", …}    is kept, and nobody else may have it
{…}                    is given one: its path, ``$.nodes[2].agent``
"""

from typing import Any

from heddle.spec.problems import Path, Problems, shown, write_path
from heddle.spec.references import DEFINITIONS


class Identities:
    """Who has which id.

    Attributes:
        places: Where the component of each id that is written down stands.
    """

    def __init__(self, problems: Problems) -> None:
        self.places: dict[str, Path] = {}
        self._problems = problems
        # The list that a path was last written for, and how it was written.
        self._container: Path = None
        self._container_path = ""

    def give(self, raw: dict[str, Any], values: dict[str, Any], path: Path) -> None:
        """See to it that the component has an id in ``values``, and no other's."""
        identity = raw.get("id")
        if identity is None:
            if "id" not in raw:
                values["id"] = self._written(path)
            return
        if type(identity) is not str:
            return
        first = self.places.setdefault(identity, path)
        if first is not path:
            self._problems.add(
                path,
                f"the id {shown(identity)} is taken: it is also at {write_path(first)}",
                f"Define the component once in '{DEFINITIONS}' and refer to it, or give "
                "one of the two another id.",
            )

    def _written(self, path: Path) -> str:
        """`write_path`, which is asked for many items of one list in a row."""
        if path is None or type(path[1]) is str:
            return write_path(path)
        container, index = path
        if self._container is not container:
            self._container, self._container_path = container, write_path(container)
        return f"{self._container_path}[{index}]"
