"""PURE: users who have signed in at the reverse proxy in front, which states their name and their role in headers.

The caller checks that the proxy is trusted. Whoever else sends these headers is not believed, and nobody behind hotseat
receives them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.errors import Forbidden, Unauthorized
from hotseat.settings import Role

if TYPE_CHECKING:
    from hotseat.relay.http.request_head import RequestHead
    from hotseat.settings import SignIn

ROLES = {role.value.encode(): role for role in Role}
LONGEST_USER = 128


class ProxySignIn:
    def __init__(self, sign_in: SignIn) -> None:
        self._user, self._role = sign_in.user_header.lower().encode(), sign_in.role_header.lower().encode()
        self.headers = frozenset(filter(None, (self._user, self._role)))
        """In lower case."""

    def user(self, head: RequestHead) -> str:
        """Who has signed in; empty: nobody. Raises if two proxies, or a client and its proxy, name somebody."""
        user = self._value(head, self._user).decode("latin-1")
        if len(user) > LONGEST_USER:
            raise Unauthorized(f"the name of the user has more than {LONGEST_USER} characters")
        return user

    def role(self, head: RequestHead) -> Role:
        """The least role, unless the proxy states another one."""
        stated = self._value(head, self._role) if self._role else b""
        if stated and stated not in ROLES:
            raise Forbidden("the proxy states an unknown role; it must be inference, operate or admin")
        return ROLES.get(stated, Role.INFERENCE)

    def _value(self, head: RequestHead, header: bytes) -> bytes:
        values = [value for name, value in head.fields if name.lower() == header]
        if len(values) > 1:
            raise Unauthorized(f"{header.decode()} was sent twice; the proxy must replace the header of its clients")
        return values[0].strip() if values else b""
