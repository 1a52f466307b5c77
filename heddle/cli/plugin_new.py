"""``heddle plugin new``: a plugin of any kind, its manifest and a test that run at once.

The files are the templates in ``heddle/cli/plugins``, a folder a kind, with names put in.
"""

import keyword
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import click

from heddle.cli.exits import WrongUsage
from heddle.cli.new_files import NewFile, write_project
from heddle.cli.options import debug_option
from heddle.cli.text.wording import line
from heddle.flags import GuessedChoice

TEMPLATES: Final = Path(__file__).parent / "plugins"


# Modules that a plugin imports, beside those of Python itself.
OURS: Final = ("heddle", "msgspec", "plugins_host")


class Written(NamedTuple):
    """What a language's plugin is made of: template and file name, and how it is tested."""

    files: tuple[tuple[str, str], ...]
    test: str
    separator: str


LANGUAGES: Final = {
    "py": Written(
        (
            ("manifest.json", "{module}.json"),
            ("plugin.py", "{module}.py"),
            ("test.py", "test_{module}.py"),
        ),
        "python test_{module}.py",
        "_",
    ),
    "js": Written(
        (
            ("manifest.json", "{module}.json"),
            ("plugin.mjs", "{module}.mjs"),
            ("test.mjs", "{module}.test.mjs"),
        ),
        "node --test",
        "-",
    ),
}


class Kind(NamedTuple):
    """What the plugin of a kind does, and how it is used; whether a flow that uses it is
    written as well."""

    does: str
    used: str
    with_flow: bool = True


FLOW: Final = ("flow.json", "flow.json")
"""Template and file name of a flow that uses the plugin."""
WITH_FLOW: Final = "heddle run {folder}/flow.json --plugin {folder}/{module}.json"
KINDS: Final[Mapping[str, Kind]] = {
    "middleware": Kind(
        "a policy that gates tool calls",
        """And with a flow that uses tools, such as that of heddle init, with its fox:

  heddle run flow.json --plugin {folder}/{module}.json --tools-dir tools \\
    --plugin-config {Type}='{{"words": ["fox"]}}'

Without these words it refuses 'rm -rf' and 'sudo'. --verbose shows what it lets pass.
""",
        with_flow=False,
    ),
    "node": Kind(
        "a node that counts words and branches",
        f"""And in a flow, such as {{folder}}/flow.json, with edges from its branches
'short' and 'long':

  {{{{"component_type": "{{Type}}", "name": "count", "limit": 10}}}}

  {WITH_FLOW}
""",
    ),
    "transform": Kind(
        "a transform that shortens conversations",
        f"""And in a flow, such as {{folder}}/flow.json, among the 'transforms' of an Agent:

  {{{{"component_type": "{{Type}}", "name": "shorten", "keep": 20}}}}

  {WITH_FLOW}
""",
    ),
    "component": Kind(
        "a component of configuration and a node that uses it",
        f"""And in a flow, such as {{folder}}/flow.json:

  {{{{"component_type": "{{Type}}Node", "name": "greet", "style":
   {{{{"component_type": "{{Type}}", "name": "style", "greeting": "Hello"}}}}}}}}

  {WITH_FLOW}
""",
    ),
    "provider": Kind(
        "a provider of models that repeats what it is asked",
        f"""And in a flow, such as {{folder}}/flow.json, as the 'llm_config' of an agent
or an LlmNode:

  {{{{"component_type": "{{Type}}", "name": "model"}}}}

  {WITH_FLOW}
""",
    ),
    "encoder": Kind(
        "an encoder that shows the text of models",
        f"""And with any flow, such as {{folder}}/flow.json:

  {WITH_FLOW} --protocol {{protocol}}
""",
    ),
    "tools": Kind(
        "a tool that counts words",
        f"""And in a flow, such as {{folder}}/flow.json, in a ToolNode or among the 'tools'
of an Agent:

  {{{{"component_type": "ServerTool", "name": "{{tool}}"}}}}

  {WITH_FLOW}
""",
    ),
}

NEXT: Final = """\
{folder}/ holds {does}, its manifest{flow} and a test. Try them:

  (cd {folder} && {test})
  heddle plugin check {folder}/{module}.json

"""


@click.command(
    "new",
    short_help="Write a plugin, its manifest and a test.",
    epilog="""\b
Examples:
  heddle plugin new approval-gate --kind middleware
  heddle plugin new word-router --kind node --language js
""",
)
@click.argument("name", type=click.Path())
@click.option(
    "--kind",
    type=GuessedChoice(list(KINDS)),
    default="middleware",
    show_default=True,
    help="What the plugin is.",
)
@click.option(
    "--language",
    type=GuessedChoice(list(LANGUAGES)),
    default="py",
    show_default=True,
    help="What it is written in.",
)
@debug_option
def command(name: str, kind: str, language: str) -> None:
    """Write the folder NAME with a plugin that runs at once. Nothing is overwritten."""
    folder = Path(name)
    written = LANGUAGES[language]
    words = words_of(folder.name)
    names = {
        "{name}": "-".join(words),
        "{module}": written.separator.join(words),
        "{Type}": "".join(word[0].upper() + word[1:] for word in words),
        "{tool}": "_".join(words),
        "{protocol}": "-".join(words).lower(),
    }
    names["{test}"] = filled(written.files[-1][1], names)
    refuse_taken(names["{Type}"], names["{module}"] if language == "py" else "")
    templates = (*written.files, FLOW) if KINDS[kind].with_flow else written.files
    write_project(folder, files_of(TEMPLATES / kind, templates, names))
    shown = {
        "folder": shlex.quote(line(name)),
        "does": KINDS[kind].does,
        "flow": ", a flow" if KINDS[kind].with_flow else "",
        "test": filled(written.test, names),
        **{placeholder.strip("{}"): each for placeholder, each in names.items()},
    }
    shown["test"] = filled(written.test, names)
    click.echo((NEXT + KINDS[kind].used).format(**shown), nl=False)


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
    elif component_type == "Heddle":
        what = "that is what heddle itself is called"
    elif module in sys.stdlib_module_names or module in OURS:
        what = f"a module {module!r} would hide the one that Python programs import"
    if what:
        fix = f"Call it my-{component_type.lower()}, or what you like."
        raise WrongUsage(what, where="NAME", fix=fix)


def filled(template: str, names: dict[str, str]) -> str:
    """A template with its names put in."""
    for placeholder, name in names.items():
        template = template.replace(placeholder, name)
    return template


def files_of(
    folder: Path, templates: Iterable[tuple[str, str]], names: dict[str, str]
) -> Iterator[NewFile]:
    """The files that templates of a folder become, given as template and file name."""
    for template, name in templates:
        text = (folder / f"{template}.template").read_text(encoding="utf-8")
        yield NewFile(filled(name, names), filled(text, names).encode())
