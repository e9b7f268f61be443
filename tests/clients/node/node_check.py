#!/usr/bin/python3
"""Runs the example of a client in JavaScript against both services.

Usage, from the root of the tree, with the services built:
node_check.py EXAMPLE.mjs, whose packages are installed
"""

import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, "tests/e2e")

import services  # noqa: E402

def run_example(address, *arguments):
    return subprocess.run(
        ["node", sys.argv[1], *arguments], text=True, capture_output=True,
        timeout=90, env={**os.environ, "BOLE_SERVER": address})


def wrong(address):
    """What is wrong with what the example prints; None if nothing is."""
    # Until the scheduler has found its worker.
    services.eventually(
        lambda: "UNAVAILABLE" not in run_example(address).stderr)
    ran = run_example(address)
    text, _, end = ran.stdout.partition("\n-- ")
    if ran.returncode != 0 or end != "32 tokens, FINISH_REASON_LENGTH\n":
        return f"{ran.returncode}: {ran.stdout}{ran.stderr}"
    if len(text) < 32:
        return f"{len(text)} characters of text: {text!r}"
    refused = run_example(address, "")  # A prompt of no tokens.
    if refused.returncode != 1 or \
            not refused.stderr.startswith("INVALID_ARGUMENT: "):
        return f"not refused: {refused.stdout}{refused.stderr}"
    return None


def main():
    if len(sys.argv) != 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    services.WORKER = services.built(services.WORKER)
    services.SCHEDULER = services.built(services.SCHEDULER)
    with services.Services() as both:
        problem = wrong(both.scheduler.address)
    print(f"FAILED: {problem}" if problem else "the example streams")
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main())
