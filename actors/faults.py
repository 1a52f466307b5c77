"""What goes wrong between actors. Every fault names its actor; programs read the fields.

Errors of an actor's own work are not here: an expected refusal is an answer.
"""


class ActorFault(Exception):
    """Base of every fault between actors.

    Attributes:
        actor: The name of the actor that it is about.
    """

    def __init__(self, actor: str, what: str) -> None:
        super().__init__(f"actor {actor!r} {what}")
        self.actor = actor


class ActorGone(ActorFault):
    """The actor ended and does not answer: neither what was open nor what comes later."""


class ActorCrashed(ActorGone):
    """The actor failed and what was open went with it. ``__cause__`` says why.

    A supervisor may have started it again: then what is sent next is answered.
    """

    def __init__(self, actor: str, cause: Exception) -> None:
        super().__init__(actor, f"crashed: {type(cause).__name__}")
        self.__cause__ = cause


class ActorCalledItself(ActorFault):
    """An actor's own task called its own ref: it would wait for itself forever."""

    def __init__(self, actor: str) -> None:
        super().__init__(actor, "called itself: cast instead, or call the method")


class MailboxFull(ActorFault):
    """A message could not be left without waiting.

    Attributes:
        capacity: How many messages the mailbox holds.
    """

    def __init__(self, actor: str, capacity: int) -> None:
        super().__init__(actor, f"has a full mailbox: {capacity} messages wait in it")
        self.capacity = capacity


class SupervisorClosed(ActorFault):
    """A supervisor that is not open, or is ending, was asked to start an actor."""

    def __init__(self, supervisor: str) -> None:
        super().__init__(supervisor, "is a supervisor that is not open: it starts nobody")


def sole_cause(error: Exception) -> Exception:
    """What an exception group of one is about: nurseries wrap all that leaves them."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
