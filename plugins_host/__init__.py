"""Plugin processes: manifest, protocol, seams, chain and fleet. Knows actors.

Names are loaded when they are first used: a command that reads a manifest does not pay for
processes, and a plugin's own process pays for neither.

what is told between heddle and a plugin; knows no tasks, no processes
    seams            where policies are asked, as one table; `verdicts`: what they may say
    frames           JSON Lines: bytes in, frames out
    conversation     what goes to a model and comes back; `model_edits`: changed
    payload          a JSON value as text, as objects or both
    reverse          what a plugin may ask of heddle
plugins
    manifests/       what one says about itself
    loading/         from flags to what is ready to be asked
    consulting/      policies asked at a seam
    verbs/           what is asked of other components
    processes/       a plugin in a process of its own; `program`: what it takes to start it
    inprocess        one that is a module, asked without a process
    plugin_log       what is told of them; `plugin_faults`: what goes wrong with them
    checking/        ``heddle plugin check``
    testing          processes made of test code
the author's side
    authoring/       what an author sees, and how handlers are found and called
    serving/         what runs in a plugin's process; ``runtime/`` is that of JavaScript
how an error is told
    faults           what, where, how to fix it
    json_faults      where a text stops being JSON; `json_hints`: what to do about it
    json_schemas     how a value does not fit a schema
    near_files       which of the files that are there was meant
    shortages        what the machine has too little of
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from plugins_host.faults import Fault, nearest, one_of, sentence
from plugins_host.json_faults import json_flaw, not_json
from plugins_host.json_hints import json_hint
from plugins_host.near_files import near_file

if TYPE_CHECKING:
    from plugins_host.authoring.handlers import (
        Handlers,
        HandlerTable,
    )
    from plugins_host.checking.check import (
        Finding,
        check_plugin,
    )
    from plugins_host.consulting.chain import Chain
    from plugins_host.consulting.links import Asker, Asking, Link
    from plugins_host.consulting.outcomes import (
        AfterOutcome,
        BeforeOutcome,
        Erred,
        Failed,
        MiddlewareFailure,
        Outcome,
        Passed,
        PolicyWarning,
        Proceeded,
        Rejected,
        Replaced,
        RetryGranted,
        ShownError,
        Succeeded,
    )
    from plugins_host.consulting.rows import Open, Questions
    from plugins_host.consulting.walk import Walk
    from plugins_host.conversation import (
        Message,
        ModelRequest,
        ModelResponse,
        ToolCall,
        ToolDefinition,
        Usage,
    )
    from plugins_host.inprocess import (
        InProcessPlugin,
    )
    from plugins_host.loading.installed import (
        InProcess,
        LoadedPlugins,
        OutOfProcess,
        Plugin,
        PluginRefused,
    )
    from plugins_host.loading.load import BroughtPlugin, load_brought, load_plugins
    from plugins_host.manifests.manifest import (
        EncoderComponent,
        Kind,
        NodeComponent,
        PlainComponent,
        ProviderComponent,
        TransformComponent,
    )
    from plugins_host.manifests.problems import (
        ManifestError,
        ManifestProblem,
    )
    from plugins_host.manifests.schemas import (
        tool_schema_problem,
    )
    from plugins_host.model_edits import (
        response_fields,
    )
    from plugins_host.payload import (
        Payload,
    )
    from plugins_host.plugin_faults import (
        PluginFailed,
        PluginFault,
        PluginGone,
        PluginNotStarted,
        PluginOverdue,
        ProtocolBroken,
    )
    from plugins_host.plugin_log import PluginLine, PluginLog
    from plugins_host.processes.calls import CEILING
    from plugins_host.processes.fleet import (
        Fleet,
    )
    from plugins_host.processes.pipes import (
        PipeInlet,
        PipeOutlet,
        open_pipe,
    )
    from plugins_host.processes.process import (
        START_TIMEOUT,
        PluginProcess,
    )
    from plugins_host.program import (
        CAPABILITIES,
        PluginProgram,
        chosen_environment,
    )
    from plugins_host.reverse import (
        CallServices,
        ReverseRefused,
    )
    from plugins_host.seams import (
        HANDSHAKE_HALVES,
        MAX_DELAY_MS,
        SEAMS,
        AgentSubject,
        Half,
        NodePath,
        NodeSubject,
        Seam,
        Subject,
        ToolSubject,
    )
    from plugins_host.shortages import (
        Shortage,
        shortage,
    )
    from plugins_host.verbs.chatting import (
        CHAT,
        Assembly,
        Chunk,
        chat,
    )
    from plugins_host.verbs.encoding import (
        EncodedFrame,
        Encoder,
        EncoderFailed,
        Encoding,
        encode_all,
    )
    from plugins_host.verbs.rows import (
        APPLY,
        APPLY_POST,
        CALL_TOOL,
        EXECUTE,
        LIST_TOOLS,
        Answerer,
        AnswerRefused,
        Applied,
        Called,
        Executed,
        Listed,
        ListedTool,
        Served,
        Verb,
    )

_HOMES: Final = {
    "processes.calls": ("CEILING",),
    "consulting.chain": ("Chain",),
    "verbs.chatting": (
        "CHAT",
        "Assembly",
        "Chunk",
        "chat",
    ),
    "checking.check": (
        "Finding",
        "check_plugin",
    ),
    "conversation": (
        "Message",
        "ModelRequest",
        "ModelResponse",
        "ToolCall",
        "ToolDefinition",
        "Usage",
    ),
    "verbs.encoding": (
        "EncodedFrame",
        "Encoder",
        "EncoderFailed",
        "Encoding",
        "encode_all",
    ),
    "processes.fleet": ("Fleet",),
    "authoring.handlers": (
        "HandlerTable",
        "Handlers",
    ),
    "inprocess": ("InProcessPlugin",),
    "loading.installed": (
        "InProcess",
        "LoadedPlugins",
        "OutOfProcess",
        "Plugin",
        "PluginRefused",
    ),
    "consulting.links": (
        "Asker",
        "Asking",
        "Link",
    ),
    "loading.load": (
        "BroughtPlugin",
        "load_brought",
        "load_plugins",
    ),
    "manifests.manifest": (
        "EncoderComponent",
        "Kind",
        "NodeComponent",
        "PlainComponent",
        "ProviderComponent",
        "TransformComponent",
    ),
    "manifests.problems": (
        "ManifestError",
        "ManifestProblem",
    ),
    "manifests.schemas": ("tool_schema_problem",),
    "model_edits": ("response_fields",),
    "consulting.rows": ("Open", "Questions"),
    "consulting.walk": ("Walk",),
    "consulting.outcomes": (
        "AfterOutcome",
        "BeforeOutcome",
        "Erred",
        "Failed",
        "MiddlewareFailure",
        "Outcome",
        "Passed",
        "PolicyWarning",
        "Proceeded",
        "Rejected",
        "Replaced",
        "RetryGranted",
        "ShownError",
        "Succeeded",
    ),
    "payload": ("Payload",),
    "processes.pipes": (
        "PipeInlet",
        "PipeOutlet",
        "open_pipe",
    ),
    "plugin_faults": (
        "PluginFailed",
        "PluginFault",
        "PluginGone",
        "PluginNotStarted",
        "PluginOverdue",
        "ProtocolBroken",
    ),
    "plugin_log": (
        "PluginLine",
        "PluginLog",
    ),
    "processes.process": (
        "START_TIMEOUT",
        "PluginProcess",
    ),
    "program": (
        "CAPABILITIES",
        "PluginProgram",
        "chosen_environment",
    ),
    "reverse": (
        "CallServices",
        "ReverseRefused",
    ),
    "seams": (
        "HANDSHAKE_HALVES",
        "MAX_DELAY_MS",
        "SEAMS",
        "AgentSubject",
        "Half",
        "NodePath",
        "NodeSubject",
        "Seam",
        "Subject",
        "ToolSubject",
    ),
    "shortages": (
        "Shortage",
        "shortage",
    ),
    "verbs.rows": (
        "APPLY",
        "APPLY_POST",
        "CALL_TOOL",
        "EXECUTE",
        "LIST_TOOLS",
        "AnswerRefused",
        "Answerer",
        "Applied",
        "Called",
        "Executed",
        "Listed",
        "ListedTool",
        "Served",
        "Verb",
    ),
}
_HOME_OF: Final = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "APPLY",
    "APPLY_POST",
    "CALL_TOOL",
    "CAPABILITIES",
    "CEILING",
    "CHAT",
    "EXECUTE",
    "HANDSHAKE_HALVES",
    "LIST_TOOLS",
    "MAX_DELAY_MS",
    "SEAMS",
    "START_TIMEOUT",
    "AfterOutcome",
    "AgentSubject",
    "AnswerRefused",
    "Answerer",
    "Applied",
    "Asker",
    "Asking",
    "Assembly",
    "BeforeOutcome",
    "BroughtPlugin",
    "CallServices",
    "Called",
    "Chain",
    "Chunk",
    "EncodedFrame",
    "Encoder",
    "EncoderComponent",
    "EncoderFailed",
    "Encoding",
    "Erred",
    "Executed",
    "Failed",
    "Fault",
    "Finding",
    "Fleet",
    "Half",
    "HandlerTable",
    "Handlers",
    "InProcess",
    "InProcessPlugin",
    "Kind",
    "Link",
    "Listed",
    "ListedTool",
    "LoadedPlugins",
    "ManifestError",
    "ManifestProblem",
    "Message",
    "MiddlewareFailure",
    "ModelRequest",
    "ModelResponse",
    "NodeComponent",
    "NodePath",
    "NodeSubject",
    "Open",
    "OutOfProcess",
    "Outcome",
    "Passed",
    "Payload",
    "PipeInlet",
    "PipeOutlet",
    "PlainComponent",
    "Plugin",
    "PluginFailed",
    "PluginFault",
    "PluginGone",
    "PluginLine",
    "PluginLog",
    "PluginNotStarted",
    "PluginOverdue",
    "PluginProcess",
    "PluginProgram",
    "PluginRefused",
    "PolicyWarning",
    "Proceeded",
    "ProtocolBroken",
    "ProviderComponent",
    "Questions",
    "Rejected",
    "Replaced",
    "RetryGranted",
    "ReverseRefused",
    "Seam",
    "Served",
    "Shortage",
    "ShownError",
    "Subject",
    "Succeeded",
    "ToolCall",
    "ToolDefinition",
    "ToolSubject",
    "TransformComponent",
    "Usage",
    "Verb",
    "Walk",
    "chat",
    "check_plugin",
    "chosen_environment",
    "encode_all",
    "json_flaw",
    "json_hint",
    "load_brought",
    "load_plugins",
    "near_file",
    "nearest",
    "not_json",
    "one_of",
    "open_pipe",
    "response_fields",
    "sentence",
    "shortage",
    "tool_schema_problem",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
