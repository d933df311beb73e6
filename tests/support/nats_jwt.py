"""A NATS server with JWT authentication: an operator, two accounts and a user, made for one test."""

from __future__ import annotations

import base64
import json
import os
from dataclasses import dataclass
from typing import Any

import nkeys

NO_LIMIT = dict.fromkeys(
    (
        "subs",
        "data",
        "payload",
        "imports",
        "exports",
        "conn",
        "leaf",
        "mem_storage",
        "disk_storage",
        "streams",
        "consumer",
    ),
    -1,
) | {"wildcards": True}


@dataclass(frozen=True, slots=True)
class OperatorMode:
    config: str
    """For the server."""
    credentials: str
    """For the user."""


class Signer:
    def __init__(self, kind: int) -> None:
        self.seed = nkeys.encode_seed(os.urandom(32), kind)
        self._pair = nkeys.from_seed(bytearray(self.seed))
        self.public: str = self._pair.public_key.decode()

    def sign(self, subject: str, name: str, claims: dict[str, Any]) -> str:
        body = {
            "jti": name,
            "iat": 1,
            "iss": self.public,
            "name": name,
            "sub": subject,
            "nats": {**claims, "version": 2},
        }
        signed = f"{part({'typ': 'JWT', 'alg': 'ed25519-nkey'})}.{part(body)}"
        return f"{signed}.{encoded(self._pair.sign(signed.encode()))}"


def part(value: dict[str, Any]) -> str:
    return encoded(json.dumps(value).encode())


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def operator_mode() -> OperatorMode:
    operator = Signer(nkeys.PREFIX_BYTE_OPERATOR)
    account, system = Signer(nkeys.PREFIX_BYTE_ACCOUNT), Signer(nkeys.PREFIX_BYTE_ACCOUNT)
    user = Signer(nkeys.PREFIX_BYTE_USER)
    known = {
        account.public: operator.sign(account.public, "fleet", {"type": "account", "limits": NO_LIMIT}),
        system.public: operator.sign(system.public, "SYS", {"type": "account"}),
    }
    config = f"""
operator: {operator.sign(operator.public, "operator", {"type": "operator"})}
system_account: {system.public}
resolver: MEMORY
resolver_preload: {{ {", ".join(f"{name}: {jwt}" for name, jwt in known.items())} }}
"""
    jwt = account.sign(user.public, "host", {"type": "user", "subs": -1, "data": -1, "payload": -1})
    return OperatorMode(
        config,
        f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{user.seed.decode()}\n------END USER NKEY SEED------\n",
    )
