#!/usr/bin/env python3
"""Freezes the turns in which a chat template writes the answers of
conversations.json, as jinja2 renders them.

Usage: freeze_turns.py TEMPLATE > TURNS.json

The result has for each conversation {"name", "prompt", "turn"}: the end of the
prompt that the turn continues, and the turn up to the end of the assistant's
message.
"""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/common/chat"))

import jinja_oracle  # noqa: E402

END = "<|im_end|>"
START = "<|im_start|>assistant\n"


def turn_of(template, conversation):
    rendered = template.render(
        messages=conversation["messages"] + [conversation["answer"]],
        tools=conversation["tools"],
        add_generation_prompt=False,
        enable_thinking=True,
    )
    begin = rendered.rindex(START) + len(START)
    turn = rendered[begin : rendered.rindex(END)]
    opening = "<think>\n"
    prompt = START
    if turn.startswith(opening):
        prompt, turn = START + opening, turn[len(opening) :]
    return {"name": conversation["name"], "prompt": prompt, "turn": turn}


def main():
    if len(sys.argv) != 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    environment = jinja_oracle.make_environment()
    template = environment.from_string(pathlib.Path(sys.argv[1]).read_text())
    path = pathlib.Path(__file__).parent / "conversations.json"
    turns = [turn_of(template, c) for c in json.loads(path.read_text())]
    lines = (json.dumps(turn, ensure_ascii=False) for turn in turns)
    print("[\n" + ",\n".join(lines) + "\n]")
    return 0


if __name__ == "__main__":
    sys.exit(main())
