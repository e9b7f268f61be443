#!/usr/bin/env python3
"""Agents' conversations, served by Bole and by those it is compared with.

    deploy/bundle.sh BUNDLE //worker_service:bole-worker \\
        //worker_service/calibration:bole-calibrate \\
        //scheduler_service:bole-scheduler //clients/cli:bole
    # copy the folder and the source tree, then there, until nothing is left:
    tests/bench/online/measure.py BUNDLE OUT --trace agent_trace.jsonl
    tests/bench/online/summarize.py OUT --markdown table.md --svg table.svg

Conversations begin as a Poisson process, their turns after the think times of
the trace, and the model's own answers are the history of later turns. Every
system gets the same arrivals. A worker may use --memory-fraction of the GPU:
its weights, what verification needs, and what is left for keys, values and
checkpoints of the prefix cache, so that a system whose verification needs much
keeps less. Systems:

    plain          no speculation
    chain          a chain of 5
    snapshot tree  a tree of 32 nodes a request, verified node by node, with a
                   state for every node
    adaserve       the same verification, and AdaServe's shares
    bole           closed form, factors, calibrated budgets

and two on the way from the snapshot tree to bole, each of which adds something:

    budget         the snapshot tree's verification with calibrated budgets
    kernel         bole with the snapshot tree's pages and checkpoints: the
                   closed form, but memory as if every node kept a state

Every run is a line of OUT/online-HOST.jsonl. What is there is not run again: a
call that is short of time ends by itself after --seconds with exit code 75, and
goes on when it is called again.
"""

import argparse
import json
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True  # The folder may be a source tree.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] /
                       "policies"))

from campaign import Campaign, known, list_of
import services  # On the path since then.

FIXED_TREE = ["--policy", "fixed", "--speculation", "tree", "--top-k", "4",
              "--depth", "8", "--nodes", "32"]
SERIAL = ["--solver", "serial"]
# {name: (flags of the worker, of the scheduler)}
SYSTEMS = {
    "plain": ([], ["--policy", "off"]),
    "chain": ([], ["--policy", "fixed", "--speculation", "chain", "--depth",
                   "5"]),
    "snapshot tree": (SERIAL, FIXED_TREE),
    "adaserve": (SERIAL, ["--policy", "adaserve"]),
    "budget": (SERIAL, ["--policy", "goodput"]),
    "kernel": ([], ["--policy", "goodput"]),
    "bole": ([], ["--policy", "goodput"]),
}
KEPT = ("mean", "p50", "p99")


class Run(Campaign):
    """One call of this program."""

    KIND = "online"
    KEY = ("model", "repetition", "system")

    def left(self):
        """[(model, repetition, system)], in the order of measuring."""
        names = self.options.systems
        return [(model, repetition, name) for model in self.options.models
                for repetition in range(self.options.repetitions)
                for name in names
                if (model, repetition, name) not in self.done]

    def worker_flags(self, model, name):
        flags = ["--memory-fraction", str(self.options.memory_fraction),
                 "--max-nodes", str(self.options.max_nodes),
                 "--max-requests", str(self.options.max_requests),
                 *SYSTEMS[name][0]]
        if name == "kernel":
            limits = self.snapshot_limits(model)
            flags += ["--pages", str(limits["pages"]), "--checkpoints",
                      str(limits["slots"] - self.options.max_requests)]
        return flags

    def snapshot_limits(self, model):
        """What the snapshot tree's worker has room for, from its metrics."""
        path = self.file_of(model, ".snapshot.json")
        if not path.exists():
            flags = self.worker_flags(model, "snapshot tree")
            with self.bundle.worker(model, self.options.device, "--no-warm-up",
                                    *flags) as worker:
                series = services.series_of(worker.metrics())
            path.write_text(json.dumps({
                "pages": int(series["bole_kv_pages"]),
                "slots": int(series["bole_state_slots"])}))
        return json.loads(path.read_text())

    def table(self, model, name, flags):
        """The table of costs of such a worker, calibrated once."""
        solver = "serial" if SYSTEMS[name][0] else "blocks"
        path = self.file_of(model, f".{solver}.json")
        if not path.exists():
            self.check_time(self.options.calibration_seconds)
        self.bundle.calibrate(model, self.options.device, str(path),
                              "--max-seconds", "200", worker_flags=flags)
        return str(path)

    def measure_all(self):
        for model, repetition, name in self.left():
            self.check_time(self.options.run_seconds)
            self.measure(model, repetition, name)

    def measure(self, model, repetition, name):
        flags = self.worker_flags(model, name)
        table = self.table(model, name, flags)
        self.check_time(self.options.run_seconds)
        with self.bundle.worker(model, self.options.device, *flags,
                                "--cost-table", table) as worker:
            with self.bundle.scheduler(model, worker,
                                       *SYSTEMS[name][1]) as scheduler:
                self.bundle.bench(scheduler, "64:64", 4, 8)
                report = self.replay(scheduler, repetition)
        row = {"model": model, "device": self.device, "system": name,
               "repetition": repetition, "rate": self.options.rate,
               "think": self.options.think, "sessions": self.options.sessions,
               "memory_fraction": self.options.memory_fraction,
               "counts": report["counts"], "rates": report["rates"],
               "speculation": report["speculation"],
               "version": report["run"]["version"]}
        for latency in ("ttft", "tpot"):
            row[latency] = {key: report["latencies"][latency][key]
                            for key in KEPT}
        self.add(row)
        print(f"{model}  {name:14} repetition {repetition}  "
              f"TTFT {1e3 * row['ttft']['mean']:8.1f} ms  "
              f"TPOT {1e3 * row['tpot']['mean']:7.2f} ms", flush=True)

    def replay(self, scheduler, repetition):
        options = self.options
        with tempfile.NamedTemporaryFile(suffix=".json") as out:
            self.bundle.call(
                "bole", "bench", options.trace, "--server", scheduler.address,
                "--rate", str(options.rate), "--sessions",
                str(options.sessions), "--shuffle", "--load-seed",
                str(repetition), "--think", str(options.think),
                "--think-scale", str(options.think_scale),
                "--length-scale", str(options.length_scale),
                "--temperature", "0.2", "--ignore-eos", "--retries", "20",
                "--connections", "8", "--slo", options.slo, "--out", out.name,
                timeout=500)
            report = json.load(open(out.name))
        del report["requests"]
        return report


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("bundle", metavar="BUNDLE")
    parser.add_argument("out", metavar="OUT", help="a folder")
    parser.add_argument("--trace", required=True, help="as of bole bench")
    parser.add_argument("--models", nargs="+",
                        default=["synthetic:9B,accept=3"])
    parser.add_argument("--systems", type=list_of(str),
                        default=list(SYSTEMS), help="some of the default")
    parser.add_argument("--device", default="cuda", help="as of bole-worker")
    parser.add_argument("--memory-fraction", type=float, default=0.35,
                        help="of the GPU, so that snapshots press")
    parser.add_argument("--max-nodes", type=int, default=512)
    parser.add_argument("--max-requests", type=int, default=16)
    parser.add_argument("--rate", type=float, default=0.6,
                        help="conversations that begin in a second")
    parser.add_argument("--sessions", type=int, default=75)
    parser.add_argument("--think", type=float, default=3,
                        help="seconds, where the trace does not say")
    parser.add_argument("--think-scale", type=float, default=1)
    parser.add_argument("--length-scale", type=float, default=1)
    parser.add_argument("--slo", default="ttft:2000,tpot:30",
                        help="of bole bench")
    parser.add_argument("--repetitions", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=500,
                        help="nothing new begins after so many")
    parser.add_argument("--run-seconds", type=float, default=200,
                        help="what a run takes at most")
    parser.add_argument("--calibration-seconds", type=float, default=150,
                        help="what a calibration takes at most")
    options = parser.parse_args()
    known(parser, "--systems", options.systems, SYSTEMS)
    return options


if __name__ == "__main__":
    sys.exit(Run(parse()).run())
