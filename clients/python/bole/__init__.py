"""A client of Bole, a server for language models.

    import bole

    with bole.Client("127.0.0.1:8400") as client:
        for event in client.generate("Once", max_tokens=64, stream=True):
            if isinstance(event, bole.Chunk):
                print(event.text, end="", flush=True)
"""

from importlib.metadata import version as _version

from bole._request import GenerateOptions
from bole._retry import RetryPolicy
from bole.aio import AsyncClient, AsyncStream
from bole.client import Client, Stream
from bole.errors import (BoleError, Cancelled, DeadlineExceeded, FieldViolation,
                         Internal, InvalidArgument, NotFound, Overloaded,
                         PermissionDenied, SlowReader, Unauthenticated,
                         Unavailable, Unimplemented)
from bole.types import (AuditProblem, Chunk, Complete, Event, LatencyTargets, Load,
                        ModelInfo, Pool, PromptOutput, ResumedChoice, Result,
                        ServerInfo, ServerLoad, Speculation, SpeculationOverride,
                        SpeculationPolicy, Timing, TokenLogprob, Tokens, ToolCall,
                        TopLogprob, Usage, WorkerInfo)

__version__ = _version("bole")

__all__ = [
    "AsyncClient", "AsyncStream", "AuditProblem", "BoleError", "Cancelled",
    "Chunk", "Client", "Complete", "DeadlineExceeded", "Event",
    "FieldViolation", "GenerateOptions", "Internal", "InvalidArgument",
    "LatencyTargets", "Load", "ModelInfo", "NotFound", "Overloaded",
    "PermissionDenied", "Pool", "PromptOutput", "Result", "ResumedChoice",
    "RetryPolicy", "ServerInfo", "ServerLoad", "SlowReader", "Speculation",
    "SpeculationOverride", "SpeculationPolicy", "Stream", "Timing",
    "TokenLogprob", "Tokens", "ToolCall", "TopLogprob", "Unauthenticated",
    "Unavailable", "Unimplemented", "Usage", "WorkerInfo",
]
