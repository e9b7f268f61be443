#!/usr/bin/env python3
"""A conversation of two turns, each printed as it comes."""

import bole

questions = ["Write a python function to add two numbers.", "And to multiply?"]
messages = []

with bole.Client(timeout=60) as client:
    for question in questions:
        print(">", question)
        messages.append({"role": "user", "content": question})
        with client.generate(messages=messages, temperature=0, max_tokens=48,
                             stream=True) as events:
            for event in events:
                if isinstance(event, bole.Chunk):
                    print(event.text, end="", flush=True)
            messages.append(events.result().message())
        print()
