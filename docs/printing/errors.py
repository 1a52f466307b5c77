"""The page of errors: every class whose name a person can meet, and what to do about it.

What a class means is its docstring; what to do is the table here. An error's own sentence
says what, where and how to fix that one; this page is for its kind.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator, Mapping
from typing import Final

import heddle
import plugins_host
from heddle.cli.exits import STATUSES as EXIT_STATUSES
from heddle.server.failures import STATUSES as HTTP_STATUSES
from heddle.server.http import ERROR_TYPES
from plugins_host import Fault

OURS: Final = "Report it, with the log's lines about that run: it is a bug in heddle."
SHORT: Final = "Raise the limit it names, or make room. On a server: the operator's."
AUTHOR: Final = "For the plugin's author: `heddle plugin check MANIFEST` shows the frame."

KINDS: Final[Mapping[str, Mapping[str, str]]] = {
    "Documents": {
        "DocumentError": "Change the document at the paths it gives. `heddle validate` "
        "quotes the lines.",
        "FormatRefused": "Name one of the formats it lists with `--format`, or remove the "
        "plugin that brings the second one of that name.",
        "PatternInvalid": "Correct the pattern in the schema.",
        "EffortExceeded": "Make the schema or the value smaller: fewer alternatives, fewer "
        "items.",
        "TextTooLong": "Put less into the template, or fewer placeholders.",
        "TypeConversionError": "Give the value in the declared type, or declare the type "
        "that is meant.",
        "UnreadableFile": "Check the path and its permissions.",
        "EndpointInvalid": "Correct the LLM configuration's URL or fields.",
        "CredentialMissing": "Set the variable it names in heddle's environment.",
    },
    "Plugins, settings and tools, before anything runs": {
        "ManifestError": "Correct the manifest at the paths it gives.",
        "SubscriptionError": "Use a seam and half of [the table](../seams.md).",
        "ProgramMissing": "Install what the manifest's `command` or `entryPoint` names.",
        "PluginRefused": "Remove or rename one of the two, as it says.",
        "ModuleUnusable": "Make the module importable: its own error is quoted.",
        "FormatInvalid": "Correct `formats` in the module.",
        "SettingsError": "Correct the value of `--plugin-config`; the schema's path is in "
        "the error.",
        "PolicyModelInvalid": "Correct the LLM configuration in the policy's settings.",
        "NotServedYet": "Remove that component from the manifest.",
        "TypeTaken": "Give the component another type.",
        "ToolsMissing": "Put executables of these names into `--tools-dir`.",
        "ToolFolderInvalid": "Correct the folder: one file a tool name, readable.",
        "ToolTaken": "Rename one, or say `shadows` in the manifest.",
        "ToolsNotListed": "Look at the plugin's stderr; it did not list its tools.",
        "McpMissing": "`pip install heddle[mcp]`.",
        "CannotWrite": "Choose a folder that can be written.",
        "Shortage": SHORT,
        "WrongUsage": "See `--help`.",
    },
    "Runs": {
        "InputsRefused": "Give the inputs it names, in their types.",
        "StartRefused": "The same.",
        "NodeFailed": "Read the cause behind it: that is what to mend.",
        "LimitReached": "Look for a loop that does not end; else raise the flag it names.",
        "RunTimedOut": "Raise `--timeout`, or find what was slow with `--verbose`.",
        "NoWayOn": "Give the node a default edge, or the branch the edge it lacks.",
        "RefusedByPolicy": "The flow is not at fault: ask who runs heddle, or change what "
        "the policy objects to.",
        "PolicyFailed": "The operator's: mend or remove the policy it names.",
        "RunFailed": "Read its sentence; it is the base of the others.",
        "OutputFailed": "Make room, or do not close heddle's stdout before its end.",
        "Interrupted": "Nothing: Ctrl-C did it.",
        "Terminated": "Nothing: SIGTERM did it.",
        "HungUp": "Nothing: the terminal went away.",
        "Unanswered": "Give a line for each question, or run it on a terminal.",
    },
    "Nodes": {
        "NodeFault": "Read its sentence; it is the base of the others.",
        "InputMissing": "Connect the input, give it a default, or pass it with `--input`.",
        "InputMismatch": "Convert the value in the node before, or correct the type.",
        "OutputMismatch": "Make the node give what its outputs declare, or declare what it "
        "gives.",
        "BranchUnknown": "The node's plugin has to choose a branch of the document.",
        "SubflowFailed": "Read the cause behind it, at the path of nodes it gives.",
        "NodeStopped": "Nothing: what it was part of ended first.",
        "NobodyToAsk": "Run it with `-i`, or give the answer as an input.",
        "StoppedByPolicy": "As it says; a policy at `nodeError` may retry or replace it.",
        "AgentStopped": "Tighten the agent's instructions: ten rounds did not do.",
        "TeamStopped": "The same, for all agents of the node.",
        "RequestRefused": "Correct the URL, headers or body that these values make.",
        "EngineFault": OURS,
        "OutOfResources": SHORT,
        "NothingRemote": OURS,
    },
    "Tools": {
        "ToolFault": "Read its sentence; it is the base of the others.",
        "UnknownTool": "Put an executable of this name into `--tools-dir`.",
        "ToolUnusable": "`chmod +x` it, and install the interpreter of its first line.",
        "ToolFailed": "Read the tool's stderr, which is quoted.",
        "ToolTimedOut": "Raise `--tool-timeout`, or make the tool faster.",
        "ToolAnswerInvalid": "Print one JSON object on stdout, and the rest on stderr.",
        "ToolInputRefused": "Call it with what its `inputSchema` asks for.",
        "ToolPluginFailed": "Mend the plugin that serves the tool.",
        "ToolCallRefused": "Nothing: the model was told and may do better.",
        "CallRefusedByPolicy": "Nothing: the model was told the reason.",
        "CallCancelled": "Nothing: the run was stopped.",
        "Unconfirmed": "Run it with `-i`, where a person is asked.",
        "RefusedByPerson": "Nothing: the model was told.",
        "WorkspaceFailed": "Make room in `$TMPDIR`, or set another.",
        "ToolServerFault": "Mend the tool server, or the document's account of it.",
        "ServerUnreachable": "Start the tool server, or correct its command or URL.",
    },
    "Models": {
        "ModelError": "Read its sentence; it is the base of the others.",
        "RequestInvalid": "Clean the text it points to: it cannot be sent.",
        "ModelUnreachable": "Check the URL and the network.",
        "ModelTimedOut": "Try again, or a faster model; a policy at `modelCall` can retry.",
        "ModelProtocolError": "Check that the URL speaks the configuration's protocol.",
        "ModelRefused": "Read the provider's words, which are quoted.",
        "ModelRateLimited": "Wait `retryAfterMs`; a policy at `modelCall` can.",
        "ModelServerError": "Try again later.",
        "ProviderFailed": "Look at the plugin that provides the model.",
        "ScriptFault": "Correct the script of the scripted model.",
    },
    "Requests to services": {
        "AttemptFailed": "Read its sentence; models and services have their own.",
        "RemoteError": "Read its sentence; it is the base of the others.",
        "RemoteUnreachable": "Check the URL and the network.",
        "RemoteTimedOut": "Give it a `retry_policy`, or a faster service.",
        "RemoteProtocolError": "Check that the URL is HTTP, and that the answer is not "
        "larger than is taken.",
        "RemoteRefused": "Read the service's words, which are quoted.",
    },
    "Policies and plugins at work": {
        "MiddlewareFailure": "The operator's: mend or remove the policy it names.",
        "VerdictError": AUTHOR,
        "EditError": AUTHOR,
        "AnswerShape": AUTHOR,
        "AnswerRefused": AUTHOR,
        "WrongAnswer": AUTHOR,
        "FrameError": AUTHOR,
        "ProtocolBroken": AUTHOR,
        "ReverseRefused": "Grant it in the manifest, and make it inside of a consultation.",
        "PluginFault": "Read its sentence; it is the base of the others.",
        "PluginNotStarted": "Run the manifest's command by hand: its stderr is quoted.",
        "PluginGone": "Look at how the process ended; the next call starts a new one.",
        "PluginOverdue": "Raise `--plugin-timeout`, or make the plugin answer.",
        "PluginFailed": "The plugin's own error is quoted.",
        "PluginUnknown": OURS,
        "PluginNotOpen": OURS,
        "EncoderFailed": "Mend the encoder; the run itself went on.",
        "EncoderBehind": "Make the encoder faster, or read `protocol=heddle`.",
    },
    "The server": {
        "SubmissionRefused": "Leave out what only the operator may set.",
        "RunsRefused": "Come again later.",
        "TooManyRuns": "Come again after `Retry-After`; the operator may raise "
        "`--max-concurrent`.",
        "Draining": "Come again: another server takes over.",
        "RunCancelled": "Nothing: somebody cancelled it, or its caller left.",
        "RunBroke": OURS,
        "CodeNotWritten": "The operator's: make room in `$TMPDIR`.",
        "Refusal": "Correct the request; the types below say what is wrong with it.",
        "Unreachable": "Ask again: a worker is gone or does not answer. In "
        "`heddle.client`: check the server's address.",
        "HandlerMisuse": OURS,
        "CannotListen": "Choose another address, or stop what has that one.",
        "CannotStart": "Correct the flag it names.",
        "WorkerFailed": "What the worker said is quoted.",
    },
    "`heddle.client`": {
        "ClientFault": "Read its sentence; it is the base of the others.",
        "AddressInvalid": "Give an address such as `http://127.0.0.1:4319`.",
        "Refused": "The server's answer is in it, with the types of this page.",
    },
}

OPENING: Final = """\
# Errors

{printed}

An error is one short paragraph: what failed, where (file, JSON path, node, policy,
plugin, seam) and what to do. `heddle` prints it on stderr; `--debug` adds a traceback. A
server answers `{{"error": {{"type": …, "message": …}}}}`. The type is a name of this
page, and so is the `name` in an event's `error` and in the `outcome.error` that policies
are shown.

## Exit statuses of `heddle`

| status | when |
|---|---|
| 0 | done |
| 1 | the run or the document failed, or its output could not be written |
| 2 | wrong usage |
| 130, 143, 129 | ended by SIGINT, SIGTERM, SIGHUP |
"""


def faults() -> dict[str, type[Fault]]:
    """Every class of `Fault` there is, by its name."""
    for package in (plugins_host, heddle):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    found: list[type[Fault]] = []
    waiting = Fault.__subclasses__()
    while waiting:
        each = waiting.pop()
        found.append(each)
        waiting += each.__subclasses__()
    ours = [each for each in found if each.__module__.startswith(("heddle.", "plugins_"))]
    # Several have one name: what the engine or the host means by it is what is explained.
    ours.sort(key=lambda each: (_rank(each.__module__), each.__module__), reverse=True)
    return {each.__name__: each for each in ours}


def _rank(module: str) -> int:
    lowest = ("plugins_host.", "heddle.engine", "heddle.server", "heddle.cli")
    return next((at for at, name in enumerate(lowest) if module.startswith(name)), 4)


def _status(each: type[Fault], statuses: Mapping[type, int]) -> str:
    return str(next((statuses[base] for base in each.__mro__ if base in statuses), "–"))


def page(printed: str) -> Iterator[str]:
    """The page, line by line."""
    yield OPENING.format(printed=printed)
    yield "## Types of HTTP errors that have no class"
    yield ""
    yield "| status | type |"
    yield "|---|---|"
    for status, name in sorted(ERROR_TYPES.items()):
        yield f"| {int(status)} | `{name}` |"
    known = faults()
    for kind, rows in KINDS.items():
        yield ""
        yield f"## {kind}"
        yield ""
        yield "| error | what it means | what to do | exit | HTTP |"
        yield "|---|---|---|---|---|"
        for name, advice in rows.items():
            each = known[name]
            meaning = " ".join((inspect.getdoc(each) or "").split("\n\n")[0].split())
            yield (
                f"| `{name}` | {meaning.replace('``', '`')} | {advice} "
                f"| {_status(each, EXIT_STATUSES)} | {_status(each, HTTP_STATUSES)} |"
            )
