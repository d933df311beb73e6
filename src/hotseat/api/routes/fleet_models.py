"""One model on all hosts of the fleet: its state, and why a host cannot load it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from msgspec import Struct
from msgspec.json import Decoder

from hotseat.api.deps import Deps
from hotseat.api.disconnect import unless_gone
from hotseat.api.fleet_schemas import DefinedDifferently, FleetModel, ModelOnHost
from hotseat.api.routes.fleet import ALONE, fleet_admin_of
from hotseat.api.routes.management import UNKNOWN
from hotseat.api.slices import Listing, page, rows
from hotseat.errors import HostUnresponsive
from hotseat.fleet.client import in_path
from hotseat.fleet.obstacles import HELP

if TYPE_CHECKING:
    from hotseat.api.deps import ApiDeps, FleetAdmin
    from hotseat.fleet.model_outlook import Outlook
    from hotseat.identifiers import HostName, ModelName

router = APIRouter(prefix="/hotseat/fleet", tags=["fleet"])

LONGEST = 10_000
"""Characters of a reason that are kept: a thousand hosts may give one."""


class Report(Struct, frozen=True):
    """What is shown of a host's answer; the rest is skipped, which costs little whatever it contains."""

    phase: str
    why: str = ""
    last_error: str = ""


REPORT = Decoder(Report)


@router.get(
    "/models/{model:path}",
    summary="One model on all hosts of the fleet: its phase, the reason, and what prevents its load",
    response_model=FleetModel,
    responses={**ALONE, **UNKNOWN},
)
async def fleet_model(model: str, request: Request, deps: Deps) -> Listing:
    fleet_admin = fleet_admin_of(deps)
    name = fleet_admin.resolve(model)
    found = fleet_admin.outlooks(name)
    reports = await unless_gone(request.receive, all_reports(deps, fleet_admin, name, found))
    hosts = (on_host(each, reports.get(each.host)) for each in found)
    return Listing(page(FleetModel(model=name, hosts=[]), hosts=rows(hosts)))


async def all_reports(
    deps: ApiDeps, fleet_admin: FleetAdmin, model: ModelName, found: list[Outlook]
) -> dict[HostName, Report | HostUnresponsive]:
    """What each host says about the model, or why it says nothing; without those that do not have it."""
    asked = [each.host for each in found if each.host != fleet_admin.name and (each.is_configured or each.phase)]
    reports = await fleet_admin.others.read_all(asked, f"/hotseat/models/{in_path(model)}?local=true", report_in)
    if model in deps.dispatcher.catalog.models:
        seen = deps.dispatcher.views.of(model)
        reports[fleet_admin.name] = Report(seen.phase.value, seen.why, seen.last_error)
    return reports


def report_in(answer: bytes) -> Report:
    """ValueError if it is none."""
    try:
        said = REPORT.decode(answer)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return Report(said.phase, said.why[:LONGEST], said.last_error[:LONGEST])


def on_host(seen: Outlook, answer: Report | HostUnresponsive | None) -> ModelOnHost:
    problem = answer.message if isinstance(answer, HostUnresponsive) else ""
    report = answer if isinstance(answer, Report) else None
    return ModelOnHost(
        host=seen.host,
        is_configured=seen.is_configured,
        phase=report.phase if report else seen.phase,
        why=report.why if report else problem,
        last_error=report.last_error if report else "",
        has_answered=not problem,
        obstacle=seen.explanation or None,
        remedy=seen.obstacle and HELP[seen.obstacle],
        differs=difference(seen),
    )


def difference(seen: Outlook) -> DefinedDifferently | None:
    drift = seen.drift
    if drift is None:
        return None
    return DefinedDifferently(definition=drift.theirs, compared_with=seen.compared_with, other_definition=drift.ours)
