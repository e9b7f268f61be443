#!/usr/bin/env python3
"""Writes on after a text: the whole at once, and as it comes.

Usage: generate.py [TEXT]; the environment's BOLE_SERVER names the server.
"""

import sys

import bole

text = sys.argv[1] if len(sys.argv) > 1 else "def fibonacci(n):\n"

with bole.Client(timeout=60) as client:
    result = client.generate(text, temperature=0, max_tokens=32)
    print(result.text)
    print(f"-- {result.usage.completion_tokens} tokens, "
          f"{result.choices[0].speculation.accepted_drafts} of them drafted, "
          f"ended by {result.finish_reason}")

    # Two texts at once, with the log probability of every token.
    with client.generate(text, n=2, seed=7, max_tokens=16, logprobs=0,
                         stream=True) as events:
        for event in events:
            if isinstance(event, bole.Complete):
                total = sum(token.logprob for token in event.logprobs)
                print(f"-- choice {event.index}, logprob {total:.2f}:")
                print(event.text)
