"""``heddle init``: a folder with a flow and a tool that run at once, without a credential.

The files are those of ``heddle/cli/demo``; the flow asks the scripted model that comes
with heddle.
"""

import shlex
from pathlib import Path
from typing import Final

import click

from heddle.cli.exits import WrongUsage
from heddle.cli.new_files import NewFile, write_project
from heddle.cli.options import debug_option
from heddle.cli.text.wording import line

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
    files = (
        NewFile(each, (TEMPLATE / each).read_bytes(), 0o755 if runs else 0o644)
        for each, runs in FILES.items()
    )
    write_project(Path(name), files)
    click.echo(NEXT.format(folder=line(name), quoted=shlex.quote(line(name))), nl=False)
