"""From Python's values to messages of the protocol."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypedDict

from bole._proto import bole_pb2
from bole.errors import bad_field
from bole.types import LatencyTargets, ResumedChoice, SpeculationOverride


class GenerateOptions(TypedDict, total=False):
    """What `generate()` takes by keyword, named and meant as in bole.proto.

    What is left out, or None, is not sent: the checkpoint's defaults hold.
    """

    # The prompt, unless it is given as text.
    token_ids: Sequence[int] | None
    messages: Sequence[Mapping[str, Any]] | None  # As OpenAI's API has them.
    # With messages only.
    tools: Sequence[Mapping[str, Any]] | None  # As OpenAI's API has them.
    tool_choice: Literal["auto", "none", "required"] | None
    template_kwargs: Mapping[str, Any] | None  # {"enable_thinking": False}
    add_generation_prompt: bool | None
    parse_output: bool | None
    # SamplingParams.
    temperature: float | None
    top_p: float | None
    top_k: int | None
    min_p: float | None
    frequency_penalty: float | None
    presence_penalty: float | None
    repetition_penalty: float | None
    max_tokens: int | None
    min_tokens: int | None
    stop: str | Sequence[str] | None
    stop_token_ids: Sequence[int] | None
    skip_special_tokens: bool | None
    ignore_eos: bool | None
    logprobs: int | None
    seed: int | None  # Left out: drawn here, so that a stream can go on.
    include_stop_str_in_output: bool | None
    logit_bias: Mapping[int, float] | None
    # GenerateRequest.
    request_id: str | None
    model: str | None  # Left out: the client's.
    priority: int | None
    n: int | None
    cache_salt: str | None
    echo: bool | None
    prompt_logprobs: int | None
    speculation: SpeculationOverride | Literal["off", "chain", "tree"] | None
    targets: LatencyTargets | None
    resume: Sequence[ResumedChoice] | None
    # What the text must be: one of these.
    json_schema: str | Mapping[str, Any] | None
    regex: str | None
    choice: Sequence[str] | None
    grammar: str | None


_SAMPLING = {f.name for f in bole_pb2.SamplingParams.DESCRIPTOR.fields}
_CHAT = {"tools", "tool_choice", "template_kwargs", "add_generation_prompt",
         "parse_output"}
_MODES = {
    "": bole_pb2.SPECULATION_MODE_UNSPECIFIED,
    "off": bole_pb2.SPECULATION_MODE_OFF,
    "chain": bole_pb2.SPECULATION_MODE_CHAIN,
    "tree": bole_pb2.SPECULATION_MODE_TREE,
}
_TOOL_CHOICES = {
    "auto": bole_pb2.TOOL_CHOICE_AUTO,
    "none": bole_pb2.TOOL_CHOICE_NONE,
    "required": bole_pb2.TOOL_CHOICE_REQUIRED,
}


def _set(message: Any, name: str, value: Any, path: str) -> None:
    """Sets a field, a list or a map."""
    try:
        if isinstance(value, Mapping):
            for key, item in value.items():
                getattr(message, name)[key] = item
        elif isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
            getattr(message, name).extend(value)
        else:
            setattr(message, name, value)
    except (TypeError, ValueError, AttributeError) as error:
        raise bad_field(path, f"cannot be sent: {error}") from None


def _to_json(value: Any, path: str) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise bad_field(path, f"is no JSON: {error}") from None


def _content(content: Any, path: str) -> str:
    """A text, or OpenAI's list of parts, which have to be texts."""
    if isinstance(content, str):
        return content
    parts = []
    for i, part in enumerate(content):
        if not isinstance(part, Mapping) or part.get("type") != "text":
            raise bad_field(f"{path}[{i}]", "is no part of the type text")
        parts.append(str(part["text"]))
    return "".join(parts)


def _tool_call(call: Mapping[str, Any], path: str) -> Any:
    function = call.get("function")
    if not isinstance(function, Mapping):
        raise bad_field(f"{path}.function", "is missing")
    message = bole_pb2.ToolCall()
    _set(message, "id", call.get("id") or "", f"{path}.id")
    _set(message, "name", function.get("name", ""), f"{path}.name")
    message.arguments_json = _to_json(function.get("arguments") or "{}",
                                      f"{path}.arguments")
    return message


def _chat_message(given: Mapping[str, Any], path: str) -> Any:
    message = bole_pb2.ChatMessage()
    for key, value in given.items():
        where = f"{path}.{key}"
        if value is None:
            continue
        if key == "content":
            message.content = _content(value, where)
        elif key == "tool_calls":
            message.tool_calls.extend(
                _tool_call(call, f"{where}[{i}]") for i, call in enumerate(value))
        elif key in ("role", "reasoning_content", "tool_call_id", "name"):
            _set(message, key, value, where)
        else:
            raise bad_field(where, "is not a field of a message")
    return message


def _chat(options: Mapping[str, Any]) -> Any:
    chat = bole_pb2.ChatInput()
    chat.messages.extend(
        _chat_message(message, f"chat.messages[{i}]")
        for i, message in enumerate(options["messages"]))
    chat.tools_json.extend(
        _to_json(tool, f"chat.tools_json[{i}]")
        for i, tool in enumerate(options.get("tools") or ()))
    if "tool_choice" in options:
        choice = options["tool_choice"]
        if choice not in _TOOL_CHOICES:
            raise bad_field("chat.tool_choice", f"is {choice!r}; allowed are "
                            f"{', '.join(_TOOL_CHOICES)}")
        chat.tool_choice = _TOOL_CHOICES[choice]
    if "template_kwargs" in options:
        chat.template_kwargs_json = _to_json(options["template_kwargs"],
                                             "chat.template_kwargs_json")
    for name in ("add_generation_prompt", "parse_output"):
        if name in options:
            _set(chat, name, options[name], f"chat.{name}")
    return chat


def _set_prompt(request: Any, text: str | None,
                options: Mapping[str, Any]) -> None:
    given = [name for name, there in (
        ("text", text is not None), ("token_ids", "token_ids" in options),
        ("messages", "messages" in options)) if there]
    if len(given) != 1:
        raise bad_field("input", "is to be one of text, token_ids and messages; "
                        f"given are {', '.join(given) or 'none'}")
    chat_only = sorted(_CHAT & options.keys())
    if given != ["messages"] and chat_only:
        raise bad_field(chat_only[0], "needs messages")
    if text is not None:
        _set(request, "text", text, "text")
    elif "token_ids" in options:
        request.token_ids.SetInParent()
        _set(request.token_ids, "ids", options["token_ids"], "token_ids.ids")
    else:
        request.chat.CopyFrom(_chat(options))


def _set_speculation(request: Any,
                     given: SpeculationOverride | str) -> None:
    override = SpeculationOverride(mode=given) if isinstance(  # type: ignore[arg-type]
        given, str) else given
    if override.mode not in _MODES:
        raise bad_field("speculation.mode", f"is {override.mode!r}; allowed are "
                        "off, chain, tree")
    request.speculation.mode = _MODES[override.mode]
    for name in ("nodes", "depth"):
        value = getattr(override, name)
        if value is not None:
            _set(request.speculation, name, value, f"speculation.{name}")


def generate_request(text: str | None, given: Mapping[str, Any], model: str,
                     stream: bool) -> Any:
    """The message. TypeError for a keyword that there is not."""
    unknown = sorted(given.keys() - GenerateOptions.__annotations__.keys())
    if unknown:
        raise TypeError(f"generate() has no argument {unknown[0]!r}")
    options = {k: v for k, v in given.items() if v is not None}
    request = bole_pb2.GenerateRequest(stream=stream, model=model)
    _set_prompt(request, text, options)
    for name, value in options.items():
        if name in _CHAT or name in ("token_ids", "messages"):
            continue
        if name in _SAMPLING:
            if name == "stop" and isinstance(value, str):
                value = [value]
            _set(request.sampling_params, name, value, f"sampling_params.{name}")
        elif name == "speculation":
            _set_speculation(request, value)
        elif name == "targets":
            request.targets.SetInParent()
            for key in ("time_to_first_token_ms", "time_per_output_token_ms"):
                if getattr(value, key) is not None:
                    _set(request.targets, key, getattr(value, key),
                         f"targets.{key}")
        elif name == "resume":
            for i, had in enumerate(value):
                _set(request.resume.add(complete=had.complete), "output_ids",
                     had.output_ids, f"resume[{i}]")
        elif name == "json_schema":
            request.json_schema = _to_json(value, name)
        elif name == "choice":
            request.choice.SetInParent()
            _set(request.choice, "texts", value, name)
        else:
            _set(request, name, value, name)
    return request


def tokenize_request(text: str | None, options: Mapping[str, Any],
                     parse_special_tokens: bool | None, model: str) -> Any:
    """`options` are messages and what belongs to them."""
    unknown = sorted(options.keys() - _CHAT - {"messages"})
    if unknown:
        raise TypeError(f"tokenize() has no argument {unknown[0]!r}")
    request = bole_pb2.TokenizeRequest(model=model)
    _set_prompt(request, text,
                {k: v for k, v in options.items() if v is not None})
    if parse_special_tokens is not None:
        request.parse_special_tokens = parse_special_tokens
    return request
