"""Every metric on /metrics: dashboards and alerts depend on the names, so each is defined once.

The documentation page is generated from this list, and a test compares it with the output of a running hotseat.
Counterpart: metrics_page.py, which supplies the values.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from hotseat.errors import HotseatError
from hotseat.fleet.view import Agreement, FleetConnection
from hotseat.scheduling.commands import Cause
from hotseat.scheduling.lifecycle import Phase
from hotseat.telemetry.metrics import OUTCOMES


class Kind(Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Stability(Enum):
    STABLE = "stable"
    """Name, type, labels and meaning change with a major version only."""
    FOREIGN = "prometheus-client's"
    """Printed by prometheus-client, which decides about it."""


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    """As printed; a histogram's without its suffixes."""
    kind: Kind
    meaning: str
    labels: tuple[str, ...] = ()
    stability: Stability = Stability.STABLE

    def counter(self) -> CounterMetricFamily:
        return CounterMetricFamily(self.name.removesuffix("_total"), self.meaning, labels=self.labels)

    def gauge(self, value: float | None = None) -> GaugeMetricFamily:
        return GaugeMetricFamily(self.name, self.meaning, value, None if value is not None else self.labels)

    def histogram(self) -> HistogramMetricFamily:
        return HistogramMetricFamily(self.name, self.meaning, labels=self.labels)


def codes(kind: type[HotseatError] = HotseatError) -> frozenset[str]:
    """Every code that the relay can answer with; errors of other parts never reach a client."""
    known = [each for each in kind.__subclasses__() if each.__module__ == HotseatError.__module__]
    return frozenset((kind.code,)).union(*map(codes, known))


STATUS_CLASSES = ("none", "1xx", "2xx", "3xx", "4xx", "5xx")

ALONE = "alone"
CONNECTIONS = (ALONE, *(connection.value for connection in FleetConnection))
PROMPT, CACHED, COMPLETION, ESTIMATED = TOKEN_KINDS = ("prompt", "cached", "completion", "estimated")
FORWARDED, REFUSED = RESULTS = ("forwarded", "refused")

LABELS: dict[str, tuple[str, tuple[str, ...]]] = {
    "model": ("the configured name of a model, including models of peers", ()),
    "status": ("the first digit of the response status; `none` if no response was started", STATUS_CLASSES),
    "code": ("the `X-Error-Code` of the response", tuple(sorted(codes()))),
    "outcome": ("the result of a start; `given up` if the model was stopped meanwhile", OUTCOMES),
    "cause": ("why a server was stopped", tuple(cause.value for cause in Cause)),
    "phase": ("the phase of a model", tuple(phase.value for phase in Phase)),
    "key": ("the name of a configured key, never its secret", ()),
    "kind": ("which tokens; the `cached` ones are also counted as `prompt`", TOKEN_KINDS),
    "host": ("the name of an available host of the fleet", ()),
    "device": ("the name of a GPU, as `hotseat devices` lists it", ()),
    "connection": (
        "the connection state of this host to its fleet; `disconnected` without NATS, or if another host has its name",
        CONNECTIONS,
    ),
    "result": ("`refused` if that host was unreachable or refused the request", RESULTS),
    "decided": (
        "who decided on a load: `made` here, `lost` to a faster host, or `alone` because NATS was unreachable",
        tuple(agreement.value for agreement in Agreement),
    ),
    "version": ("hotseat's", ()),
}
"""The meaning of each label and its values; no values are listed where the configuration or the build determines them.

No client can create a new time series.
"""

_COUNTER, _GAUGE, _HISTOGRAM = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM
_MODEL = ("model",)

REQUESTS = Figure("hotseat_requests_total", _COUNTER, "Finished requests to models.", ("model", "status"))
REQUEST_SECONDS = Figure(
    "hotseat_request_seconds", _HISTOGRAM, "From the arrival of a request to the last byte of the response.", _MODEL
)
WAITING_SECONDS = Figure(
    "hotseat_request_waiting_seconds", _HISTOGRAM, "From the arrival of a request to its lease: queue and load.", _MODEL
)
FIRST_BYTE_SECONDS = Figure(
    "hotseat_first_byte_seconds", _HISTOGRAM, "From the arrival of a request to the first byte of the response.", _MODEL
)
PROMPT_TOKENS = Figure(
    "hotseat_prompt_tokens_total",
    _COUNTER,
    "Prompt tokens, cached ones included, if the model server reports them.",
    _MODEL,
)
CACHED_PROMPT_TOKENS = Figure(
    "hotseat_cached_prompt_tokens_total",
    _COUNTER,
    "Prompt tokens that the model server took from its cache, if it reports them.",
    _MODEL,
)
COMPLETION_TOKENS = Figure(
    "hotseat_completion_tokens_total", _COUNTER, "Generated tokens, if the model server reports them.", _MODEL
)
TOKENS_PER_SECOND = Figure(
    "hotseat_tokens_per_second",
    _HISTOGRAM,
    "Generated tokens per second of each response: llama.cpp's own figure, otherwise over the time since the lease.",
    _MODEL,
)
REFUSALS = Figure(
    "hotseat_refusals_total",
    _COUNTER,
    "Requests that hotseat itself refused, on arrival or instead of a model's response.",
    ("code",),
)
LOADS = Figure("hotseat_loads_total", _COUNTER, "Completed starts of model servers.", ("model", "outcome"))
STOPS = Figure("hotseat_stops_total", _COUNTER, "Stops of model servers.", ("model", "cause"))
CRASHES = Figure("hotseat_crashes_total", _COUNTER, "Ready model servers that exited unexpectedly.", _MODEL)
EARLY_EVICTIONS = Figure(
    "hotseat_early_evictions_total",
    _COUNTER,
    "Evictions of models that were ready for less than their load time.",
    _MODEL,
)
LOAD_SECONDS = Figure("hotseat_load_seconds", _HISTOGRAM, "From the start of a model server until it is ready.", _MODEL)
STOP_SECONDS = Figure(
    "hotseat_stop_seconds", _HISTOGRAM, "From the stop request to the exit of a model server.", _MODEL
)
WAKE_SECONDS = Figure(
    "hotseat_wake_seconds", _HISTOGRAM, "From waking a sleeping model server until it is ready.", _MODEL
)
CONVERSATION_BYTES = Figure("hotseat_conversations_bytes", _GAUGE, "Disk space of saved conversations.", _MODEL)
CONVERSATION_SECONDS = Figure(
    "hotseat_conversations_gained_seconds_total",
    _COUNTER,
    "Time in which model servers would have computed the restored conversations that requests continued.",
    _MODEL,
)
WAITING = Figure("hotseat_waiting", _GAUGE, "Requests in the queue.", _MODEL)
IN_FLIGHT = Figure("hotseat_in_flight", _GAUGE, "Requests that hold a lease.", _MODEL)
FAILURES_IN_A_ROW = Figure("hotseat_failures_in_a_row", _GAUGE, "Failed starts and crashes in a row.", _MODEL)
MODEL_PHASE = Figure("hotseat_model_phase", _GAUGE, "1 for the current phase of a model, else 0.", ("model", "phase"))
OLDEST_WAITING = Figure(
    "hotseat_waiting_oldest_seconds", _GAUGE, "Wait of the oldest request in the queue; 0 if the queue is empty."
)
LOOP_LAG = Figure("hotseat_loop_lag_seconds", _GAUGE, "Maximum lag of the event loop in the last minute.")
TASKS = Figure(
    "hotseat_tasks", _GAUGE, "Tasks of the event loop; a few for hotseat itself, none for a request in flight."
)
ACTIVITY_LOST = Figure("hotseat_activity_lost_total", _COUNTER, "Finished requests that could not be stored on disk.")
LOG_LINES_DROPPED = Figure(
    "hotseat_log_lines_dropped_total", _COUNTER, "Log lines dropped because the output was not read."
)
TRACES_DROPPED = Figure(
    "hotseat_traces_dropped_total", _COUNTER, "Traces that the collector did not take; 0 if requests are not traced."
)
LAST_RELOAD = Figure("hotseat_config_last_reload_success", _GAUGE, "1 if the last reload succeeded, 0 if it failed.")
BUILD_INFO = Figure("hotseat_build_info", _GAUGE, "1, with the running version.", ("version",))

_KEY = ("key",)
KEY_REQUESTS = Figure("hotseat_key_requests_total", _COUNTER, "Requests to models by API key.", _KEY)
KEY_REFUSED = Figure("hotseat_key_refused_total", _COUNTER, "Requests refused because of a key's limits.", _KEY)
KEY_DEVICE_SECONDS = Figure(
    "hotseat_key_device_seconds_total",
    _COUNTER,
    "Device time used by a key; concurrent requests share the time.",
    _KEY,
)
KEY_TOKENS = Figure(
    "hotseat_key_tokens_total",
    _COUNTER,
    "Tokens used by a key; those of kind estimated were not reported by the model server.",
    ("key", "kind"),
)

_HOST = ("host",)
FLEET_CONNECTION = Figure(
    "hotseat_fleet_connection",
    _GAUGE,
    "1 for the current fleet connection state of this host, else 0.",
    ("connection",),
)
FLEET_HOSTS = Figure("hotseat_fleet_hosts", _GAUGE, "Hosts known to this one, including itself; 0: not in a fleet.")
FLEET_LAST_SEEN = Figure(
    "hotseat_fleet_host_last_seen_seconds", _GAUGE, "Time since the last message of a host.", _HOST
)
FLEET_CERTIFICATE = Figure(
    "hotseat_fleet_host_certificate_ends_timestamp_seconds", _GAUGE, "When the TLS certificate of a host ends.", _HOST
)
FLEET_CLOCK = Figure(
    "hotseat_fleet_host_clock_ahead_seconds",
    _GAUGE,
    "How far the clock of a host is ahead of this one's, in whole seconds.",
    _HOST,
)
FLEET_REQUESTS = Figure(
    "hotseat_fleet_requests_total", _COUNTER, "Requests that this host sent to another.", ("host", "result")
)
FLEET_CLAIMS = Figure("hotseat_fleet_claims_total", _COUNTER, "Loads that hosts had to agree on.", ("decided",))
FLEET_MALFORMED = Figure(
    "hotseat_fleet_malformed_total", _COUNTER, "Records in NATS that could not be read and were skipped."
)

_DEVICE = ("device",)
DEVICE_UTILIZATION = Figure(
    "hotseat_device_utilization_ratio",
    _GAUGE,
    "Share of time in which a GPU computed, from 0 to 1, if its driver reports it.",
    _DEVICE,
)
DEVICE_TEMPERATURE = Figure(
    "hotseat_device_temperature_celsius", _GAUGE, "Temperature of a GPU, if its driver reports it.", _DEVICE
)
DEVICE_POWER = Figure("hotseat_device_power_watts", _GAUGE, "Power of a GPU, if its driver reports it.", _DEVICE)

UPSTREAM_UP = Figure(
    "hotseat_upstream_up", _GAUGE, "1 if a ready model server has printed its metrics, else 0.", _MODEL
)


def _process(name: str, kind: Kind, meaning: str) -> Figure:
    return Figure(f"process_{name}", kind, meaning, stability=Stability.FOREIGN)


PROCESS = (
    _process("virtual_memory_bytes", _GAUGE, "Virtual memory of hotseat itself."),
    _process("resident_memory_bytes", _GAUGE, "Resident memory of hotseat itself."),
    _process("start_time_seconds", _GAUGE, "Start time in Unix time."),
    _process("cpu_seconds_total", _COUNTER, "CPU time used."),
    _process("open_fds", _GAUGE, "Open file descriptors."),
    _process("max_fds", _GAUGE, "Maximum number of open file descriptors."),
)

FIGURES = (
    REQUESTS, REQUEST_SECONDS, WAITING_SECONDS, FIRST_BYTE_SECONDS,
    PROMPT_TOKENS, CACHED_PROMPT_TOKENS, COMPLETION_TOKENS, TOKENS_PER_SECOND, REFUSALS,
    LOADS, STOPS, CRASHES, EARLY_EVICTIONS, LOAD_SECONDS, STOP_SECONDS, WAKE_SECONDS,
    CONVERSATION_BYTES, CONVERSATION_SECONDS,
    WAITING, IN_FLIGHT, FAILURES_IN_A_ROW, MODEL_PHASE, OLDEST_WAITING,
    ACTIVITY_LOST, LOG_LINES_DROPPED, TRACES_DROPPED, LOOP_LAG, TASKS, LAST_RELOAD, BUILD_INFO,
    KEY_REQUESTS, KEY_REFUSED, KEY_DEVICE_SECONDS, KEY_TOKENS,
    FLEET_CONNECTION, FLEET_HOSTS, FLEET_LAST_SEEN, FLEET_CERTIFICATE, FLEET_CLOCK,
    FLEET_REQUESTS, FLEET_CLAIMS, FLEET_MALFORMED,
    DEVICE_UTILIZATION, DEVICE_TEMPERATURE, DEVICE_POWER,
    *PROCESS,
)  # fmt: skip
"""On /metrics."""
