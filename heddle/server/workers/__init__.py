"""Several processes that are one server: what they share, and how they talk.

    board      numbers in shared memory: runs and connections of each worker
    share      a worker's part in all connections
    ledger     what each counted, kept when it is gone
    mail       connections between workers
    control    what the parent and a worker tell each other
    peers      what a worker asks another: HTTP over those connections
    following  a sibling's run, followed for a socket
    orphans    the end of a worker whose parent is gone

Who starts and watches workers is `heddle.server.supervisor`; what a worker does with all
this is `heddle.server.worker`.
"""

from heddle.server.workers.board import CONNECTIONS, LEAVING, SERVING, STATE, Board, Room
from heddle.server.workers.following import END, MORE, Remote, pack
from heddle.server.workers.ledger import Ledger
from heddle.server.workers.mail import Mailboxes
from heddle.server.workers.peers import Peers, Unreachable

__all__ = [
    "CONNECTIONS",
    "END",
    "LEAVING",
    "MORE",
    "SERVING",
    "STATE",
    "Board",
    "Ledger",
    "Mailboxes",
    "Peers",
    "Remote",
    "Room",
    "Unreachable",
    "pack",
]
