#!/usr/bin/env python3
"""What can go wrong, and how a program tells it apart."""

import bole

with bole.Client(timeout=60) as client:
    try:
        client.generate("Hi", top_p=2.0)
    except bole.InvalidArgument as error:
        print(f"{error.field} is wrong: {error.message}")

    try:
        client.generate("Hi", model="no-such-model")
    except bole.NotFound as error:
        print(f"not found: {error.message}")

    try:
        client.generate("Hi", regex="a*")
    except bole.Unimplemented as error:
        print(f"not offered: {error.field}")

    try:
        client.generate("Hi", max_tokens=4000, ignore_eos=True, timeout=0.2)
    except bole.DeadlineExceeded:
        print("out of time")

    events = client.generate("Hi", max_tokens=4000, ignore_eos=True, stream=True)
    try:
        for event in events:
            events.cancel()
    except bole.Cancelled:
        print("cancelled")

try:
    bole.Client("127.0.0.1:1", retry=bole.RetryPolicy(max_attempts=1)).models()
except bole.Unavailable as error:
    print(f"nothing answers, {error.code}")
except bole.BoleError as error:  # The base of all of them.
    print(f"something else: {error}")
