#!/usr/bin/env python3
"""A model that may call a function of this program."""

import json

import bole

TOOLS = [{
    "type": "function",
    "function": {
        "name": "temperature_of",
        "description": "The temperature in a city, in degrees Celsius.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}]


def temperature_of(city: str) -> dict[str, object]:
    return {"city": city, "celsius": 21}


messages = [{"role": "user", "content": "How warm is it in Oslo?"}]
with bole.Client(timeout=60) as client:
    for _ in range(4):  # Turns, at most.
        try:
            result = client.generate(messages=messages, tools=TOOLS,
                                     parse_output=True, max_tokens=64, seed=1)
        except bole.Unimplemented as error:
            print(f"this server does not offer {error.field}")
            break
        messages.append(result.message())
        if not result.tool_calls:
            print(result.text)
            break
        for call in result.tool_calls:
            print(f"-- {call.name}({call.arguments_json})")
            messages.append({
                "role": "tool",
                "tool_call_id": call.id,
                "content": json.dumps(temperature_of(**call.arguments)),
            })
