"""What programs share that measure in parts.

Every measurement is a line of OUT/KIND-HOST.jsonl. What is there is not measured
again: a call that is short of time ends by itself, with exit code UNFINISHED,
and goes on when it is called again.
"""

import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import time

import serving

UNFINISHED = 75  # As sysexits.h has it: come again.
# What takes long may always begin in the first seconds of a call.
SOON = 5


class Deadline(Exception):
    """The time of this call is used up."""


def device_name(device):
    """What measurements are compared within."""
    if device.startswith("cuda"):
        done = subprocess.run(
            ["nvidia-smi", "--query-gpu=name,driver_version",
             "--format=csv,noheader"], stdout=subprocess.PIPE, text=True)
        return done.stdout.strip().splitlines()[0]
    return f"{platform.processor() or platform.machine()}, " \
           f"{os.cpu_count()} threads"


class Campaign:
    """One call of a program. A class for it has left(), the measurements that
    are not done yet, and measure_all(), which ends with Deadline or when there
    are none."""

    KIND = ""  # Of its files.
    KEY = ()   # The fields that say what a line is of.

    def __init__(self, options):
        self.options = options
        self.bundle = serving.Bundle(options.bundle)
        self.out = pathlib.Path(options.out)
        self.out.mkdir(parents=True, exist_ok=True)
        self.path = self.out / f"{self.KIND}-{platform.node()}.jsonl"
        self.device = device_name(options.device)
        self.start = time.monotonic()
        self.done = set()
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                self.done.add(self.key(json.loads(line)))

    def key(self, row):
        return tuple(row[field] for field in self.KEY)

    def add(self, row):
        with open(self.path, "a") as file:
            file.write(json.dumps(row) + "\n")
        self.done.add(self.key(row))

    def file_of(self, model, suffix):
        return self.out / (re.sub(r"\W+", "_", model) + suffix)

    def check_time(self, needed=0.0):
        used = time.monotonic() - self.start
        if used > max(self.options.seconds - needed, SOON if needed else 0):
            raise Deadline()

    def run(self):
        """The exit code of the program."""
        try:
            self.measure_all()
        except Deadline:
            pass
        except (serving.Failure, RuntimeError, OSError,
                subprocess.SubprocessError) as error:
            print(error, file=sys.stderr)
            return 1
        left = len(self.left())
        print(f"{left} measurements are left" if left else "all is measured")
        return UNFINISHED if left else 0


def list_of(kind):
    return lambda text: [kind(part) for part in text.split(",")]


def known(parser, flag, names, all_names):
    """An error of the command line if some of the names are none."""
    unknown = set(names) - set(all_names)
    if unknown:
        parser.error(f"{flag}: there is no {', '.join(sorted(unknown))}")
