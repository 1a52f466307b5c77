"""A document from its bytes to the plan of its flow: read, checked, compiled, and kept.

    prepared = load("flow.json", installed=installed)

Documents are compiled once: plans are kept by a digest of their bytes, bounded, and
shared by all runs of the same document.
"""

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Final

from msgspec import Struct

from heddle.engine.plan import Plan, make_plan
from heddle.installation import NOTHING, Installed
from heddle.spec import (
    MAX_DOCUMENT,
    NOTHING_SUPPLIED,
    DocumentError,
    Problem,
    Supplied,
    effort,
    read_document,
    read_supplied,
)
from plugins_host import Fault, near_file

MAX_PLANS: Final = 256
"""Compiled flows that are kept. A plan is some 20 times its document; a server with more
flows than this in turn compiles again, which costs it less than a millisecond each."""

MAX_KEPT_BYTES: Final = 8 * 1024 * 1024
"""Bytes of the documents whose plans are kept: with their plans some 160 MiB at the most,
whoever sends them."""

READ_IN_A_STEP: Final = 8
"""Bytes of a document that are read and compiled in the time of a step of an effort."""

MAX_KEPT_DOCUMENT: Final = 256 * 1024
"""Bytes above which a document is compiled anew each time rather than kept."""


class UnreadableFile(Fault):
    """A file that was named can't be read."""


class Prepared(Struct, frozen=True):
    """A document ready to run. ``warnings`` are for whoever reads or runs it."""

    name: str
    plan: Plan
    warnings: tuple[Problem, ...]


class Plans:
    """Compiled documents by the digest of their bytes, the least recently used dropped.

    Args:
        most: How many are kept.
        most_bytes: How many bytes their documents have together.
    """

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._bytes = 0
        # Long documents are read in a thread.
        self._lock = Lock()
        self._kept: OrderedDict[bytes, tuple[Prepared, int]] = OrderedDict()

    def get(self, data: bytes, key: str, compile_it: Callable[[], Prepared]) -> Prepared:
        if len(data) > MAX_KEPT_DOCUMENT:
            return compile_it()
        # A file name that is no UTF-8 has halves of pairs in it.
        digest = blake2b(key.encode(errors="surrogatepass") + data, digest_size=20).digest()
        with self._lock:
            found = self._kept.get(digest)
            if found is not None:
                self._kept.move_to_end(digest)
                return found[0]
        made = compile_it()
        with self._lock:
            found = self._kept.get(digest)
            if found is not None:
                # Another thread has been as far: all are to share one plan.
                return found[0]
            self._kept[digest] = made, len(data)
            self._bytes += len(data)
            while len(self._kept) > self._most or self._bytes > self._most_bytes:
                _, (_, size) = self._kept.popitem(last=False)
                self._bytes -= size
        return made


_PLANS: Final = Plans(MAX_PLANS, MAX_KEPT_BYTES)


def prepare(
    data: bytes,
    *,
    name: str,
    format: str | None = None,  # noqa: A002  the word users know
    installed: Installed = NOTHING,
    supplied: Supplied = NOTHING_SUPPLIED,
) -> Prepared:
    """Read, check and compile a document's bytes, or take the plan that is kept of them.

    Args:
        data: The document.
        name: What errors call it, a file name mostly.
        format: The name of its format; None to go by its own name, then by its look.
        installed: What is installed beside it: what it may name, and what it may not.
        supplied: What it may refer to beyond what it defines itself.

    Raises:
        DocumentError: With every problem of the document.
        FormatRefused: There is no such format.
        EffortExceeded: It takes longer than whoever asks for it wants to wait.
    """

    def compile_it() -> Prepared:
        effort().spend(len(data) // READ_IN_A_STEP)
        document = read_document(
            data,
            name=name,
            format=format,
            formats=installed.formats,
            component_types=installed.provided,
            refused=installed.refused,
            supplied=supplied,
        )
        try:
            plan = make_plan(document, name=name)
        except DocumentError as error:
            raise supplied.relocate(error) from None
        warnings = map(supplied.locate, (*document.warnings, *plan.graph.warnings))
        return Prepared(name, plan, tuple(warnings))

    read_with = (
        f"{format}\0{installed.formats.serial}\0{installed.digest}\0{supplied.digest}"
    )
    return _PLANS.get(data, f"{read_with}\0{name}\0", compile_it)


def load(
    path: str,
    *,
    format: str | None = None,  # noqa: A002  the word users know
    installed: Installed = NOTHING,
    supplied: Supplied = NOTHING_SUPPLIED,
) -> Prepared:
    """Prepare the document in a file.

    Raises:
        UnreadableFile: It can't be read.
        DocumentError: With every problem of the document.
    """
    return prepare(
        _read_file(path), name=path, format=format, installed=installed, supplied=supplied
    )


def supply(paths: Iterable[str], installed: Installed = NOTHING) -> Supplied:
    """Read files of components that documents may refer to.

    Raises:
        UnreadableFile: One can't be read.
        DocumentError: One holds something else.
    """
    files = ((path, _read_file(path)) for path in paths)
    return read_supplied(files, formats=installed.formats)


DOCUMENTS: Final = (".json", ".yaml", ".yml")
"""How the names of documents end, but for those of formats that plugins read."""


def _read_file(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            # A pipe has no size: one byte more than fits tells that it is too large.
            data = b"" if size > MAX_DOCUMENT else file.read(MAX_DOCUMENT + 1)
    except OSError as error:
        raise UnreadableFile(
            f"cannot read it: {error.strerror or error}",
            where=path,
            fix=near_file(path, DOCUMENTS),
        ) from error
    if size > MAX_DOCUMENT:
        raise UnreadableFile(
            f"it has {size >> 20} MiB, and a document has at most {MAX_DOCUMENT >> 20}",
            where=path,
            fix="Check that it is the document you mean.",
        )
    return data
