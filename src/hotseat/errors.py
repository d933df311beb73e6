"""Errors told apart by whose move it is. Each knows its HTTP status; the relay's refusals turn it into a body."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hotseat.terms import Seconds


class HotseatError(Exception):
    """Something a person should read: what happened, to which, and what to do."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal_error"
    retry_helps: ClassVar[bool | None] = None
    """False where the same request would fail again; None where nobody knows."""

    def __init__(self, message: str, *, retry_after: Seconds | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after = retry_after


# The client's move: ask differently.


class ClientError(HotseatError):
    status = 400
    code = "bad_request"
    retry_helps = False


class UnknownModel(ClientError):
    status = 404
    code = "model_not_found"


class UnknownProfile(ClientError):
    status = 404
    code = "profile_not_found"


class UnknownTicket(ClientError):
    status = 404
    code = "ticket_not_found"


class UnknownDevice(ClientError):
    status = 404
    code = "device_not_found"


class UnknownHost(ClientError):
    status = 404
    code = "host_not_found"


class NotInAFleet(ClientError):
    """Asked of a host that is alone."""

    status = 409
    code = "not_in_a_fleet"


class CannotMove(ClientError):
    """The host that a model shall move to may not load it."""

    status = 409
    code = "cannot_move"


class NotRunning(ClientError):
    status = 409
    code = "model_not_running"


class Forbidden(ClientError):
    status = 403
    code = "forbidden"


class ForeignHost(Forbidden):
    """Of a request without a valid key: with one, any Host is accepted."""


class Unauthorized(ClientError):
    status = 401
    code = "invalid_api_key"


class TooLarge(ClientError):
    status = 413
    code = "request_too_large"


class HeadTooLarge(ClientError):
    status = 431
    code = "request_head_too_large"


class UnsupportedEncoding(ClientError):
    status = 415
    code = "unsupported_encoding"


class TooSlow(ClientError):
    status = 408
    code = "request_timeout"


class ExpectationFailed(ClientError):
    status = 417
    code = "expectation_failed"


class NotImplementedHere(ClientError):
    status = 501
    code = "not_implemented"


# The model server's failure: the operator's move, mostly.


class UpstreamError(HotseatError):
    status = 502
    code = "upstream_failed"


class LoadFailed(UpstreamError):
    """The start failed or the health check timed out."""

    status = 503
    code = "model_failed_to_start"
    retry_helps = False


class NeverFits(UpstreamError):
    status = 503
    code = "model_never_fits"
    retry_helps = False


class Unloaded(UpstreamError):
    """An operator stopped the model while somebody waited for it."""

    status = 503
    code = "model_unloaded"


class Unresponsive(UpstreamError):
    """The model's server is there and answers nobody."""

    code = "upstream_unresponsive"


class HostSilent(UpstreamError):
    """Another host of the fleet did not do, or did not say, what it was asked."""

    code = "host_silent"


class Dismissed(UpstreamError):
    """An operator ended this request."""

    status = 503
    code = "request_dismissed"
    retry_helps = False


# Nobody's fault: come again.


class Busy(HotseatError):
    status = 429
    code = "line_full"
    retry_helps = True


class NoRoom(HotseatError):
    """It would fit, but others than models use the device at present."""

    status = 503
    code = "no_room_at_present"
    retry_helps = True


class NotHere(HotseatError):
    """Another host passed the request on to us, and nothing was done for it: it may be passed on to the next."""

    status = 503
    code = "not_here"
    retry_helps = True


class NowhereToGo(HotseatError):
    """No host of the fleet can take the request at present."""

    status = 503
    code = "no_host"
    retry_helps = True


class FleetApart(HotseatError):
    """What hosts must agree upon cannot be had while their store is away."""

    status = 503
    code = "fleet_apart"
    retry_helps = True


class MakingWay(HotseatError):
    """Models have to be gone for somebody who has precedence."""

    status = 503
    code = "making_way"
    retry_helps = True


class OverLimit(HotseatError):
    """The holder of a key asks for more than it may."""

    status = 429
    code = "rate_limit_exceeded"
    retry_helps = True


class TooManyWrongKeys(HotseatError):
    """Somebody guesses keys."""

    status = 429
    code = "too_many_wrong_keys"
    retry_helps = True


class ShuttingDown(HotseatError):
    status = 503
    code = "shutting_down"
    retry_helps = True


# Ours, a bug.


class InvalidMove(HotseatError):
    code = "invalid_move"


def broken(problem: BaseException) -> HotseatError:
    """An error of ours that nobody foresaw, for whoever waits: the log has the rest."""
    return HotseatError(f"an error in hotseat itself ({type(problem).__name__}). Its log says more; please report it.")


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """` Did you mean "qwen"?` for a near miss, else an empty string."""
    nearest = get_close_matches(wrong, list(known), n=1, cutoff=0.6)
    return f' Did you mean "{nearest[0]}"?' if nearest else ""
