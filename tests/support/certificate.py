"""A self-signed certificate for `localhost` and its key. Made for the tests, trusted by nobody, good for a century."""

from __future__ import annotations

CERTIFICATE = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgFly75DA2nOucW2r2
i5Z7XiNlq4EPY95JaQKdGEvw/PmhRANCAARQwv8a5wHrUSTtqu1toceBdDDTOzeb
x/fuy+yRvfJzJ4J/Cw85iCkXvAdUsgqgjRxnrOrDqiaOk/g7RXUfMC5u
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBlTCCATugAwIBAgIULEcKFEv6FyAzfyIx0lKto4yUP2QwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTExNTAxMDcyMVoYDzIxMjYxMDIy
MDEwNzIxWjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAARQwv8a5wHrUSTtqu1toceBdDDTOzebx/fuy+yRvfJzJ4J/Cw85iCkX
vAdUsgqgjRxnrOrDqiaOk/g7RXUfMC5uo2kwZzAdBgNVHQ4EFgQUpApcE6WTufwg
csWYEqlfKQ2K75QwHwYDVR0jBBgwFoAUpApcE6WTufwgcsWYEqlfKQ2K75QwDwYD
VR0TAQH/BAUwAwEB/zAUBgNVHREEDTALgglsb2NhbGhvc3QwCgYIKoZIzj0EAwID
SAAwRQIgKo036313raabKKvUPz9tU47sZjCvUoXzpDH7SKWGkzMCIQCLgdOcNHQu
CbcUj9SdVYMRzy76fJhf4yElfTuT9xsrxA==
-----END CERTIFICATE-----
"""
