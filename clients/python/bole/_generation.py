"""One answer over one call or several, without any of their input and output.

Each further call goes on where the one before broke off. What it takes for that
is the seed, which is drawn here if the caller gives none, and what has come of
each choice.
"""

from __future__ import annotations

import dataclasses
import re
import secrets
from typing import Any

from bole._proto import bole_pb2
from bole._retry import Retries
from bole.errors import BoleError, Cancelled, Internal, InvalidArgument, Unavailable
from bole.types import (Chunk, Complete, Event, FinishReason, PromptOutput, Result,
                        Speculation, Timing, TokenLogprob, ToolCall, Usage)

_FINISH: dict[int, FinishReason] = {
    bole_pb2.FINISH_REASON_STOP: "stop",
    bole_pb2.FINISH_REASON_LENGTH: "length",
}


@dataclasses.dataclass(slots=True)
class _Lengths:
    """How much there is of a choice, or how much is to be left out of it."""

    ids: int = 0
    text: int = 0
    logprobs: int = 0
    reasoning: int = 0
    calls: int = 0


class _Choice:
    """What has come of a choice."""

    def __init__(self, resumed: list[int], complete: bool) -> None:
        self.resumed = resumed  # The caller's.
        self.was_complete = complete  # Before the first call.
        self.end: Complete | None = None
        self.ids: list[int] = []
        self.text = ""
        self.logprobs: list[TokenLogprob] = []
        self.reasoning = ""
        self.calls: list[ToolCall] = []
        self.prompt: PromptOutput | None = None
        self._before_last = _Lengths()  # Before the last chunk with tokens.
        # The choice ends with its last token, and only the word that it does
        # is missing: the last chunk is asked for again, and left out.
        self.repeats_last = False
        self._skip = _Lengths()

    @property
    def complete(self) -> bool:
        return self.was_complete or self.end is not None

    def _lengths(self) -> _Lengths:
        return _Lengths(len(self.ids), len(self.text), len(self.logprobs),
                        len(self.reasoning), len(self.calls))

    def begin_attempt(self) -> list[int]:
        """The output that the server is to go on from."""
        self._skip = _Lengths()
        if not self.repeats_last:
            return self.resumed + self.ids
        had, before = self._lengths(), self._before_last
        self._skip = _Lengths(
            had.ids - before.ids, had.text - before.text,
            had.logprobs - before.logprobs, had.reasoning - before.reasoning,
            had.calls - before.calls)
        return self.resumed + self.ids[:before.ids]

    def _new(self, name: str, values: Any) -> Any:
        """`values` without what had come before."""
        skipped = min(getattr(self._skip, name), len(values))
        setattr(self._skip, name, getattr(self._skip, name) - skipped)
        return values[skipped:]

    def add(self, message: Any, ids: Any) -> Chunk:
        """Takes a chunk, or what a final message has of one; what is new."""
        chunk = Chunk(
            index=message.index,
            text=self._new("text", message.text),
            token_ids=self._new("ids", tuple(ids)),
            logprobs=self._new("logprobs", tuple(
                map(TokenLogprob.from_message, message.output_logprobs))),
            usage=Usage.from_message(message.usage),
            prompt=(PromptOutput.from_message(message.prompt)
                    if message.HasField("prompt") else None),
            reasoning_content=self._new("reasoning", message.reasoning_content),
            tool_calls=self._new("calls", tuple(
                map(ToolCall.from_message, message.tool_calls))))
        if chunk.token_ids:
            self._before_last = self._lengths()
        self.ids.extend(chunk.token_ids)
        self.text += chunk.text
        self.logprobs.extend(chunk.logprobs)
        self.reasoning += chunk.reasoning_content
        self.calls.extend(chunk.tool_calls)
        self.prompt = chunk.prompt or self.prompt
        return chunk

    def finish(self, message: Any) -> Complete:
        matched = message.WhichOneof("matched_stop")
        timing = message.timing
        self.end = Complete(
            index=message.index, text=self.text, token_ids=tuple(self.ids),
            logprobs=tuple(self.logprobs),
            finish_reason=_FINISH.get(message.finish_reason, ""),
            matched_stop=getattr(message, matched) if matched else None,
            seed=message.seed, usage=Usage.from_message(message.usage),
            speculation=Speculation.from_message(message.speculation),
            timing=Timing(timing.queue_seconds, timing.first_token_seconds,
                          timing.total_seconds),
            prompt=self.prompt, reasoning_content=self.reasoning,
            tool_calls=tuple(self.calls))
        return self.end


def _is_news(chunk: Chunk) -> bool:
    return bool(chunk.token_ids or chunk.text or chunk.prompt or
                chunk.reasoning_content or chunk.tool_calls)


class Generation:
    """What is asked, what has come of it, and what to ask next.

    The caller sends request(), gives every response to receive(), and the error
    of a call to failed(), which says when to send the next one.
    """

    def __init__(self, request: Any, retries: Retries) -> None:
        self._request = request
        self.retries = retries
        if not request.sampling_params.HasField("seed"):
            request.sampling_params.seed = secrets.randbits(63)
        count = request.n if request.HasField("n") else 1
        # A request of which the server will say what is wrong has none.
        given = list(request.resume) or [bole_pb2.ResumedChoice()] * min(count, 1024)
        self._choices = [_Choice(list(had.output_ids), had.complete)
                         for had in given]
        self._was_resumed = bool(request.resume)
        self._model = ""
        self._new_in_attempt = False

    @property
    def is_complete(self) -> bool:
        return all(choice.complete for choice in self._choices)

    @property
    def _has_output(self) -> bool:
        return any(choice.ids or choice.end for choice in self._choices)

    def request(self) -> Any:
        """The message of the next call."""
        self._new_in_attempt = False
        outputs = [choice.begin_attempt() for choice in self._choices]
        if not self._has_output:
            return self._request  # As it was given.
        request = bole_pb2.GenerateRequest()
        request.CopyFrom(self._request)
        del request.resume[:]
        for choice, output in zip(self._choices, outputs):
            request.resume.add(output_ids=[] if choice.complete else output,
                               complete=choice.complete)
        if any(choice.prompt for choice in self._choices):
            request.echo = False  # It came.
            request.ClearField("prompt_logprobs")
        return request

    def receive(self, response: Any) -> Event | None:
        """The event of a response; None if it has nothing new."""
        self._model = response.model
        self._request.request_id = response.request_id
        kind = response.WhichOneof("response")
        if kind is None:
            return None  # Of a newer server.
        message = getattr(response, kind)
        if message.index >= len(self._choices):
            raise Internal(f"choice {message.index} was not asked for")
        choice = self._choices[message.index]
        ids = message.token_ids if kind == "chunk" else message.output_ids
        chunk = choice.add(message, ids)
        event: Event | None = chunk if _is_news(chunk) else None
        if kind == "complete":
            event = choice.finish(message)
        if event is not None:
            self._new_in_attempt = True
            self.retries.progress()
        return event

    def ended(self) -> None:
        """The call ended well. Raises Internal if the answer did not."""
        if not self.is_complete:
            raise Internal("the stream ended before the answer")

    def failed(self, error: BoleError) -> float | None:
        """Seconds until the next call; None if the answer is there all the same.

        Raises `error` if there is to be no further call.
        """
        if self.is_complete:
            return None
        if self._is_over_unsaid(error):
            return 0.0
        if isinstance(error, Cancelled) and not error.reason and \
                not self._new_in_attempt:
            # It reached a server just as that stopped.
            error = Unavailable(error.message)
        if self._new_in_attempt and not isinstance(error, Unavailable):
            raise error
        if self._has_output and not self.retries.policy.resume:
            raise error
        return self.retries.delay_after(error)

    def _is_over_unsaid(self, error: BoleError) -> bool:
        """Whether the server says that what it is to go on from has an end."""
        found = re.fullmatch(r"resume\[(\d+)\].*", error.field)
        if not isinstance(error, InvalidArgument) or not found:
            return False
        index = int(found[1])
        if index >= len(self._choices):
            return False
        choice = self._choices[index]
        if not choice.ids or choice.repeats_last:
            return False
        choice.repeats_last = True
        return True

    def result(self) -> Result:
        """The whole answer. REQUIRES: is_complete."""
        return Result(self._request.request_id, self._model, tuple(
            choice.end for choice in self._choices if choice.end is not None))
