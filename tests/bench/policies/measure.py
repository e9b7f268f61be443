#!/usr/bin/env python3
"""How fast a worker decodes under every setting of the scheduler, by load.

    deploy/bundle.sh BUNDLE //worker_service:bole-worker \\
        //worker_service/calibration:bole-calibrate \\
        //scheduler_service:bole-scheduler //clients/cli:bole
    # copy the folder and the source tree, then there, until nothing is left:
    tests/bench/policies/measure.py BUNDLE OUT
    tests/bench/policies/summarize.py OUT --markdown table.md --svg table.svg

A worker of each model is calibrated once, and then started with its table. It
lives while schedulers come and go: one for each setting, which is warmed up and
then loaded by closed loops of so many requests. Settings take turns, in another
order in every repetition, so that a drift of the machine meets all of them.

Every measurement is a line of OUT/measurements-HOST.jsonl. What is there is not
measured again: a run that is short of time ends by itself after --seconds, with
exit code 75, and goes on when it is called again. Files of several machines may
lie beside each other in OUT; measurements of one are compared with each other.
"""

import argparse
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # The folder may be a source tree.

import serving

UNFINISHED = 75  # As sysexits.h has it: come again.
# Nodes that a worker verifies in a round, of all requests together.
MAX_NODES = 1024
# Seconds that have to be left for a calibration to begin; but one may always
# begin in the first seconds of a call.
CALIBRATION = 400
SOON = 5

# Half of what the last one writes is easy for its drafter, half of it hard:
# which, depends on where a text starts.
MODELS = [f"synthetic:{size},accept={accept}"
          for size in ("9B", "27B", "35B-A3B") for accept in ("6.9", "3", "1.2")
          ] + ["synthetic:9B,accept=4,spread=3"]
TREES = (8, 16, 32, 64)


def settings():
    """{name: (flags of the scheduler, nodes of a request or None)}"""
    fixed = ["--policy", "fixed", "--speculation"]
    found = {"plain": (["--policy", "off"], 1)}
    for depth in (3, 5, 8):
        found[f"chain {depth}"] = (fixed + ["chain", "--depth", str(depth)],
                                   depth + 1)
    for nodes in TREES:
        found[f"tree {nodes}"] = (
            fixed + ["tree", "--top-k", "4", "--depth", "8", "--nodes",
                     str(nodes)], nodes)
    found["goodput"] = (["--policy", "goodput"], None)
    return found


def device_name(device):
    """What measurements are compared within."""
    if device.startswith("cuda"):
        done = subprocess.run(
            ["nvidia-smi", "--query-gpu=name,driver_version",
             "--format=csv,noheader"], stdout=subprocess.PIPE, text=True)
        return done.stdout.strip().splitlines()[0]
    return f"{platform.processor() or platform.machine()}, " \
           f"{os.cpu_count()} threads"


class Measurements:
    """The lines of a file, and what they are of."""

    def __init__(self, path):
        self.path = path
        self.done = set()
        if path.exists():
            for line in path.read_text().splitlines():
                self.done.add(self.key(json.loads(line)))

    @staticmethod
    def key(row):
        return (row["model"], row["setting"], row["requests"],
                row["repetition"])

    def add(self, row):
        with open(self.path, "a") as file:
            file.write(json.dumps(row) + "\n")
        self.done.add(self.key(row))


class Deadline(Exception):
    """The time of this call is used up."""


class Run:
    """One call of this program."""

    def __init__(self, options):
        self.options = options
        self.bundle = serving.Bundle(options.bundle)
        self.out = pathlib.Path(options.out)
        self.out.mkdir(parents=True, exist_ok=True)
        self.measurements = Measurements(
            self.out / f"measurements-{platform.node()}.jsonl")
        self.device = device_name(options.device)
        self.settings = {name: setting for name, setting in settings().items()
                         if name in options.settings}
        self.start = time.monotonic()

    def left(self, model):
        """[(repetition, setting, [requests])], in the order of measuring."""
        left = []
        for repetition in range(self.options.repetitions):
            names = list(self.settings)
            turn = repetition % len(names)
            for name in names[turn:] + names[:turn]:
                nodes = self.settings[name][1] or 1
                loads = [requests for requests in self.options.requests
                         if requests * nodes <= MAX_NODES and
                         (model, name, requests, repetition)
                         not in self.measurements.done]
                if loads:
                    left.append((repetition, name, loads))
        return left

    def check_time(self, needed=0.0):
        used = time.monotonic() - self.start
        if used > max(self.options.seconds - needed, SOON if needed else 0):
            raise Deadline()

    def measure(self, model):
        left = self.left(model)
        if not left:
            return
        table = str(self.out / (re.sub(r"\W+", "_", model) + ".table.json"))
        if not os.path.exists(table):
            self.check_time(CALIBRATION)
        self.bundle.calibrate(model, self.options.device, table,
                              *self.options.calibrate_flags.split())
        with self.bundle.worker(model, self.options.device, "--cost-table",
                                table) as worker:
            for repetition, name, loads in left:
                self.check_time()
                self.measure_setting(model, worker, repetition, name, loads)

    def measure_setting(self, model, worker, repetition, name, loads):
        options = self.options
        with self.bundle.scheduler(model, worker,
                                   *self.settings[name][0]) as scheduler:
            self.bundle.bench(scheduler, options.load, max(loads),
                              max(loads) * options.warmup)
            for requests in loads:
                self.check_time()
                sessions = max(options.min_sessions,
                               requests * options.sessions)
                report = self.bundle.bench(scheduler, options.load, requests,
                                           sessions)
                rate = report["rates"]["output_tokens_per_second"]
                self.measurements.add({
                    "model": model, "device": self.device, "setting": name,
                    "requests": requests, "repetition": repetition,
                    "load": options.load, "sessions": sessions,
                    "tokens_per_second": rate,
                    "tpot_p50": report["latencies"]["tpot"]["p50"],
                    "mean_accepted": report["rates"]["mean_accepted_tokens"],
                    "speculation": report["speculation"],
                    "version": report["run"]["version"]})
                print(f"{model}  {name:10} {requests:3} requests  "
                      f"repetition {repetition}  {rate:9.1f} tokens/s",
                      flush=True)


def list_of(kind):
    return lambda text: [kind(part) for part in text.split(",")]


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("bundle", metavar="BUNDLE")
    parser.add_argument("out", metavar="OUT", help="a folder")
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--device", default="cuda", help="as of bole-worker")
    parser.add_argument("--requests", type=list_of(int), default=[1, 4, 16, 32])
    parser.add_argument("--settings", type=list_of(str),
                        default=list(settings()), help="some of the default")
    parser.add_argument("--load", default="64:256", help="of bole bench")
    parser.add_argument("--sessions", type=int, default=3,
                        help="for each request at once")
    parser.add_argument("--min-sessions", type=int, default=6)
    parser.add_argument("--warmup", type=int, default=1,
                        help="sessions before, for each request at once")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=500,
                        help="nothing new begins after so many")
    parser.add_argument("--calibrate-flags", default="--max-seconds 300",
                        help="more flags of bole-calibrate, in one argument")
    options = parser.parse_args()
    unknown = set(options.settings) - set(settings())
    if unknown:
        parser.error(f"--settings: there is no {', '.join(sorted(unknown))}")
    return options


def main():
    run = Run(parse())
    try:
        for model in run.options.models:
            run.check_time()
            run.measure(model)
    except Deadline:
        pass
    except (serving.Failure, RuntimeError, OSError,
            subprocess.SubprocessError) as error:
        print(error, file=sys.stderr)
        return 1
    left = sum(len(loads) for model in run.options.models
               for _, _, loads in run.left(model))
    print(f"{left} measurements are left" if left else "all is measured")
    return UNFINISHED if left else 0


if __name__ == "__main__":
    sys.exit(main())
