#!/usr/bin/env python3
"""Generate the pages of docs/ that describe the code (`just docs`). A test checks that they are up to date."""

from __future__ import annotations

import inspect
import io
import json
import re
from contextlib import redirect_stdout
from pathlib import Path
from string import Template
from tempfile import TemporaryDirectory
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, cast, get_args, get_origin

import typer
from fastapi.routing import APIRoute

from hotseat import dashboard
from hotseat.api.app import build
from hotseat.api.openapi import document
from hotseat.cli.commands import app as commands
from hotseat.config.crosscheck import unused
from hotseat.config.json_schema import descriptions
from hotseat.config.llamaswap import TABLE, Row
from hotseat.config.model_schema import ModelForm
from hotseat.config.schema import Config, ModelsDir
from hotseat.config.schema_base import Form, Ignored, Later
from hotseat.ollama.requests import ENDPOINTS
from hotseat.relay.exchange.states import TRANSITIONS
from hotseat.relay.routing.other_apis import OTHER_APIS
from hotseat.relay.routing.paths import INFERENCE, ONLY_LISTED, rule_of_ours
from hotseat.scheduling.lifecycle import TABLE as MOVES
from hotseat.scheduling.lifecycle import Phase
from hotseat.simulation import trace
from hotseat.telemetry.metric_names import FIGURES, LABELS, UPSTREAM_UP
from hotseat.telemetry.metrics import BOUNDS_PER_S, BOUNDS_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pydantic.fields import FieldInfo

    from hotseat.api.deps import ApiDeps

DOCS = Path(__file__).parents[1] / "docs"
MADE = "<!-- Made from the code by `just docs`; do not edit. -->"


def main() -> None:
    for name, text in pages().items():
        (DOCS / name).write_text(text)


def pages() -> dict[str, str]:
    """Every generated page: its path under docs/ and its text."""
    return {
        "design/lifecycle.md": lifecycle(),
        "design/exchange-states.md": exchange_states(),
        "howto/from-llama-swap.md": from_llama_swap(),
        "reference/configuration.md": configuration(),
        "reference/cli.md": command_line(),
        "reference/http-api.md": http_api(),
        "reference/metrics.md": metrics(),
        **simulation(),
    }


def page(title: str, *parts: str) -> str:
    return "\n\n".join([f"# {title}", MADE, *parts]) + "\n"


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    cells = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells)


# Lifecycle


def lifecycle() -> str:
    about = (
        "The phases of a model's server and the legal transitions between them.\n"
        "Any other transition raises `InvalidMove` in the scheduler."
    )
    edges = [f"    {start.value} --> {end.value}: {move.value}" for (start, move), end in MOVES.items()]
    diagram = "\n".join(["```mermaid", "stateDiagram-v2", "    [*] --> cold", *edges, "```"])
    phases = ", ".join(f"`{phase.value}`" for phase in Phase if phase.takes_memory)
    return page("Model lifecycle", about, diagram, f"A model uses memory while it is {phases}.")


def exchange_states() -> str:
    about = "The states of a request in the relay, and what leads from one to the next."
    arrows = [
        f"    {state.__name__} --> {following.__name__}: {why}"
        for state, transitions in TRANSITIONS.items()
        for following, why in transitions
    ]
    drawn = "\n".join(["stateDiagram-v2", "    [*] --> Queued", *arrows, "    Done --> [*]"])
    meanings = [f"| `{state.__name__}` | {inspect.getdoc(state)} |" for state in TRANSITIONS]
    table = "\n".join(["| state | meaning |", "|---|---|", *meanings])
    return page("States of a request", about, f"```mermaid\n{drawn}\n```", table)


# Configuration


def configuration() -> str:
    used, not_used = [], []
    for path, field, description in keys_of(Config, "", set()):
        if mark := unused(field):
            not_used.append((f"`{path}`", f"{reason(mark)}."))
        elif field.annotation not in forms_in(field.annotation):  # a key that only groups others has no row
            used.append((f"`{path}`", default_of(field), description.replace("\n", " ")))
    about = (
        "The configuration is a YAML file; `*` stands for a name of your choice.\n"
        "Durations are seconds or strings such as `90s` and `5m`; sizes are bytes or strings such as `18GiB`.\n"
        "Unknown keys are errors, and `hotseat check` shows their line and column.\n"
        "`hotseat schema` prints the JSON Schema for editors."
    )
    about_them = (
        "llama-swap's files may contain these keys. They are validated but have no effect, and a warning says so."
    )
    return page(
        "Configuration",
        about,
        table(("key", "default", "meaning"), used),
        "## Accepted without effect",
        about_them,
        table(("key", "what happens instead"), not_used),
    )


def keys_of(form: type[Form], prefix: str, documented: set[type[Form]]) -> Iterator[tuple[str, FieldInfo, str]]:
    """Every key, as a dotted path, depth first; keys without effect and forms already listed are not entered."""
    known = ModelForm.model_fields if form is ModelsDir else {}
    texts = descriptions(form)
    documented.add(form)
    for name, field in form.model_fields.items():
        if name in known:
            continue  # a folder of models has the keys of a model, which are already listed
        path = f"{prefix}{field.alias or name}"
        yield path, field, texts.get(name, "")
        inner = [] if unused(field) else forms_in(field.annotation)
        for each in [form for form in dict.fromkeys(inner) if form not in documented]:
            yield from keys_of(each, f"{path}{step_into(field.annotation)}.", documented)


def step_into(annotation: Any) -> str:
    """The path step from a key to the forms below it: none, a list entry, or a name."""
    if any(inspect.isclass(each) and issubclass(each, Form) for each in alternatives(annotation)):
        return ""
    if get_origin(annotation) in (Union, UnionType) and NoneType in get_args(annotation):
        return ""
    return "[]" if get_origin(annotation) in (list, tuple) else ".*"


def alternatives(annotation: Any) -> list[Any]:
    """The members of a union type. Any, because annotations are."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return alternatives(parts[0])
    return [each for part in parts for each in alternatives(part)] if origin in (Union, UnionType) else [annotation]


def forms_in(annotation: Any) -> list[type[Form]]:
    """The forms that a value of this type may hold. Any, because annotations are."""
    if inspect.isclass(annotation) and issubclass(annotation, Form):
        return [annotation]
    return [form for part in get_args(annotation) for form in forms_in(part)]


def reason(mark: Later | Ignored) -> str:
    return mark.instead if isinstance(mark, Later) else mark.why


def default_of(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True, validated_data={})
    if default in (None, "", [], {}, ()):
        return "–"
    return f"`{':'.join(map(str, default)) if isinstance(default, tuple) else in_yaml(default)}`"


def in_yaml(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int) and value >= 1024 and value % 1024 == 0:
        unit = next(unit for unit in ("GiB", "MiB", "KiB") if value % size_of(unit) == 0)
        return f"{value // size_of(unit)}{unit}"
    return f"{value:g}" if isinstance(value, float) else json.dumps(value)


def size_of(unit: str) -> int:
    return {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[unit]


# Migration from llama-swap: a handwritten page around a generated table

BEGIN, END = "<!-- Made from the code by `just docs` -->", "<!-- until here -->"


def from_llama_swap() -> str:
    before, _, rest = (DOCS / "howto/from-llama-swap.md").read_text().partition(BEGIN)
    rows = [(f"`{row.key}`", *support(row)) for row in TABLE]
    keys = table(("key", "here", "what is different"), rows)
    return f"{before}{BEGIN}\n\n{keys}\n\n{END}{rest.partition(END)[2]}"


def support(row: Row) -> tuple[str, str]:
    """How hotseat treats a key of llama-swap, and what is different."""
    match unused(field_at(row.key)):
        case Later(instead):
            return "not yet", f"{instead}."
        case Ignored(why):
            return "ignored", f"{why}."
        case None:
            return ("other", f"{row.here}.") if row.here else ("same", "")


def field_at(key: str) -> FieldInfo:
    """The field that holds a key of the configuration."""
    *holders, last = [step for step in key.split(".") if step != "*"]
    form: type[Form] = Config
    for step in holders:
        form = forms_in(form.model_fields[form.known_keys()[step]].annotation)[0]
    return form.model_fields[form.known_keys()[last]]


# Command line. Commands and parameters are Any: typer has its own click, which is private.


def command_line() -> str:
    group = typer.main.get_command(commands)
    assert isinstance(group, typer.core.TyperGroup)
    parts = [command_section(name, command) for name, command in leaves(group)]
    exits = (
        "Exit codes: 0 success, 1 failure, 2 wrong usage, 3 invalid configuration, 4 server not reachable.\n"
        "`hotseat --install-completion` installs shell completion for commands, options and model names."
        " Set `NO_COLOR` to turn colours off."
    )
    return page("Command line", group.help or "", exits, *parts)


def leaves(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every command; those of a group follow its name."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from leaves(command, f"{name} ")
        else:
            yield f"{prefix}{name}", command


def command_section(name: str, command: Any) -> str:
    usage = " ".join(["hotseat", name, *command.collect_usage_pieces(typer.Context(command))])
    rows = [(f"`{' '.join([*param.opts, *param.secondary_opts])}`", meaning_of(param)) for param in shown(command)]
    example = (command.epilog or "").removeprefix("Example: ")
    return "\n\n".join(
        [f"## hotseat {name}", command.help or "", f"```\n{usage}\n```"]
        + ([table(("option", "meaning"), rows)] if rows else [])
        + ([f"```sh\n{example}\n```"] if example else [])
    )


def shown(command: Any) -> list[Any]:
    return [param for param in command.params if param.name != "help" and not getattr(param, "hidden", False)]


def meaning_of(param: Any) -> str:
    text = str(getattr(param, "help", "") or "")
    is_flag = getattr(param, "is_flag", False)
    given = getattr(param.default, "value", param.default)
    default = "" if is_flag or given in (None, ()) else f" Default: `{given}`."
    variable = f" Or the variable `{param.envvar}`." if param.envvar else ""
    return f"{text}{default}{variable}"


# HTTP


def http_api() -> str:
    # Describing the routes calls none of them.
    described = document(build(cast("ApiDeps", None)))
    operations = {
        (method.upper(), path): (operation.get("summary", ""), ", ".join(operation["responses"]))
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    }
    led = {("GET", way.path.replace(":path", "")): (way.summary or "", "307") for way in led_to_dashboard()}
    operations |= led | translated()
    own = [route(*asked, operations) for asked in operations if not in_other_api(*asked)]
    listed = {**OTHER_APIS, "Ollama": [*OTHER_APIS["Ollama"], *((b"POST", path) for path in ENDPOINTS)]}
    others = [part for name, rows in listed.items() for part in (f"### {name}", other_api(rows, operations))]
    return page(
        "HTTP API",
        described["info"]["description"].strip(),
        ABOUT_ROLES,
        table(ROUTE, [*own, *FILES]),
        "The OpenAPI document at `/hotseat/openapi.json` describes requests and responses; `/swagger` shows it.",
        "## Routes of other programs",
        ABOUT_OTHERS,
        *others,
        "## Routes of model servers",
        ABOUT_FORWARDED,
        table(("request", "role", "waits for a free slot"), forwarded()),
    )


ROUTE = ("request", "role", "description", "status codes")
ABOUT_ROLES = (
    "A role is needed only if `apiKeys` is set, and each role includes those before it: `inference`, `operate`, "
    "`admin` ([keys](../howto/keys.md)).\n"
    "This page lists every path that hotseat answers or treats in a special way."
)
ABOUT_OTHERS = (
    "hotseat answers these paths for tools that were written for other programs. With `passthrough: strict` it "
    "forwards them to a model server like any other path."
)
ABOUT_FORWARDED = (
    "hotseat forwards these to the model that the request names, or to the running one, with the path as it was "
    "received. Every path that is not on this page is forwarded too, and needs the role `operate`.\n\n"
    "- `/upstream/{model}/{path}` reaches that model as `/{path}`, and `/comfyui/{path}` a model called "
    "`comfyui_auto`; the role is that of `/{path}`, also if hotseat would answer it without the name of a model.\n"
    "- llama-swap's paths without a version (`POST /v/chat/completions` and others) reach a model without `/v`."
)
FILES = (
    ("`GET /hotseat/ui/{file}`", "operate", "The dashboard", "200"),
    ("`GET /hotseat/assets/{file}`", "operate", "Files of `/swagger`", "200"),
)


def translated() -> dict[tuple[str, str], tuple[str, str]]:
    return {
        ("POST", path.decode()): (f"Translated into `POST {endpoint.target.decode()}`, and its response back", "")
        for path, endpoint in ENDPOINTS.items()
    }


def led_to_dashboard() -> list[APIRoute]:
    return [way for way in dashboard.router.routes if isinstance(way, APIRoute)]


def route(method: str, path: str, operations: Mapping[tuple[str, str], tuple[str, str]]) -> tuple[str, ...]:
    return f"`{method} {path}`", role(method, path), *operations.get((method, path), ("", ""))


def role(method: str, path: str) -> str:
    asked = method.encode(), path.encode()
    ours = ONLY_LISTED.of_ours(*asked)
    if (endpoint := ONLY_LISTED.endpoint(*asked)) is not None:
        ours = ONLY_LISTED.of_model(b"POST", endpoint.target)
    if ours is None:
        ours = rule_of_ours(*asked) if path.startswith("/upstream/") or path == "/" else ONLY_LISTED.of_model(*asked)
    return ours.role.value if ours.role else "none"


def in_other_api(method: str, path: str) -> bool:
    asked = method.encode(), path.encode()
    return ONLY_LISTED.in_other_api(*asked, b"autoload=false") is not None or ONLY_LISTED.endpoint(*asked) is not None


def other_api(rows: Iterable[tuple[bytes, bytes]], operations: Mapping[tuple[str, str], tuple[str, str]]) -> str:
    """Its routes as they are described, or as the table has them."""
    shown: list[tuple[str, ...]] = []
    for method, path in [(method.decode(), path.decode()) for method, path in rows]:
        form = re.compile(re.escape(path).replace(r"\*", r"\{\w+\}"))
        named = [asked for asked in operations if asked[0] == method and form.fullmatch(asked[1])]
        shown += [route(*asked, operations) for asked in named or [(method, path.replace("*", "{name}"))]]
    return table(ROUTE, shown)


def forwarded() -> list[tuple[str, ...]]:
    return [
        (f"`{method.decode()} {path.decode()}`", rule.role.value if rule.role else "none", "yes" * rule.takes_slot)
        for (method, path), rule in INFERENCE.items()
        if ONLY_LISTED.of_ours(method, path) is None
    ]


# Metrics


def metrics() -> str:
    about = (
        "`GET /metrics` returns them in Prometheus' text format; `metrics: false` turns it off.\n"
        "The name, type, labels and meaning of a **stable** metric do not change before the next major version.\n"
        "Any version may add metrics, label values and finer buckets.\n"
        "Counters of configured models start at 0 when hotseat starts; a histogram appears with its first value.\n"
        "With more than 200 models, only those that have been used since the start are listed."
    )
    rows = [
        (f"`{figure.name}`", figure.kind.value, listed(figure.labels), figure.meaning, figure.stability.value)
        for figure in FIGURES
    ]
    labels = [(f"`{name}`", meaning, listed(values)) for name, (meaning, values) in LABELS.items()]
    return page(
        "Metrics",
        about,
        table(("metric", "type", "labels", "meaning", "stability"), rows),
        "## Labels",
        "Clients cannot create time series: every label has the values below, or values from the configuration.",
        table(("label", "meaning", "values"), labels),
        "## Model servers",
        "`GET /metrics/upstreams` returns what the ready model servers print themselves, each sample with the label "
        "`model` ([how](../howto/monitoring.md#metrics-of-the-model-servers)).\n"
        f"It also has `{UPSTREAM_UP.name}` ({UPSTREAM_UP.kind.value}, {UPSTREAM_UP.stability.value}): "
        f"{UPSTREAM_UP.meaning}",
        "## Buckets",
        f"Seconds: {', '.join(f'{bound:g}' for bound in BOUNDS_S)}.\n"
        f"Tokens per second: {', '.join(f'{bound:g}' for bound in BOUNDS_PER_S)}.",
    )


def listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "–"


# Simulation: runs the how-to's commands and shows their output


MACHINES = ("32GiB", "48GiB", "24GiB,24GiB", "24GiB,24GiB,24GiB")


def simulation() -> dict[str, str]:
    memory, kept = ("--memory", "48GiB"), DOCS / "howto/tuesday.yaml"
    with TemporaryDirectory() as folder:
        drawn = Path(folder) / "monday.svg"
        with_memory = said("monday", *memory, "--svg", str(drawn))
        picture = drawn.read_text()
    machines = [word for gpus in MACHINES for word in ("--gpu", gpus)]
    shown = Template(Path(__file__).with_name("simulate.md").read_text()).substitute(
        made=MADE,
        more_memory=" ".join(["hotseat simulate monday.jsonl", *memory, "--svg monday.svg"]),
        more_memory_says=with_memory,
        machines=" ".join(["hotseat simulate office.jsonl", *machines]),
        machines_say=said("office", *machines),
        kept=kept.read_text().rstrip(),
        conversations_say=said("tuesday", "--config", str(kept)),
        example=f"```\n{trace_format()}\n```",
    )
    return {"howto/simulate.md": shown, "howto/monday.svg": picture}


def said(name: str, *options: str) -> str:
    printed = io.StringIO()
    with redirect_stdout(printed):
        commands(["simulate", str(DOCS / f"howto/{name}.jsonl"), *options], standalone_mode=False)
    return printed.getvalue().rstrip()


def trace_format() -> str:
    """The example lines at the head of trace.py."""
    return "\n".join(line.strip() for line in (trace.__doc__ or "").splitlines() if line.startswith("    {"))


if __name__ == "__main__":
    main()
