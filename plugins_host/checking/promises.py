"""What a manifest promises, as example questions that a plugin can be asked.

    for promise in promises(manifest, settings):
        promise.label      "RetryPolicy nodeError.after, a node that failed"

Each question is one that heddle could put; nothing here asks it.
"""

from collections.abc import Iterator
from typing import TypeAlias

from msgspec import Struct

from plugins_host.checking import examples
from plugins_host.checking.verbs import (
    Verb,
    encoder_verbs,
    list_tools_verb,
    node_verb,
    provider_verb,
    store_verbs,
    tool_verb,
    transform_verb,
)
from plugins_host.consulting.outcomes import Outcome
from plugins_host.manifests.manifest import (
    Component,
    EncoderComponent,
    Manifest,
    MiddlewareComponent,
    NodeComponent,
    Phase,
    PlainComponent,
    ProviderComponent,
    StoreComponent,
    TransformComponent,
)
from plugins_host.payload import Payload
from plugins_host.seams import Half, Seam, Subject


class Consultation(Struct, frozen=True):
    """One half of one seam, asked of one middleware or of several together."""

    label: str
    components: tuple[MiddlewareComponent, ...]
    seam: Seam
    half: Half
    subject: Subject
    given: Payload | None
    outcome: Outcome | None


Promise: TypeAlias = Consultation | Verb


def promises(manifest: Manifest, *, workspace: str = "") -> Iterator[Promise]:
    """The questions that a manifest says its plugin answers, in its order.

    ``workspace`` is a folder for nodes; without one they are told that there is none.
    """
    for component in manifest.components:
        yield from _of_component(component, workspace)
    for tool in manifest.tools:
        if tool.component_type is not None:
            yield tool_verb(tool)
    if manifest.discover_tools:
        yield list_tools_verb()


def together(manifest: Manifest) -> Iterator[Consultation]:
    """The same questions as far as several middleware of the manifest answer them."""
    for (seam, half), shown in examples.HALVES.items():
        asked = tuple(c for c in manifest.middleware if half in c.seams.get(seam, ()))
        if len(asked) > 1:
            names = ", ".join(each.component_type for each in asked)
            yield _consultation(f"{names} together", asked, seam, half, shown[0])


def _of_component(component: Component, workspace: str) -> Iterator[Promise]:
    name = component.component_type
    match component:
        case MiddlewareComponent():
            for (seam, half), shown in examples.HALVES.items():
                if half in component.seams.get(seam, ()):
                    for example in shown:
                        yield _consultation(name, (component,), seam, half, example)
        case NodeComponent():
            yield node_verb(component, workspace)
        case TransformComponent():
            for phase in (Phase.PRE, Phase.POST):
                if component.phase in (phase, Phase.BOTH):
                    yield transform_verb(component, phase)
        case ProviderComponent():
            for stream in (False, True) if component.stream else (False,):
                yield provider_verb(component, stream=stream)
        case EncoderComponent():
            yield from encoder_verbs(name)
        case StoreComponent():
            yield from store_verbs(name)
        case PlainComponent():
            pass
        case _:  # pragma: no cover  Component has no other subclasses
            raise AssertionError(component)


def _consultation(
    name: str,
    components: tuple[MiddlewareComponent, ...],
    seam: Seam,
    half: Half,
    example: examples.Example,
) -> Consultation:
    return Consultation(
        f"{name} {seam}.{half}, {example.about}",
        components,
        seam,
        half,
        example.subject,
        example.given,
        example.outcome,
    )
