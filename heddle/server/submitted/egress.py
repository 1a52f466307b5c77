"""What a flow that came with a request may reach: the public network, and nothing inside.

Its author is a stranger to whoever runs the server. Such a flow can't read the server's
environment or files, and its model calls go to public addresses alone. A name is judged by
the addresses that it turns out to have, at the moment of connecting to one of them.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from threading import Lock
from typing import Any, Final, cast
from weakref import ref

from msgspec import Struct

from heddle.engine.plan import Plan
from heddle.engine.requests.request import RequestTemplate
from heddle.engine.requests.urls import origin_of_url
from heddle.server.failures import SubmissionRefused
from heddle.server.submitted.pattern_rules import refuse_patterns
from heddle.server.submitted.submission import Submitted
from heddle.services import ModelService
from heddle.spec import (
    ApiNode,
    Component,
    LlmConfig,
    OpenAiCompatibleConfig,
    Property,
    RemoteTool,
    RemoteTransport,
    SSEmTLSTransport,
    StdioTransport,
    StreamableHTTPmTLSTransport,
)
from heddle.spec.llms import Model
from plugins_host.conversation import ModelRequest, ModelResponse

# RFC 6052: an IPv4 address behind a translator.
_NAT64: Final = ip_network("64:ff9b::/96")
# RFC 4291, 2.4: all that was ever given out to the public. What is outside and not known
# to be private is a leftover (site-local, IPv4-compatible) or somebody's translator.
_PUBLIC_IPV6: Final = ip_network("2000::/3")
_FILES: Final = ("ca_file", "cert_file", "key_file")
_ALLOW: Final = "Whoever runs the server can allow a host with --allow-net."


class Reach:
    """Where submitted flows may connect to.

    Args:
        allowed: Hosts by name, address or range of addresses, that they may although
            they are private.
    """

    def __init__(self, allowed: Iterable[str]) -> None:
        names, self._networks = set(), []
        for host in allowed:
            try:
                self._networks.append(ip_network(host.strip("[]"), strict=False))
            except ValueError:
                names.add(host.lower().rstrip("."))
        self._names = frozenset(names)

    def permits(self, host: str, address: str) -> bool:
        """Whether ``host``, which is at ``address``, may be connected to."""
        if host.lower().rstrip(".") in self._names:
            return True
        try:
            found = ip_address(address.partition("%")[0])
        except ValueError:
            return False
        return all(self._permits(each) for each in _meanings(found))

    def _permits(self, address: IPv4Address | IPv6Address) -> bool:
        if any(address in network for network in self._networks):
            return True
        if isinstance(address, IPv6Address) and address not in _PUBLIC_IPV6:
            return False
        return address.is_global and not address.is_multicast

    def permits_as_written(self, host: str) -> bool:
        """Whether ``host`` may be connected to, as far as that can be told without looking
        it up."""
        name = host.lower().rstrip(".")
        if name == "localhost" or name.endswith(".localhost"):
            return self.permits(host, "127.0.0.1")
        try:
            ip_address(name)
        except ValueError:
            return True
        return self.permits(host, name)


def _meanings(
    address: IPv4Address | IPv6Address,
) -> Iterator[IPv4Address | IPv6Address]:
    """The addresses at which one may really arrive: an IPv6 one can wrap an IPv4 one."""
    if isinstance(address, IPv4Address):
        yield address
        return
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
        return
    if address in _NAT64:
        yield IPv4Address(int(address) & 0xFFFFFFFF)
        return
    yield address
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo


class Checker:
    """Looks through submitted flows before they run. Those found well are remembered."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        # Long flows are looked through in threads.
        self._lock = Lock()
        # By identity; a plan that is gone is forgotten, so none comes to mean another.
        self._passed: dict[int, ref[Plan]] = {}

    def has_passed(self, prepared: Submitted) -> bool:
        """Whether a flow is remembered as one that was found well."""
        return id(prepared.plan) in self._passed

    def check(self, prepared: Submitted) -> None:
        """See that a flow asks for nothing that is not its caller's.

        Raises:
            SubmissionRefused: It does.
        """
        plan = prepared.plan
        key = id(plan)
        if key in self._passed:
            return
        check_patterns(prepared)
        for node in plan.graph.nodes:
            for config in models_in(node.component):
                self._check(config, f"node {node.name!r}, llm_config {config.name!r}")
            for each in structs_in(node.component):
                if isinstance(each, (ApiNode, RemoteTool)):
                    self._check_request(each, f"node {node.name!r}")
                elif isinstance(each, (StdioTransport, RemoteTransport)):
                    self._check_transport(each, f"node {node.name!r}")
        passed = self._passed
        with self._lock:
            passed[key] = ref(plan, lambda _: passed.pop(key, None))

    def _check(self, config: Component, where: str) -> None:
        from heddle.models import CredentialMissing, ModelError, endpoint_for

        if isinstance(config, OpenAiCompatibleConfig):
            for name in _FILES:
                if getattr(config, name) is not None:
                    raise SubmissionRefused(
                        f"{name} names a file of the server; a submitted flow reads none",
                        where=where,
                        fix="Leave it out.",
                    )
        try:
            endpoint = endpoint_for(cast("LlmConfig", config), {})
        except ModelError as error:
            written = getattr(config, "api_key", None) or "$"
            if not isinstance(error, CredentialMissing) or not written.startswith("$"):
                raise SubmissionRefused(error.what, where=where, fix=error.fix) from error
            raise SubmissionRefused(
                "a submitted flow cannot read the server's environment",
                where=where,
                fix="Write the credential into api_key, or leave it out.",
            ) from error
        origin = getattr(endpoint, "origin", None)
        if origin is not None and not self._reach.permits_as_written(origin.host):
            raise SubmissionRefused(
                f"a submitted flow may not reach {origin.host}: it is a private address",
                where=where,
                fix=_ALLOW,
            )

    def _check_request(self, component: ApiNode | RemoteTool, where: str) -> None:
        """A host that is a placeholder is looked at when it is known."""
        template = RequestTemplate(component)
        host = template.host
        if host is not None and not self._reach.permits_as_written(host):
            if isinstance(component, RemoteTool):
                where = f"{where}, {template.label}"
            raise SubmissionRefused(
                f"a submitted flow may not reach {host}: it is a private address",
                where=where,
                fix=_ALLOW,
            )

    def _check_transport(
        self, transport: StdioTransport | RemoteTransport, where: str
    ) -> None:
        """A tool server is a process of the operator's machine, or a host."""
        where = f"{where}, {transport.component_type} {transport.name!r}"
        if isinstance(transport, StdioTransport):
            raise SubmissionRefused(
                "a submitted flow starts no programs of the server",
                where=where,
                fix="Reach the tool server over HTTP.",
            )
        if isinstance(transport, (SSEmTLSTransport, StreamableHTTPmTLSTransport)):
            raise SubmissionRefused(
                "certificates are files of the server; a submitted flow reads none",
                where=where,
                fix="Use a transport without them.",
            )
        host = origin_of_url(transport.url)[1]
        if not self._reach.permits_as_written(host):
            raise SubmissionRefused(
                f"a submitted flow may not reach {host}: it is a private address",
                where=where,
                fix=_ALLOW,
            )


def check_patterns(prepared: Submitted) -> None:
    """See that every pattern in a flow's types is matched in bounded time.

    Raises:
        SubmissionRefused: One is not.
    """
    graph = prepared.plan.graph
    seen: set[str] = set()
    places: list[tuple[str, Any]] = [("flow", graph.inputs), ("flow", graph.outputs)]
    places += [(f"node {node.name!r}", node.component) for node in graph.nodes]
    for where, component in places:
        for each in structs_in(component):
            if isinstance(each, Property):
                refuse_patterns(each.schema, seen, where=f"{where}, {each.title!r}")


def models_in(component: Any) -> Iterator[Component]:
    """The LLM configurations in a component, however deep."""
    for each in structs_in(component):
        if isinstance(each, (LlmConfig, Model)):
            yield each


def structs_in(component: Any) -> Iterator[Any]:
    """What there is in a component, however deep; nothing of what is in an LLM's."""
    seen: set[int] = set()
    waiting = [component]
    while waiting:
        each = waiting.pop()
        if isinstance(each, (LlmConfig, Model)):
            yield each
        elif isinstance(each, Struct):
            if id(each) not in seen:
                seen.add(id(each))
                yield each
                waiting += [getattr(each, name) for name in each.__struct_fields__]
        elif isinstance(each, Mapping):
            waiting += each.values()
        elif isinstance(each, (list, tuple)):
            waiting += each


class SubmittedModels(ModelService):
    """Model calls of submitted flows; those of policies in them are the operator's.

    Args:
        reach: Where the flows' own go.
        operator: Makes the calls of policies.
        configs: The LLM configurations of policies.
    """

    def __init__(
        self, reach: Reach, operator: ModelService, configs: Iterable[Component]
    ) -> None:
        super().__init__({}, permit=reach.permits)
        self._operator = operator
        self._trusted = {id(each): each for each in configs}

    def chat(
        self,
        llm: Component,
        request: ModelRequest,
        *,
        on_text: Callable[[str], None] | None,
    ) -> Awaitable[ModelResponse]:
        """One answer; raises a `ModelError` that says what the provider said."""
        if id(llm) in self._trusted:
            return self._operator.chat(llm, request, on_text=on_text)
        return super().chat(llm, request, on_text=on_text)
