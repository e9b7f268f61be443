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
import os
import sys

sys.dont_write_bytecode = True  # The folder may be a source tree.

from campaign import Campaign, known, list_of

# Nodes that a worker verifies in a round, of all requests together.
MAX_NODES = 1024
# Seconds that have to be left for a calibration to begin.
CALIBRATION = 400

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


class Run(Campaign):
    """One call of this program."""

    KIND = "measurements"
    KEY = ("model", "setting", "requests", "repetition")

    def __init__(self, options):
        super().__init__(options)
        self.settings = {name: setting for name, setting in settings().items()
                         if name in options.settings}

    def left(self):
        return [loads for model in self.options.models
                for _, _, loads in self.left_of(model) for _ in loads]

    def left_of(self, model):
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
                         not in self.done]
                if loads:
                    left.append((repetition, name, loads))
        return left

    def measure_all(self):
        for model in self.options.models:
            self.check_time()
            self.measure(model)

    def measure(self, model):
        left = self.left_of(model)
        if not left:
            return
        table = str(self.file_of(model, ".table.json"))
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
            # A fixed setting has nothing to learn.
            learns = self.settings[name][1] is None
            self.bundle.bench(
                scheduler, options.load if learns else options.warmup_load,
                max(loads), max(loads) * options.warmup)
            for requests in loads:
                self.check_time()
                sessions = max(options.min_sessions,
                               requests * options.sessions)
                report = self.bundle.bench(scheduler, options.load, requests,
                                           sessions)
                rate = report["rates"]["output_tokens_per_second"]
                self.add({
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
    parser.add_argument("--warmup-load", default="64:64",
                        help="of these, where the setting is a fixed one")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=500,
                        help="nothing new begins after so many")
    parser.add_argument("--calibrate-flags", default="--max-seconds 300",
                        help="more flags of bole-calibrate, in one argument")
    options = parser.parse_args()
    known(parser, "--settings", options.settings, settings())
    return options


if __name__ == "__main__":
    sys.exit(Run(parse()).run())
