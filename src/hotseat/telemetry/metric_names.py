"""Every metric on /metrics: dashboards and alerts depend on the names, so each is defined once.

The documentation page is generated from this list, and a test compares it with the output of a running hotseat.
Counterpart: metrics_page.py, which supplies the values.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from hotseat.errors import HotseatError
from hotseat.fleet.view import Agreement, Standing
from hotseat.scheduling.commands import Cause
from hotseat.scheduling.lifecycle import Phase


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
READY, FAILED, GIVEN_UP = OUTCOMES = ("ready", "failed", "given up")

ALONE = "alone"
STANDINGS = (ALONE, *(standing.value for standing in Standing))
PASSED_ON, TURNED_AWAY = PASSAGES = ("passed on", "turned away")

LABELS: dict[str, tuple[str, tuple[str, ...]]] = {
    "model": ("a model's configured name, a peer's models included", ()),
    "status": ("the status towards the client by its first digit; `none` where no answer began", STATUS_CLASSES),
    "code": ("the `X-Error-Code` of the answer", tuple(sorted(codes()))),
    "outcome": ("how a start ended; `given up` where the model was stopped meanwhile", OUTCOMES),
    "cause": ("why a server was stopped", tuple(cause.value for cause in Cause)),
    "phase": ("where a model is in its life", tuple(phase.value for phase in Phase)),
    "key": ("the name of a configured key, never its secret", ()),
    "host": ("the name of a host of the fleet that is there", ()),
    "standing": ("of this host towards its fleet; `apart` while NATS is away", STANDINGS),
    "passage": ("`turned away` where that host could not be reached or would not take it", PASSAGES),
    "decided": (
        "who decided on a load: `made` here, `lost` to a host that was quicker, or `alone` because NATS was away",
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
    "hotseat_request_seconds", _HISTOGRAM, "From a request's arrival to its answer's last byte.", _MODEL
)
WAITING_SECONDS = Figure(
    "hotseat_request_waiting_seconds", _HISTOGRAM, "From a request's arrival to its lease: line and load.", _MODEL
)
FIRST_BYTE_SECONDS = Figure(
    "hotseat_first_byte_seconds", _HISTOGRAM, "From a request's arrival to its answer's first byte.", _MODEL
)
PROMPT_TOKENS = Figure(
    "hotseat_prompt_tokens_total", _COUNTER, "Prompt tokens, where the model server's answer says how many.", _MODEL
)
COMPLETION_TOKENS = Figure(
    "hotseat_completion_tokens_total", _COUNTER, "Generated tokens, where the model server's answer says so.", _MODEL
)
TOKENS_PER_SECOND = Figure(
    "hotseat_tokens_per_second",
    _HISTOGRAM,
    "Generated tokens per second of each answer: llama.cpp's own figure, else over the time since its lease.",
    _MODEL,
)
REFUSALS = Figure(
    "hotseat_refusals_total",
    _COUNTER,
    "Requests that hotseat refused itself, on the way in or instead of a model's answer.",
    ("code",),
)
LOADS = Figure("hotseat_loads_total", _COUNTER, "Ended starts of model servers.", ("model", "outcome"))
STOPS = Figure("hotseat_stops_total", _COUNTER, "Stops of model servers.", ("model", "cause"))
CRASHES = Figure(
    "hotseat_crashes_total", _COUNTER, "Ready model servers that ended though nobody told them to.", _MODEL
)
EARLY_EVICTIONS = Figure(
    "hotseat_early_evictions_total",
    _COUNTER,
    "Evictions of models that were ready for less time than they load.",
    _MODEL,
)
LOAD_SECONDS = Figure("hotseat_load_seconds", _HISTOGRAM, "From the start of a model server to its readiness.", _MODEL)
STOP_SECONDS = Figure(
    "hotseat_stop_seconds", _HISTOGRAM, "From telling a model server to stop to the end of its process.", _MODEL
)
SLEEPS = Figure(
    "hotseat_sleeps_total", _COUNTER, "How often model servers fell asleep instead of being stopped.", _MODEL
)
WAKE_SECONDS = Figure(
    "hotseat_wake_seconds", _HISTOGRAM, "From waking a model server that sleeps to its readiness.", _MODEL
)
WAITING = Figure("hotseat_waiting", _GAUGE, "Requests in the line.", _MODEL)
IN_FLIGHT = Figure("hotseat_in_flight", _GAUGE, "Requests that hold a lease.", _MODEL)
FAILURES_IN_A_ROW = Figure("hotseat_failures_in_a_row", _GAUGE, "Failed starts and crashes in a row.", _MODEL)
MODEL_PHASE = Figure("hotseat_model_phase", _GAUGE, "1 for the phase a model is in, else 0.", ("model", "phase"))
OLDEST_WAITING = Figure(
    "hotseat_waiting_oldest_seconds", _GAUGE, "How long the oldest request in the line has waited; 0 for no line."
)
LOOP_LAG = Figure(
    "hotseat_loop_lag_seconds", _GAUGE, "Worst lag of the event loop since the last scrape, whoever scraped."
)
TASKS = Figure(
    "hotseat_tasks", _GAUGE, "Tasks of the event loop; a few for hotseat itself, none for a request in flight."
)
ACTIVITY_LOST = Figure(
    "hotseat_activity_lost_total", _COUNTER, "Finished requests that should have been kept on disk and could not."
)
LOG_LINES_DROPPED = Figure(
    "hotseat_log_lines_dropped_total", _COUNTER, "Log lines that were not written because nobody read the output."
)
LAST_RELOAD = Figure(
    "hotseat_config_last_reload_success", _GAUGE, "1 if the configuration in use is the newest, 0 if that one is wrong."
)
BUILD_INFO = Figure("hotseat_build_info", _GAUGE, "1, with the version that runs.", ("version",))

_KEY = ("key",)
KEY_REQUESTS = Figure("hotseat_key_requests_total", _COUNTER, "Requests to models by API key.", _KEY)
KEY_REFUSED = Figure("hotseat_key_refused_total", _COUNTER, "Requests beyond a key's limits.", _KEY)
KEY_IN_FLIGHT = Figure("hotseat_key_in_flight", _GAUGE, "Requests that wait or run, by key.", _KEY)
KEY_DEVICE_SECONDS = Figure(
    "hotseat_key_device_seconds_total",
    _COUNTER,
    "Time for which a key had devices to itself; who is served together shares it.",
    _KEY,
)

_HOST = ("host",)
FLEET_STANDING = Figure(
    "hotseat_fleet_standing", _GAUGE, "1 for how this host stands towards its fleet, else 0.", ("standing",)
)
FLEET_HOSTS = Figure("hotseat_fleet_hosts", _GAUGE, "Hosts that this one knows, itself included; 0 where it is alone.")
FLEET_HEARD = Figure("hotseat_fleet_host_heard_seconds", _GAUGE, "Since the last word of a host.", _HOST)
FLEET_SHUNNED = Figure(
    "hotseat_fleet_host_shunned", _GAUGE, "1 for a host that refused connections and is left out for a while.", _HOST
)
FLEET_READY = Figure("hotseat_fleet_host_ready_models", _GAUGE, "Models that are ready on a host.", _HOST)
FLEET_REQUESTS = Figure(
    "hotseat_fleet_requests_total", _COUNTER, "Requests that this host sent to another.", ("host", "passage")
)
FLEET_CLAIMS = Figure("hotseat_fleet_claims_total", _COUNTER, "Loads that hosts had to agree upon.", ("decided",))
FLEET_MALFORMED = Figure(
    "hotseat_fleet_malformed_total", _COUNTER, "Records in NATS that could not be read and were passed over."
)


def _process(name: str, kind: Kind, meaning: str) -> Figure:
    return Figure(f"process_{name}", kind, meaning, stability=Stability.FOREIGN)


PROCESS = (
    _process("virtual_memory_bytes", _GAUGE, "Virtual memory of hotseat itself."),
    _process("resident_memory_bytes", _GAUGE, "Resident memory of hotseat itself."),
    _process("start_time_seconds", _GAUGE, "When it was started, in Unix time."),
    _process("cpu_seconds_total", _COUNTER, "CPU time that it has used."),
    _process("open_fds", _GAUGE, "File descriptors that it has open."),
    _process("max_fds", _GAUGE, "File descriptors that it may have open."),
)

FIGURES = (
    REQUESTS, REQUEST_SECONDS, WAITING_SECONDS, FIRST_BYTE_SECONDS,
    PROMPT_TOKENS, COMPLETION_TOKENS, TOKENS_PER_SECOND, REFUSALS,
    LOADS, STOPS, CRASHES, EARLY_EVICTIONS, LOAD_SECONDS, STOP_SECONDS, SLEEPS, WAKE_SECONDS,
    WAITING, IN_FLIGHT, FAILURES_IN_A_ROW, MODEL_PHASE, OLDEST_WAITING,
    ACTIVITY_LOST, LOG_LINES_DROPPED, LOOP_LAG, TASKS, LAST_RELOAD, BUILD_INFO,
    KEY_REQUESTS, KEY_REFUSED, KEY_IN_FLIGHT, KEY_DEVICE_SECONDS,
    FLEET_STANDING, FLEET_HOSTS, FLEET_HEARD, FLEET_SHUNNED, FLEET_READY, FLEET_REQUESTS, FLEET_CLAIMS, FLEET_MALFORMED,
    *PROCESS,
)  # fmt: skip
