"""What is wrong with the connections of a flow, gathered while it is compiled."""

from heddle.spec import MAX_PROBLEMS, Component, Document, DocumentError, Problem


class Findings:
    """Problems and warnings of one flow, each at the component that it is about.

    ``name`` is what errors call the document.
    """

    def __init__(self, document: Document, name: str) -> None:
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self.path_of = document.path_of
        self._name = name

    def problem(
        self, component: Component, what: str, fix: str = "", tail: str = ""
    ) -> None:
        """Note a problem; ``tail`` leads on from the component's path.

        Raises:
            DocumentError: It is the last that is taken.
        """
        self.problems.append(Problem(self.path_of(component) + tail, what, fix))
        if len(self.problems) >= MAX_PROBLEMS:
            raise DocumentError(self.problems, name=self._name)

    def warn(self, component: Component, what: str, fix: str = "") -> None:
        """Note what runs all the same."""
        self.warnings.append(Problem(self.path_of(component), what, fix))
