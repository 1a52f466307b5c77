"""``heddle init``: a folder with a flow and a tool that run at once, without a credential.

The files are those of ``heddle/cli/demo``; the flow asks the scripted model that comes
with heddle.
"""

import shlex
from contextlib import suppress
from pathlib import Path
from typing import Final

import click

from heddle.cli.exits import WrongUsage
from heddle.cli.options import debug_option
from heddle.cli.wording import line
from plugins_host import Fault

TEMPLATE: Final = Path(__file__).parent / "demo"
# What is written, and whether it can be run.
FILES: Final = {"flow.json": False, "tools/count_words": True}

NEXT: Final = """\
{folder}/flow.json and {folder}/tools/count_words are written. Run them:

  cd {quoted}
  heddle run flow.json --tools-dir tools
  heddle run flow.json --tools-dir tools --input '{{"text": "Count these four words"}}'

The model is a script inside flow.json. For a real one, change "llm_config" there:

  "url"         http://localhost:11434/v1 for Ollama, https://api.openai.com/v1, …
  "model_id"    the model's name
  "api_key"     "$OPENAI_API_KEY" or another variable, where the model wants a key
  "metadata"    remove it
"""


class CannotWrite(Fault):
    """A file of a new project cannot be written."""


@click.command(
    "init",
    short_help="Write a flow and a tool to start from.",
    epilog="""\b
Example:
  heddle init demo
  cd demo
  heddle run flow.json --tools-dir tools
""",
)
@click.argument("name", type=click.Path())
@debug_option
def command(name: str) -> None:
    """Write the folder NAME with a flow and a tool that run at once.

    No model and no credential is needed. Nothing is overwritten.
    """
    if not name:
        raise WrongUsage("it is empty", where="NAME", fix="Name the folder to make.")
    folder = Path(name)
    try:
        write(folder)
    except OSError as error:
        raise CannotWrite(
            f"cannot be written: {error.strerror or error}",
            where=line(str(error.filename or folder)),
        ) from error
    click.echo(NEXT.format(folder=line(name), quoted=shlex.quote(line(name))), nl=False)


def write(folder: Path) -> None:
    """Write all files, or none where one is in the way.

    Raises:
        WrongUsage: A file or folder of that name exists already.
        OSError: One cannot be written; those written before are removed.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise WrongUsage(
            "it exists already, and nothing is overwritten",
            where=line(str(folder)),
            fix="Choose another name, or remove it first.",
        )
    made: list[Path] = []
    try:
        for name, runs in FILES.items():
            file = folder / name
            for parent in (folder, file.parent):
                make(parent, made)
            # "x" refuses a file that appeared since we looked; it is not ours to remove.
            with file.open("xb") as out:
                made.append(file)
                out.write((TEMPLATE / name).read_bytes())
            file.chmod(0o755 if runs else 0o644)
    except OSError:
        undo(made)
        raise


def make(folder: Path, made: list[Path]) -> None:
    """Make a folder and those it is in, noting each that was not there."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir()
        made.append(each)


def undo(made: list[Path]) -> None:
    """Remove what was made, in reverse."""
    for path in reversed(made):
        with suppress(OSError):
            path.rmdir() if path.is_dir() else path.unlink()
