"""``heddle plugin new``: a policy, its manifest and a test that run at once.

The files are the templates in ``heddle/cli/policies``, with names put in.
"""

import keyword
import re
import shlex
import sys
from pathlib import Path
from typing import Final, NamedTuple

import click

from heddle.cli.exits import WrongUsage
from heddle.cli.init import CannotWrite, make, undo
from heddle.cli.options import debug_option
from heddle.cli.wording import line

TEMPLATES: Final = Path(__file__).parent / "policies"


# Modules that a policy imports, beside those of Python itself.
OURS: Final = ("heddle", "msgspec", "plugins_host")


class Written(NamedTuple):
    """What a language's plugin is made of: template and file name, and how it is tested."""

    files: tuple[tuple[str, str], ...]
    test: str
    separator: str


LANGUAGES: Final = {
    "py": Written(
        (
            ("policy.json", "{module}.json"),
            ("policy.py", "{module}.py"),
            ("test_policy.py", "test_{module}.py"),
        ),
        "python test_{module}.py",
        "_",
    ),
    "js": Written(
        (
            ("policy.json", "{module}.json"),
            ("policy.mjs", "{module}.mjs"),
            ("policy.test.mjs", "{module}.test.mjs"),
        ),
        "node --test",
        "-",
    ),
}

NEXT: Final = """\
{folder}/ holds a policy that gates tool calls, its manifest and a test. Try them:

  cd {folder}
  {test}
  heddle plugin check {module}.json

And with a flow that uses tools:

  heddle run flow.json --plugin {folder}/{module}.json \\
    --plugin-config {Type}='{{"words": ["rm"]}}'
"""


@click.command(
    "new",
    short_help="Write a policy, its manifest and a test.",
    epilog="""\b
Examples:
  heddle plugin new approval-gate --kind middleware
  heddle plugin new approval-gate --kind middleware --language js
""",
)
@click.argument("name", type=click.Path())
@click.option(
    "--kind",
    type=click.Choice(["middleware"]),
    default="middleware",
    show_default=True,
    help="What the plugin is.",
)
@click.option(
    "--language",
    type=click.Choice(list(LANGUAGES)),
    default="py",
    show_default=True,
    help="What it is written in.",
)
@debug_option
def command(name: str, kind: str, language: str) -> None:  # noqa: ARG001  one kind so far
    """Write the folder NAME with a policy that runs at once. Nothing is overwritten."""
    folder = Path(name)
    written = LANGUAGES[language]
    words = words_of(folder.name)
    names = {
        "{name}": "-".join(words),
        "{module}": written.separator.join(words),
        "{Type}": "".join(word[0].upper() + word[1:] for word in words),
    }
    names["{test}"] = filled(written.files[-1][1], names)
    refuse_taken(names["{Type}"], names["{module}"] if language == "py" else "")
    try:
        write(folder, written, names)
    except OSError as error:
        raise CannotWrite(
            f"cannot be written: {error.strerror or error}",
            where=line(str(error.filename or folder)),
        ) from error
    click.echo(
        NEXT.format(
            folder=shlex.quote(line(name)),
            module=names["{module}"],
            Type=names["{Type}"],
            test=filled(written.test, names),
        ),
        nl=False,
    )


def words_of(name: str) -> list[str]:
    """The words of a plugin's name, of which files and a component type are named.

    Raises:
        WrongUsage: It cannot be made into these names.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name):
        raise WrongUsage(
            f"{name!r} cannot name a plugin",
            where="NAME",
            fix="Use letters, digits and '-', and begin with a letter.",
        )
    words = re.findall(r"[A-Za-z0-9]+", name)
    return [
        word.lower() if word.isupper() else word[0].lower() + word[1:] for word in words
    ]


def refuse_taken(component_type: str, module: str) -> None:
    """Refuse names that would stand in the way of what has them already.

    Raises:
        WrongUsage: Agent Spec has the component type, or Python the module.
    """
    from heddle.spec import COMPONENTS

    what = ""
    if component_type in COMPONENTS:
        what = f"Agent Spec has a component type {component_type!r}"
    elif keyword.iskeyword(module):
        what = f"{module!r} is a word of Python, which no module can have as its name"
    elif module in sys.stdlib_module_names or module in OURS:
        what = f"a module {module!r} would hide the one that Python programs import"
    if what:
        fix = f"Call it {component_type.lower()}-policy, or what you like."
        raise WrongUsage(what, where="NAME", fix=fix)


def filled(template: str, names: dict[str, str]) -> str:
    """A template with its names put in."""
    for placeholder, name in names.items():
        template = template.replace(placeholder, name)
    return template


def write(folder: Path, written: Written, names: dict[str, str]) -> None:
    """Write all files, or none where one is in the way.

    Raises:
        WrongUsage: The folder is there and not empty.
        OSError: A file cannot be written; those written before are removed.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise WrongUsage(
            "it exists already, and nothing is overwritten",
            where=line(str(folder)),
            fix="Choose another name, or remove it first.",
        )
    made: list[Path] = []
    try:
        make(folder, made)
        for template, name in written.files:
            file = folder / filled(name, names)
            made.append(file)
            source = TEMPLATES / f"{template}.template"
            text = filled(source.read_text(encoding="utf-8"), names)
            # "x" refuses a file that appeared since we looked.
            with file.open("x", encoding="utf-8") as out:
                out.write(text)
    except OSError:
        undo(made)
        raise
