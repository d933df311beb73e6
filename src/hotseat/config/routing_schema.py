"""The keys for groups, matrix, selectors, profiles and peers."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from hotseat.config.model_schema import Filters, TimeoutsForm
from hotseat.config.schema_base import Form
from hotseat.config.units import Duration, Switch


class GroupForm(Form):
    """Models that are treated the same way when another one is loaded."""

    swap: Switch = True
    """Only one member at a time."""
    exclusive: Switch = True
    """Loading a member stops the members of all other groups that are not persistent."""
    persistent: Switch = False
    """Other groups cannot stop the members."""
    members: tuple[str, ...] = ()
    """Names of models; a model belongs to at most one group."""


class MatrixForm(Form):
    """Sets of models that may run together."""

    vars: dict[str, str] = Field(default_factory=dict)
    """Short names for models, to use in sets and evict_costs."""
    evict_costs: dict[str, Annotated[int, Field(gt=0)]] = Field(default_factory=dict, alias="evict_costs")
    """Cost of stopping a model, per model or short name; default 1. The cheapest swap is chosen."""
    sets: dict[str, str] = Field(default_factory=dict)
    """Which models may run together: names joined by & (together), | (either), ( ) and +set for another set."""


class RouterSettings(Form):
    groups: dict[str, GroupForm] = Field(default_factory=dict)
    """Same as the top-level key."""
    matrix: MatrixForm = MatrixForm.model_construct()
    """Same as the top-level key."""


class Router(Form):
    use: Literal["group", "matrix", "memory"] = "group"
    """What decides which models run together: the groups, the matrix, or memory alone (with devices)."""
    settings: RouterSettings = RouterSettings.model_construct()
    """The groups and the matrix."""


class Fifo(Form):
    priority: dict[str, int] = Field(default_factory=dict)
    """Priority per model or alias, default 0; each step up doubles the model's urgency."""


class QueueSettings(Form):
    fifo: Fifo = Fifo.model_construct()
    """Settings of the scheduler."""


class Queue(Form):
    use: Literal["fifo"] = "fifo"
    """The only value; it means hotseat's own scheduler."""
    settings: QueueSettings = QueueSettings.model_construct()
    """Settings per scheduler."""


class Routing(Form):
    router: Router = Router.model_construct()
    """Which models run together."""
    scheduler: Queue = Queue.model_construct()
    """Order in which requests are served."""


class SelectorSettings(Form):
    spillover: Annotated[int, Field(ge=1)] = 1
    """Requests per target before the next target is used."""


class SelectorForm(Form):
    strategy: Literal["warm", "pin", "spillover"]
    """How the target is chosen. warm: the first that is ready, else the first that is loading, else the first; pin:
    always the first; spillover: a running one with a free place, else the next one."""
    targets: Annotated[tuple[str, ...], Field(min_length=1)]
    """Names of models."""
    settings: SelectorSettings = SelectorSettings.model_construct()
    """Settings of the strategy."""
    name: str = ""
    """Title shown in the model list."""
    description: str = ""
    """Text shown in the model list."""
    unlisted: Switch = False
    """Hide the name from the model list; it remains usable."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    """Arbitrary values for the model list."""


class ProfileForm(Form):
    description: str = ""
    """Purpose of the profile."""
    pins: Annotated[dict[str, str | None], Field(min_length=1)]
    """Maps names to models while the profile is active."""


class PeerTimeouts(TimeoutsForm):
    response_header: Duration = 600.0
    """Time limit for the response head; long, because the peer may be loading a model."""


def _sendable(key: str) -> str:
    if any(sign.isspace() or not sign.isprintable() for sign in key):
        raise ValueError("a key must not contain spaces")
    return key


class PeerForm(Form):
    proxy: str
    """Base URL of the peer."""
    api_key: Annotated[str, AfterValidator(_sendable)] = ""
    """API key sent to the peer instead of the client's key."""
    models: Annotated[tuple[str, ...], Field(min_length=1)]
    """Models of the peer."""
    filters: Filters = Filters.model_construct()
    """Changes to JSON bodies before they are sent to the peer."""
    timeouts: PeerTimeouts = PeerTimeouts.model_construct()
    """Time limits for connections to the peer."""
