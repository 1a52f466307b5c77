"""Why a value doesn't fit a struct, in words, read off the struct's annotations.

msgspec decides whether a value fits, and stops at the first thing that doesn't. These
functions look at what it refused again, field by field and item by item, and name
everything that is wrong.
"""

from functools import cache
from itertools import islice
from typing import Annotated, Any, Final, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, Meta, Struct
from msgspec.structs import fields

from heddle.spec import datastores, flows, llms, tools
from heddle.spec.catalogue import component_names, is_secret, members
from heddle.spec.component import Component
from heddle.spec.problems import Broken, Path, Problems, shown
from heddle.spec.references import REF, TYPE
from plugins_host import nearest

# More unknown keys than anybody writes by mistake.
_COMPARED_KEYS: Final = 100
# Longer texts are no ids of components that people name.
_LONGEST_ID: Final = 60


@cache
def _fields(struct: type[Struct]) -> dict[str, tuple[Any, bool]]:
    """Field to its annotation, and whether it must be there."""
    annotations = get_type_hints(struct, include_extras=True)
    return {
        field.name: (
            annotations[field.name],
            field.default is NODEFAULT and field.default_factory is NODEFAULT,
        )
        for field in fields(struct)
    }


def explain_fields(
    struct: type[Struct], values: dict[str, Any], path: Path, problems: Problems
) -> bool:
    """Add a problem for each field that is missing or doesn't fit; False if all do."""
    before = problems.noted
    known = _fields(struct)
    for name, (annotation, required) in known.items():
        if name in values:
            explain(annotation, values[name], (path, name), problems)
        elif required:
            strangers = (key for key in values if key not in known)
            guess = nearest(name, islice(strangers, _COMPARED_KEYS))
            problems.add(
                path,
                f"'{name}' is missing",
                f"Is {guess!r} a misspelling of it?"
                if guess
                else f"Add it: {_wanted(annotation)}.",
                key=(path, guess) if guess else None,
            )
    return problems.noted != before


def explain(annotation: Any, value: Any, path: Path, problems: Problems) -> None:
    """Add a problem for each part of a value that doesn't fit an annotation."""
    if isinstance(value, Broken):
        return
    looked_into = (
        type(value) is list and _explain_items(annotation, value, path, problems)
    ) or (type(value) is dict and _explain_values(annotation, value, path, problems))
    if not looked_into and not _fits(annotation, value):
        _add_mismatch(annotation, value, path, problems)


def _fits(annotation: Any, value: Any) -> bool:
    if isinstance(value, Component):
        return type(value) in members(annotation)
    try:
        msgspec.convert(value, annotation)
    except msgspec.ValidationError:
        return False
    return True


def _explain_items(
    annotation: Any, value: list[Any], path: Path, problems: Problems
) -> bool:
    for one in members(annotation):
        if get_origin(one) is not tuple:
            continue
        inner = get_args(one)
        if len(inner) == 2 and inner[1] is Ellipsis:
            for index, item in enumerate(value):
                explain(inner[0], item, (path, index), problems)
            return True
        if len(inner) == len(value):
            for index, (kind, item) in enumerate(zip(inner, value, strict=True)):
                explain(kind, item, (path, index), problems)
            return True
    return False


def _explain_values(
    annotation: Any, value: dict[str, Any], path: Path, problems: Problems
) -> bool:
    for one in members(annotation):
        if get_origin(one) is dict:
            for key, item in value.items():
                explain(get_args(one)[1], item, (path, key), problems)
            return True
        if (
            isinstance(one, type)
            and issubclass(one, Struct)
            and not issubclass(one, Component)
        ):
            explain_fields(one, value, path, problems)
            return True
    return False


_KINDS: Final[dict[Any, str]] = {
    str: "text",
    int: "an integer",
    float: "a number",
    bool: "true or false",
}

# What people call components that may stand for one another.
_FAMILIES: Final[dict[tuple[str, ...], str]] = {
    component_names(family): noun
    for family, noun in (
        (flows.AnyNode, "a node"),
        (flows.AnyAgenticComponent, "an agent or a flow"),
        (flows.AnyMessageTransform, "a message transform"),
        (tools.AnyTool, "a tool"),
        (tools.AnyClientTransport, "a transport"),
        (llms.AnyLlmConfig, "an LLM config"),
        (llms.AnyOciClientConfig, "a client config"),
        (datastores.AnyDatastore, "a datastore"),
        (datastores.AnyOracleConnectionConfig, "a connection config"),
    )
}


def _add_mismatch(annotation: Any, value: Any, path: Path, problems: Problems) -> None:
    components = component_names(annotation)
    if components and type(value) is dict:
        fix = _misspelt_key(value) or f"Add it: {_either(components)}."
        problems.add_once(value, path, "this has no 'component_type'", fix)
        return
    if isinstance(value, Component):
        found = f"the {value.component_type} {shown(value.name)}"
    elif is_secret(annotation):
        found = "no secret that can be used"
    else:
        found = shown(value)
    fix = f"Use {_either(components)}." if len(components) > 1 else ""
    if components and type(value) is str and len(value) <= _LONGEST_ID:
        reference = msgspec.json.encode({REF: value}).decode()
        fix = f"Write {reference} if that is the id of one, or the component itself."
    literals = [
        word
        for one in members(annotation)
        if get_origin(one) is Literal
        for word in get_args(one)
    ]
    if type(value) is str and literals:
        guess = nearest(value, literals)
        fix = f"Did you mean {guess!r}?" if guess else ""
    problems.add(path, f"this is {found} where {_wanted(annotation)} belongs", fix)


def _misspelt_key(value: dict[str, Any]) -> str:
    """A fix for what is no component for the want of one right key, or ""."""
    for key in islice(value, _COMPARED_KEYS):
        meant = REF if key == "$ref" else nearest(key, (TYPE, REF))
        if meant is not None:
            return f"Is {key!r} a misspelling of {meant!r}?"
    return ""


def _wanted(annotation: Any) -> str:
    """What an annotation asks for, as a noun."""
    words: list[str] = []
    components = component_names(annotation)
    if components in _FAMILIES:
        words.append(_FAMILIES[components])
    else:
        words += [f"{'an' if name[0] in 'AEIOU' else 'a'} {name}" for name in components]
    for one in members(annotation):
        origin = get_origin(one)
        if origin is Literal:
            words += [shown(word) for word in get_args(one)]
        elif origin is tuple:
            words.append(_wanted_list(get_args(one)))
        elif origin is dict:
            words.append("an object")
        elif one is not type(None) and not (
            isinstance(one, type) and issubclass(one, Component)
        ):
            words.append(_KINDS.get(one, "an object"))
    return _either(words) + _limits(annotation)


def _wanted_list(items: tuple[Any, ...]) -> str:
    if items[-1] is Ellipsis:
        return "a list"
    return f"a list of {len(items)}"


def _limits(annotation: Any) -> str:
    """What is asked of a number or text beyond its type."""
    limits: list[str] = []
    for one in (annotation, *get_args(annotation)):
        if get_origin(one) is not Annotated:
            continue
        for mark in (mark for mark in get_args(one)[1:] if isinstance(mark, Meta)):
            if mark.gt is not None:
                limits.append(f"above {mark.gt:g}")
            if mark.ge is not None:
                limits.append(f"of at least {mark.ge:g}")
            if mark.min_length:
                limits.append("that isn't empty")
    return "".join(f" {limit}" for limit in limits)


def _either(words: Any) -> str:
    words = list(words)
    if len(words) == 1:
        return str(words[0])
    return f"{', '.join(words[:-1])} or {words[-1]}"
