"""Where traces go, from OpenTelemetry's environment variables."""

from __future__ import annotations

import pytest

from hotseat.identifiers import Address
from hotseat.tracing.collector import collector_of

PREFIX = "OTEL_EXPORTER_OTLP_"
ENDPOINT = f"{PREFIX}ENDPOINT"
NAMED = {ENDPOINT: "http://collector:4318"}


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {ENDPOINT: ""},
        {ENDPOINT: " "},
        {**NAMED, "OTEL_SDK_DISABLED": "True"},
        {**NAMED, "OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_nothing_is_traced(environ: dict[str, str]) -> None:
    """No collector is named, or OpenTelemetry is disabled."""
    assert collector_of(environ) is None


def test_a_collector_and_nothing_else() -> None:
    """Everything else has the value that the specification defines."""
    collector = collector_of({**NAMED, "OTEL_SDK_DISABLED": "false", f"{PREFIX}PROTOCOL": "http/protobuf"})

    assert collector is not None
    assert (collector.address, collector.path) == (Address("collector", 4318), "/v1/traces")
    assert (collector.lines, collector.within_s, collector.service) == (b"", 10.0, {"service.name": "hotseat"})
    assert collector.samples(7, None)


@pytest.mark.parametrize(
    ("environ", "address", "path"),
    [
        ({ENDPOINT: "https://example.com/otel/"}, Address("example.com", 443, tls=True, prefix="/otel"), "/v1/traces"),
        ({f"{PREFIX}TRACES_ENDPOINT": "http://x:1/in"}, Address("x", 1), "/in"),
        ({f"{PREFIX}TRACES_ENDPOINT": "http://x:1", **NAMED}, Address("x", 1), "/"),
    ],
)
def test_the_address_of_the_collector(environ: dict[str, str], address: Address, path: str) -> None:
    """The path of traces is added to the address for everything; the address for traces is taken as it is."""
    collector = collector_of(environ)

    assert collector is not None
    assert (collector.address, collector.path) == (address, path)


def test_the_key_of_the_collector() -> None:
    """Header values are URL-encoded, and those for traces replace the others."""
    headers = {f"{PREFIX}HEADERS": "x=1", f"{PREFIX}TRACES_HEADERS": "Authorization=Bearer%20a%3Db, api-key = k ,"}
    collector = collector_of({**NAMED, **headers})

    assert collector is not None
    assert collector.lines == b"Authorization: Bearer a=b\r\napi-key: k\r\n"


def test_the_name_of_the_service() -> None:
    """The variable of the name has precedence over that of all attributes."""
    about = {"OTEL_RESOURCE_ATTRIBUTES": "service.name=one,deployment.environment.name=my%20lab,"}
    named = collector_of({**NAMED, **about})
    renamed = collector_of({**NAMED, **about, "OTEL_SERVICE_NAME": "gpu-box"})

    assert named is not None
    assert renamed is not None
    assert named.service == {"service.name": "one", "deployment.environment.name": "my lab"}
    assert renamed.service["service.name"] == "gpu-box"


def test_the_time_of_the_collector() -> None:
    """Milliseconds, as the specification says."""
    collector = collector_of({**NAMED, f"{PREFIX}TIMEOUT": "2500"})

    assert collector is not None
    assert collector.within_s == 2.5


def test_an_exporter_that_hotseat_does_not_have() -> None:
    """It exports with OTLP or not at all."""
    with pytest.raises(ValueError, match="OTEL_TRACES_EXPORTER must be otlp or none"):
        collector_of({**NAMED, "OTEL_TRACES_EXPORTER": "console"})


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("ENDPOINT", "collector:4318", "OTEL_EXPORTER_OTLP_ENDPOINT must begin with http://, https:// or unix:/"),
        ("TRACES_ENDPOINT", "http://x:0", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT the port must be a number from 1"),
        ("PROTOCOL", "grpc", "OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf"),
        ("HEADERS", "letmein", "OTEL_EXPORTER_OTLP_HEADERS must be name=value"),
        ("HEADERS", "x=letmein%0d%0aHost: y", "OTEL_EXPORTER_OTLP_HEADERS must be name=value"),
        ("HEADERS", "a b=letmein", "OTEL_EXPORTER_OTLP_HEADERS must be name=value"),
        ("TIMEOUT", "10s", "OTEL_EXPORTER_OTLP_TIMEOUT must be a number of milliseconds"),
        ("COMPRESSION", "zstd", "OTEL_EXPORTER_OTLP_COMPRESSION must be gzip or none"),
        ("TIMEOUT", "0", "OTEL_EXPORTER_OTLP_TIMEOUT must be a number of milliseconds"),
    ],
)
def test_an_invalid_variable(name: str, value: str, problem: str) -> None:
    """The error names it and says what it must be, without a header's value."""
    with pytest.raises(ValueError, match=problem) as raised:
        collector_of({**NAMED, PREFIX + name: value})

    assert "letmein" not in str(raised.value)
