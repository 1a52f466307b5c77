"""Generation parameters of a model: those that Agent Spec names, and what else is sent."""

from typing import Any, Final

import msgspec

from heddle.spec.llms import LlmGenerationConfig
from heddle.spec.problems import Path, Problems

_NAMED: Final[tuple[str, ...]] = ("max_tokens", "temperature", "top_p")


def read_parameters(
    value: dict[str, Any], path: Path, problems: Problems
) -> LlmGenerationConfig | None:
    """The parameters that a document gives; None when their problems were added."""
    named = {key: value[key] for key in _NAMED if key in value}
    extras = {key: inner for key, inner in value.items() if key not in named}
    try:
        return msgspec.convert({**named, "extras": extras}, LlmGenerationConfig)
    except msgspec.ValidationError:
        from heddle.spec.mismatches import explain_fields

        explain_fields(LlmGenerationConfig, named, path, problems)
        return None
