"""The configuration's rules for clients, precomputed; replaced as a whole on reload."""

from __future__ import annotations

import re
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from hotseat.activity.usage import Accounts
from hotseat.errors import HotseatError
from hotseat.fleet.host_headers import FOR_CLIENT
from hotseat.identifiers import ClientId
from hotseat.net.listeners import own_names
from hotseat.relay.access.api_keys import Keys
from hotseat.relay.access.authority import counted_as, ip_of, network_of, reduce_absolute
from hotseat.relay.access.host_requests import HostVerifier
from hotseat.relay.access.origin import OriginCheck
from hotseat.relay.access.page_rights import PageRights
from hotseat.relay.access.sign_in import ProxySignIn
from hotseat.relay.routing.paths import PathTable, needs_no_key
from hotseat.settings import USER

if TYPE_CHECKING:
    from hotseat.relay.access.api_keys import Verdict
    from hotseat.relay.http.request_head import RequestHead
    from hotseat.relay.routing.model_name import Destination
    from hotseat.settings import Settings

LONGEST_CLIENT = 64
"""Characters of the name of a client, so that per-client state cannot grow with what clients send."""
FORWARDED_FOR = b"x-forwarded-for"
MOST_PROXIES = 16
"""Addresses in X-Forwarded-For that are looked at, from the last: a client may send thousands of them."""


class Policy:
    def __init__(
        self, settings: Settings, accounts: Accounts | None = None, host_verifier: HostVerifier | None = None
    ) -> None:
        self.settings = settings
        self.accounts = accounts or Accounts()
        self.authenticates = settings.access.is_restricted
        self.has_secrets = self.authenticates or settings.fleet is not None
        """Are there keys or a fleet secret to guess?"""
        self.limits = settings.limits
        self.error_format = settings.error_format
        self.paths = PathTable(settings.inference_paths, is_strict=settings.is_strict)
        self.cors = PageRights(settings.access.allowed_origins, self.paths)
        self.confines_pages = not settings.trust_pages
        """Pages of model servers that share our address could otherwise do whatever our own may."""
        # A browser sends its password to one origin only, and a certificate rarely covers names under .localhost.
        self.moves_pages = self.confines_pages and not (self.authenticates or settings.tls)
        """Are pages of model servers shown at LABEL.localhost, wherever the browser resolves that to this machine?"""
        # Other hosts of the fleet reach us at the fleet's address, so it is one of our names.
        fleet_name = urlsplit(settings.fleet.address).hostname if settings.fleet else None
        ollama_name = settings.ollama_listen[0] if settings.ollama_listen else ""
        ours = (settings.listen[0], ollama_name, fleet_name or "", *own_names())
        self._gate = OriginCheck(settings.access, self.cors, ours)
        self._host_verifier = host_verifier or HostVerifier(settings.fleet)
        self.is_proven_again = self._host_verifier.is_proven_again
        self._keys = Keys(self.accounts.open(settings.access.keys), is_required=self.authenticates)
        self._sign_in = ProxySignIn(settings.access.sign_in) if settings.access.sign_in else None
        self.sign_in_headers = self._sign_in.headers if self._sign_in else frozenset()
        """They end here, whoever sent them."""
        self._client_header = settings.access.client_header.lower().encode()
        self._ignored = [re.compile(pattern.encode()) for pattern in settings.ignore_paths]
        self._trusted = tuple(map(network_of, settings.access.trusted_proxies))

    def at_ollamas_address(self) -> Policy:
        """The same rules for the listener whose bare address says that Ollama is running."""
        policy = copy(self)
        policy.paths = self.paths.at_ollamas_address()
        return policy

    def check_sender(self, head: RequestHead) -> None:
        """Check Host and Origin before anything has an effect; raises the error for strangers."""
        # HTTP/1.0 clients may omit Host. No browser does, so there is no page to protect against.
        host = head.known.get(b"host", b"localhost")
        head.target = reduce_absolute(head.target, host)
        self._gate.check(head, host, partial(self._has_key, head))

    def _has_key(self, head: RequestHead) -> bool:
        return self._by_key(head).account is not None

    def _by_key(self, head: RequestHead) -> Verdict:
        return self._keys.identify(head.known.get(b"authorization"), head.known.get(b"x-api-key"))

    def _by_sign_in(self, head: RequestHead, by_key: Verdict) -> Verdict:
        """A key counts more than what a proxy says."""
        if by_key.role is not None or self._sign_in is None or not head.is_from_proxy:
            return by_key
        user = self._sign_in.user(head)
        if not user:
            return by_key
        return replace(by_key, role=self._sign_in.role(head), holder=USER + user, user=user)

    def sender(self, head: RequestHead) -> Verdict:
        """Who sent a head that was refused, as far as that is known."""
        verdict = self._by_key(head)
        with suppress(HotseatError):
            return self._by_sign_in(head, verdict)
        return verdict

    def believes(self, peer: str) -> bool:
        """Is it a proxy that says who has signed in?"""
        return self._sign_in is not None and self.trusts(peer)

    def identify(self, head: RequestHead) -> Verdict:
        """Identify the caller; raises 401 if keys are configured and this is none of them. Fleet hosts have none."""
        if (host := self._host_verifier.verdict(head)) is not None:
            return host
        verdict = self._by_sign_in(head, self._by_key(head))
        if head.label or not needs_no_key(head.method, head.target.partition(b"?")[0]):
            self._keys.check_known(verdict)
        return verdict

    def identify_again(self, verdict: Verdict, head: RequestHead, peer: str) -> Verdict:
        """Of a request in progress: it belongs to its key, even if that has another secret by now."""
        if head.is_from_proxy and not self.believes(peer):
            head = copy(head)  # other proxies may have sent the same
            head.is_from_proxy = False
        account = verdict.account
        if account is not None and account in self.accounts.all():
            return replace(verdict, role=account.key.role)
        return self.identify(head)

    def check_may_ask(self, verdict: Verdict, destination: Destination) -> None:
        """Checks what will be forwarded, not the original target; raises 403."""
        self._keys.check_role(verdict, destination.rule.role)
        if verdict.account is not None and destination.named_model is not None:
            verdict.account.check_may_use(destination.named_model.name)

    def may_start(self, head: RequestHead, destination: Destination) -> bool:
        """A browser that fetches icons for a page of a model server must not cause a swap."""
        if not (head.label or head.target.startswith(b"/upstream/")):
            return True
        path = destination.target.partition(b"?")[0]
        return not any(pattern.search(path) for pattern in self._ignored)

    def trusts(self, peer: str) -> bool:
        """Is this a proxy whose X-Forwarded headers we trust?"""
        if not self._trusted:
            return False
        address = ip_of(peer)
        return address is not None and any(address in network for network in self._trusted)

    def client_of(self, head: RequestHead, verdict: Verdict, peer: str) -> ClientId:
        """Who a client is, for every limit, turn and record: its key or user, else what a proxy says, else its address.

        With the verdict `UNTOUCHED` it is the address that guesses and refusals count for.
        """
        if verdict.from_host:
            return _shortened(unquote(head.known.get(FOR_CLIENT, b"").decode("latin-1")))
        return _shortened(verdict.holder or self._address_of(head, peer))

    def _address_of(self, head: RequestHead, peer: str) -> str:
        """Only the last line of a header is certainly the proxy's own, and of X-Forwarded-For its last address."""
        if not self.trusts(peer):
            return counted_as(peer)
        named = [value.decode("latin-1") for name, value in head.fields if name.lower() == self._client_header]
        if self._client_header == FORWARDED_FOR:
            named = [address.strip() for address in ",".join(named).rsplit(",", MOST_PROXIES)[-MOST_PROXIES:]]
            while len(named) > 1 and self.trusts(named[-1]):  # a chain of proxies
                named.pop()
        client = named[-1].strip() if named else ""
        return counted_as(_shortened(client)) or peer


def _shortened(name: str) -> ClientId:
    """Names that begin alike stay different."""
    if len(name) > LONGEST_CLIENT:
        name = f"{name[: LONGEST_CLIENT - 17]}~{sha256(name.encode()).hexdigest()[:16]}"
    return ClientId(name)
