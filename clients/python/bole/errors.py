"""Why a call failed.

Every error of a server is a `BoleError`; its class says what to do, `reason`
says why, for programs, and the message is for people. None of them has anything
of the client's credentials in it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import grpc
from google.protobuf.message import DecodeError, Message

from bole._proto import bole_pb2, error_details_pb2, status_pb2
from bole.types import Usage

_DOMAIN = "bole"
_DETAILS_KEY = "grpc-status-details-bin"


@dataclasses.dataclass(frozen=True, slots=True)
class FieldViolation:
    """What is wrong with one field of a request."""

    field: str  # Its path: "sampling_params.top_p".
    description: str


class BoleError(Exception):
    """A call that failed. The base of all errors of this package.

    Attributes:
      message: for people; it may change.
      code: the name of the gRPC status code, "UNAVAILABLE".
      reason: for programs, "QUEUE_REQUESTS" (the head of bole.proto lists
        them); empty if the server gave none.
      metadata: numbers that belong to the reason, by name: {"max": "1024"}.
      violations: the fields that are at fault.
      retry_after: seconds after which to come again; None if the server did not
        say.
      usage: what the request used before it failed; None if it never began.
    """

    default_code = "UNKNOWN"

    def __init__(self, message: str, *, code: str = "", reason: str = "",
                 metadata: Mapping[str, str] | None = None,
                 violations: Sequence[FieldViolation] = (),
                 retry_after: float | None = None,
                 usage: Usage | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.reason = reason
        self.metadata = dict(metadata or {})
        self.violations = tuple(violations)
        self.retry_after = retry_after
        self.usage = usage

    @property
    def field(self) -> str:
        """The path of the first field that is at fault; empty if none is."""
        return self.violations[0].field if self.violations else ""

    def __str__(self) -> str:
        kind = f"{self.code}, {self.reason}" if self.reason else self.code
        return f"{self.message} ({kind})"


class InvalidArgument(BoleError, ValueError):
    """A field of the request is wrong; `field` names it.

    Also raised before anything is sent, for what no request can hold.
    """

    default_code = "INVALID_ARGUMENT"


class NotFound(BoleError):
    """The server does not serve such a model."""

    default_code = "NOT_FOUND"


class Unimplemented(BoleError):
    """The server does not offer this; `field` names what was asked for."""

    default_code = "UNIMPLEMENTED"


class Overloaded(BoleError):
    """A bound of the server is reached; `retry_after` says when to come again."""

    default_code = "RESOURCE_EXHAUSTED"


class SlowReader(BoleError):
    """The events were taken too slowly. Those that came are valid."""

    default_code = "RESOURCE_EXHAUSTED"


class DeadlineExceeded(BoleError):
    """The time is up. The events that came are valid."""

    default_code = "DEADLINE_EXCEEDED"


class Cancelled(BoleError):
    """The call was cancelled."""

    default_code = "CANCELLED"


class Unavailable(BoleError):
    """Nothing answers, there is no worker, or the server is about to leave."""

    default_code = "UNAVAILABLE"


class Unauthenticated(BoleError):
    """The server does not know who asks: no token, or not a valid one."""

    default_code = "UNAUTHENTICATED"


class PermissionDenied(BoleError):
    """Who asks is known, and may not do this."""

    default_code = "PERMISSION_DENIED"


class Internal(BoleError):
    """The server failed."""

    default_code = "INTERNAL"


_CLASSES: dict[str, type[BoleError]] = {
    kind.default_code: kind
    for kind in (InvalidArgument, NotFound, Unimplemented, Overloaded,
                 DeadlineExceeded, Cancelled, Unavailable, Unauthenticated,
                 PermissionDenied, Internal)
}


def bad_field(field: str, what: str) -> InvalidArgument:
    """The error of a field that no message can hold."""
    message = f"{field} {what}"
    return InvalidArgument(message, reason="INVALID_ARGUMENT",
                           violations=[FieldViolation(field, message)])


def _unpack(detail: Any, message: Message) -> bool:
    """Reads `message` from an Any that holds one under its published name."""
    _, _, name = detail.type_url.rpartition("/")
    ours = message.DESCRIPTOR.full_name
    if name != ours.replace("bole.sdk.rpc.", "google.rpc."):
        return False
    message.ParseFromString(detail.value)
    return True


def _read_detail(detail: Any, fields: dict[str, Any]) -> None:
    info = error_details_pb2.ErrorInfo()
    bad = error_details_pb2.BadRequest()
    retry = error_details_pb2.RetryInfo()
    usage = bole_pb2.Usage()
    if _unpack(detail, info):
        if info.domain == _DOMAIN:
            fields["reason"] = info.reason
            fields["metadata"] = dict(info.metadata)
    elif _unpack(detail, bad):
        fields["violations"] = [FieldViolation(v.field, v.description)
                                for v in bad.field_violations]
    elif _unpack(detail, retry):
        fields["retry_after"] = retry.retry_delay.ToMilliseconds() / 1000
    elif _unpack(detail, usage):
        fields["usage"] = Usage.from_message(usage)


def from_rpc_error(error: grpc.RpcError) -> BoleError:
    """What a failed call of gRPC, of either of its interfaces, tells.

    Details that are not known, or that cannot be read, are left out.
    """
    code: str = error.code().name
    fields: dict[str, Any] = {}
    for key, value in error.trailing_metadata() or ():
        if key != _DETAILS_KEY:
            continue
        try:
            for detail in status_pb2.Status.FromString(value).details:
                _read_detail(detail, fields)
        except DecodeError:
            pass
    kind = _CLASSES.get(code, BoleError)
    if fields.get("reason") == "SLOW_READER":
        kind = SlowReader
    return kind(error.details() or "no message", code=code, **fields)
