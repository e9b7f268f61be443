"""The calls that have one answer: message, and what becomes of the response."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from bole._proto import bole_pb2
from bole._request import tokenize_request
from bole.errors import bad_field
from bole.types import (AuditProblem, Load, ModelInfo, ServerInfo, ServerLoad,
                        Tokens, WorkerInfo)

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """A method of a service, and how it is called."""

    method: str
    request: Any
    convert: Callable[[Any], T]
    admin: bool = False


def tokenize(text: str | None, options: Mapping[str, Any],
             parse_special_tokens: bool | None, model: str) -> Call[Tokens]:
    request = tokenize_request(text, options, parse_special_tokens, model)
    return Call("Tokenize", request,
                lambda r: Tokens(tuple(r.input_ids), r.text))


def detokenize(ids: Sequence[int], skip_special_tokens: bool,
               model: str) -> Call[str]:
    try:
        request = bole_pb2.DetokenizeRequest(
            ids=ids, skip_special_tokens=skip_special_tokens, model=model)
    except (TypeError, ValueError) as error:
        raise bad_field("ids", f"cannot be sent: {error}") from None
    return Call("Detokenize", request, lambda r: str(r.text))


def models() -> Call[tuple[ModelInfo, ...]]:
    return Call("ListModels", bole_pb2.ListModelsRequest(),
                lambda r: tuple(map(ModelInfo.from_message, r.models)))


def model_info(model: str) -> Call[ModelInfo]:
    return Call("GetModelInfo", bole_pb2.GetModelInfoRequest(model=model),
                ModelInfo.from_message)


def server_info() -> Call[ServerInfo]:
    return Call("GetServerInfo", bole_pb2.GetServerInfoRequest(),
                ServerInfo.from_message)


def workers() -> Call[tuple[WorkerInfo, ...]]:
    return Call("ListWorkers", bole_pb2.ListWorkersRequest(),
                lambda r: tuple(map(WorkerInfo.from_message, r.workers)),
                admin=True)


def load() -> Call[ServerLoad]:
    return Call("GetLoad", bole_pb2.GetLoadRequest(),
                lambda r: ServerLoad(Load.from_message(r.total),
                                     tuple(map(Load.from_message, r.models))),
                admin=True)


def audit() -> Call[tuple[AuditProblem, ...]]:
    return Call("Audit", bole_pb2.AuditRequest(),
                lambda r: tuple(AuditProblem(p.worker, p.text)
                                for p in r.problems),
                admin=True)


def dump_rounds() -> Call[tuple[dict[str, Any], ...]]:
    return Call("DumpRounds", bole_pb2.DumpRoundsRequest(),
                lambda r: tuple(map(json.loads, r.json_lines.splitlines())),
                admin=True)
