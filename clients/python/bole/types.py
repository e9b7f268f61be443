"""What is asked and what is answered, as values.

Names and meanings are those of proto/bole.proto, which says more of each.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Literal, TypeAlias

from bole._proto import bole_pb2

FinishReason: TypeAlias = Literal["stop", "length", ""]


def _enum_name(enum: Any, prefix: str, value: int) -> str:
    """"tree" of SPECULATION_MODE_TREE; empty for what is not specified."""
    if value == 0:
        return ""
    if value not in enum.values():
        return str(value)  # Of a newer server.
    return str(enum.Name(value)).removeprefix(prefix).lower()


# What is asked.


@dataclasses.dataclass(frozen=True, slots=True)
class SpeculationOverride:
    """Bounds on what is verified of the drafts. They never change the text."""

    mode: Literal["off", "chain", "tree", ""] = ""  # Empty: the server's.
    nodes: int | None = None  # Verified per round, the root included: [1, 128].
    depth: int | None = None  # Levels that are drafted: [1, 16].


@dataclasses.dataclass(frozen=True, slots=True)
class LatencyTargets:
    """What the server is to aim at; no promise. None: any time will do."""

    time_to_first_token_ms: int | None = None
    time_per_output_token_ms: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ResumedChoice:
    """What the caller has already of a choice of a stream that failed."""

    output_ids: tuple[int, ...] = ()
    complete: bool = False  # It ended: nothing more is sent of it.


# What is answered.


@dataclasses.dataclass(frozen=True, slots=True)
class Usage:
    """In tokens, of one choice."""

    prompt_tokens: int = 0
    completion_tokens: int = 0  # Resumed ones included.
    cached_tokens: int = 0

    @classmethod
    def from_message(cls, message: Any) -> Usage:
        return cls(message.prompt_tokens, message.completion_tokens,
                   message.cached_tokens)


@dataclasses.dataclass(frozen=True, slots=True)
class TopLogprob:
    """A token that could have been chosen."""

    token_id: int
    logprob: float
    text: str  # Of this token alone; U+FFFD for what is no character.
    bytes: bytes  # The same as it is: put together they are the text.


@dataclasses.dataclass(frozen=True, slots=True)
class TokenLogprob(TopLogprob):
    """A token that was chosen, or that is of the prompt."""

    top: tuple[TopLogprob, ...] = ()  # Likeliest first.

    @classmethod
    def from_message(cls, message: Any) -> TokenLogprob:
        top = tuple(TopLogprob(t.token_id, t.logprob, t.text, t.bytes)
                    for t in message.top)
        return cls(message.token_id, message.logprob, message.text,
                   message.bytes, top)


@dataclasses.dataclass(frozen=True, slots=True)
class ToolCall:
    """A function that the model asks to be called."""

    id: str
    name: str
    arguments_json: str  # A JSON object, as the model wrote it.

    @property
    def arguments(self) -> dict[str, Any]:
        """Parsed. Raises ValueError if the model wrote no JSON object."""
        arguments = json.loads(self.arguments_json or "{}")
        if not isinstance(arguments, dict):
            raise ValueError(f"the arguments of {self.name} are no JSON object")
        return arguments

    @classmethod
    def from_message(cls, message: Any) -> ToolCall:
        return cls(message.id, message.name, message.arguments_json)


@dataclasses.dataclass(frozen=True, slots=True)
class PromptOutput:
    """What was asked to be told of the prompt."""

    token_ids: tuple[int, ...] = ()  # With echo.
    text: str = ""  # With echo.
    # With prompt_logprobs: of the second token and those after it.
    logprobs: tuple[TokenLogprob, ...] = ()

    @classmethod
    def from_message(cls, message: Any) -> PromptOutput:
        return cls(tuple(message.token_ids), message.text,
                   tuple(map(TokenLogprob.from_message, message.logprobs)))


@dataclasses.dataclass(frozen=True, slots=True)
class Speculation:
    """What was verified for a choice."""

    rounds: int = 0  # Forwards of the model.
    accepted_drafts: int = 0  # Output tokens that the drafter proposed.
    off_rounds: int = 0
    chain_rounds: int = 0
    tree_rounds: int = 0
    selected_nodes: int = 0
    promised_tokens: float = 0.0
    off_reason: str = ""  # The most frequent of off_rounds: "not_worth_it".

    @classmethod
    def from_message(cls, message: Any) -> Speculation:
        return cls(message.rounds, message.accepted_drafts, message.off_rounds,
                   message.chain_rounds, message.tree_rounds,
                   message.selected_nodes, message.promised_tokens,
                   _enum_name(bole_pb2.SpeculationOffReason,
                              "SPECULATION_OFF_REASON_", message.off_reason))


@dataclasses.dataclass(frozen=True, slots=True)
class Timing:
    """Seconds since the server accepted the request."""

    queue_seconds: float = 0.0
    first_token_seconds: float = 0.0
    total_seconds: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class Chunk:
    """What is new of one choice."""

    index: int  # The choice.
    # In whole characters; it lags behind the tokens where a character or a stop
    # string may have begun.
    text: str
    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...]
    usage: Usage  # So far.
    prompt: PromptOutput | None = None  # In one event of a call, if asked for.
    reasoning_content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Complete:
    """The end of a choice, with all of its text, streamed or not.

    Of a choice that the caller resumed, what came after that.
    """

    index: int  # The choice.
    text: str
    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...]
    finish_reason: FinishReason  # "length": max_tokens, or the context is full.
    matched_stop: int | str | None  # The token or the text that ended it.
    seed: int  # That was used.
    usage: Usage
    speculation: Speculation
    timing: Timing
    prompt: PromptOutput | None = None
    reasoning_content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()

    def message(self) -> dict[str, Any]:
        """As a message of the assistant, for the next turn of a conversation."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.reasoning_content:
            message["reasoning_content"] = self.reasoning_content
        if self.tool_calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function",
                 "function": {"name": call.name,
                              "arguments": call.arguments_json}}
                for call in self.tool_calls]
        return message


Event: TypeAlias = Chunk | Complete


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """An answer, as a whole. The properties are those of its first choice."""

    request_id: str
    model: str
    choices: tuple[Complete, ...]  # By index, but for those resumed as complete.

    @property
    def text(self) -> str:
        return self.choices[0].text

    @property
    def token_ids(self) -> tuple[int, ...]:
        return self.choices[0].token_ids

    @property
    def finish_reason(self) -> FinishReason:
        return self.choices[0].finish_reason

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return self.choices[0].tool_calls

    @property
    def usage(self) -> Usage:
        return self.choices[0].usage

    def message(self) -> dict[str, Any]:
        """As `Complete.message()`."""
        return self.choices[0].message()


@dataclasses.dataclass(frozen=True, slots=True)
class Tokens:
    """A text as the model reads it."""

    input_ids: tuple[int, ...]
    text: str  # That was tokenized: of a chat, as rendered.


@dataclasses.dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model that is served."""

    model: str
    max_context: int  # Prompt and output together, in tokens.
    vocab_size: int
    eos_token_ids: tuple[int, ...]
    default_sampling_params: dict[str, Any]  # By name, those that are set.
    has_drafter: bool
    has_chat_template: bool
    synthetic: bool
    ready: bool  # A worker is there that takes requests.

    @classmethod
    def from_message(cls, message: Any) -> ModelInfo:
        defaults = {field.name: value for field, value
                    in message.default_sampling_params.ListFields()}
        return cls(message.model, message.max_context, message.vocab_size,
                   tuple(message.eos_token_ids), defaults, message.has_drafter,
                   message.has_chat_template, message.synthetic, message.ready)


@dataclasses.dataclass(frozen=True, slots=True)
class SpeculationPolicy:
    """How the server speculates."""

    mode: str  # "off", "chain", "tree"
    top_k: int
    depth: int
    nodes: int
    policy: str  # "fixed", "goodput", ...

    @classmethod
    def from_message(cls, message: Any) -> SpeculationPolicy:
        mode = _enum_name(bole_pb2.SpeculationMode, "SPECULATION_MODE_",
                          message.mode)
        policy = _enum_name(bole_pb2.BudgetPolicy, "BUDGET_POLICY_",
                            message.policy)
        return cls(mode, message.top_k, message.depth, message.nodes, policy)


@dataclasses.dataclass(frozen=True, slots=True)
class ServerInfo:
    """The server itself."""

    version: str
    uptime_seconds: float
    draining: bool
    speculation: SpeculationPolicy

    @classmethod
    def from_message(cls, message: Any) -> ServerInfo:
        return cls(message.version, message.uptime_seconds, message.draining,
                   SpeculationPolicy.from_message(message.speculation))


@dataclasses.dataclass(frozen=True, slots=True)
class Pool:
    """Slots or pages of a worker."""

    total: int
    free: int


@dataclasses.dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A worker, as the scheduler sees it."""

    address: str
    connected: bool
    epoch: int
    device: str
    last_error: str
    model: str
    synthetic: bool
    draining: bool
    running_requests: int
    prefilling_requests: int
    slots: Pool
    pages: Pool

    @classmethod
    def from_message(cls, message: Any) -> WorkerInfo:
        return cls(message.address, message.connected, message.epoch,
                   message.device, message.last_error, message.model,
                   message.synthetic, message.draining,
                   message.running_requests, message.prefilling_requests,
                   Pool(message.slots.total, message.slots.free),
                   Pool(message.pages.total, message.pages.free))


@dataclasses.dataclass(frozen=True, slots=True)
class Load:
    """What a model, or the server as a whole, has to do."""

    model: str  # Empty in the total.
    running_requests: int
    waiting_requests: int
    waiting_tokens: int
    waiting_bytes: int

    @classmethod
    def from_message(cls, message: Any) -> Load:
        return cls(message.model, message.running_requests,
                   message.waiting_requests, message.waiting_tokens,
                   message.waiting_bytes)


@dataclasses.dataclass(frozen=True, slots=True)
class ServerLoad:
    """The load in total, and of each model."""

    total: Load
    models: tuple[Load, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class AuditProblem:
    """Something that is not as it must be."""

    worker: str  # Its address; empty: the scheduler's own state.
    text: str
