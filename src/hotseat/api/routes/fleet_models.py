"""One model on all hosts of the fleet: its state, and why a host cannot load it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request

from hotseat.api.deps import Deps
from hotseat.api.disconnect import unless_gone
from hotseat.api.fleet_schemas import DefinedDifferently, FleetModel, ModelOnHost
from hotseat.api.routes.fleet import ALONE, fleet_admin_of
from hotseat.api.routes.management import UNKNOWN
from hotseat.api.slices import Listing, page, rows
from hotseat.fleet.client import in_path
from hotseat.fleet.obstacles import HELP
from hotseat.net.json_text import parsed

if TYPE_CHECKING:
    from hotseat.api.deps import ApiDeps, FleetAdmin
    from hotseat.fleet.model_outlook import Outlook
    from hotseat.identifiers import HostName, ModelName

router = APIRouter(prefix="/hotseat/fleet", tags=["fleet"])


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
) -> dict[HostName, dict[str, Any]]:
    """What each host says about the model; without those that are silent or do not have it."""
    asked = [each.host for each in found if each.host != fleet_admin.name and (each.is_configured or each.phase)]
    answers = await fleet_admin.others.read_all(asked, f"/hotseat/models/{in_path(model)}?local=true")
    reports = {host: report for host, answer in answers.items() if (report := report_in(answer))}
    if model in deps.dispatcher.catalog.models:
        seen = deps.dispatcher.views.of(model)
        reports[fleet_admin.name] = {"phase": seen.phase.value, "why": seen.why, "last_error": seen.last_error}
    return reports


def report_in(answer: bytes | None) -> dict[str, Any] | None:
    try:
        report = None if answer is None else parsed(answer)
    except ValueError:
        return None
    return report if isinstance(report, dict) else None


def on_host(seen: Outlook, report: dict[str, Any] | None) -> ModelOnHost:
    said = report or {}
    return ModelOnHost(
        host=seen.host,
        is_configured=seen.is_configured,
        phase=str(said["phase"]) if "phase" in said else seen.phase,
        why=str(said.get("why") or ""),
        last_error=str(said.get("last_error") or ""),
        has_answered=report is not None or not (seen.is_configured or seen.phase),
        obstacle=seen.explanation or None,
        remedy=seen.obstacle and HELP[seen.obstacle],
        differs=difference(seen),
    )


def difference(seen: Outlook) -> DefinedDifferently | None:
    drift = seen.drift
    if drift is None:
        return None
    return DefinedDifferently(definition=drift.theirs, compared_with=seen.compared_with, other_definition=drift.ours)
