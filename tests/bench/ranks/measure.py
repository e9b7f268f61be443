#!/usr/bin/env python3
"""What several GPUs of a host do as the ranks of one model.

    deploy/bundle.sh BUNDLE //tests/bench/cuda:collectives_bench \\
        //worker_service/eval:bole-eval //worker_service:bole-worker \\
        //worker_service/calibration:bole-calibrate \\
        //scheduler_service:bole-scheduler //clients/cli:bole
    # copy the folder and the source tree, then there, until nothing is left:
    tests/bench/ranks/measure.py BUNDLE OUT --ranks 1,2
    tests/bench/ranks/summarize.py OUT --markdown table.md --svg steps.svg

Measured for each number of ranks, if --what names it:

  sums    the sum of the ranks' parts with residual and norm, and logits made
          whole, alone, as push and by NCCL, and the sum in either form of a
          push (not for one rank)
  steps   forwards by rows: plain, and trees
  decode  offline decoding: plain, chains of 3 and 5, the snapshot tree where
          it fits, and trees
  serve   closed loops of bole bench through both services, with a cost table
          that was measured first: --policy goodput beside off
  rounds  as many rounds as --rounds says, through both services; every round's
          digest is compared by the worker. With --delays the processes of the
          ranks are stopped at random, for up to 20 ms
  kill    a rank's process is killed, and one is stopped, under load: the time
          until the worker has ended, what it says, and whether all requests
          go on at another worker, on the last GPU beside a rank of the first

Every measurement is a line of OUT/ranks-HOST.jsonl. What is there is not
measured again: a run that is short of time ends by itself after --seconds, with
exit code 75, and goes on when it is called again.
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True  # The folder may be a source tree.
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "policies"))

from campaign import Campaign, known, list_of
from serving import LISTEN, Failure
from services import Service

MODELS = ("9B", "27B", "35B-A3B", "122B-A10B")
FOUR_LAYERS = "tiny-16"  # For many rounds, if --models names it.
SUMS = ("push", "nccl", "one-shot", "two-shot")
WHAT = ("sums", "steps", "decode", "serve", "rounds", "kill")
# (requests, nodes of each) of the steps: rows are their product.
STEPS = [(1, 16), (1, 64), (1, 128), (8, 8), (16, 16), (16, 64)]
DECODE_REQUESTS = [1, 4, 8, 16]
# What a measurement may take, in seconds, before it must not begin.
LONGEST = {"sums": 60, "steps": 100, "decode": 150, "serve": 250, "rounds": 150,
           "kill": 240}


# Seconds after which a worker should long have ended that has lost a rank.
LATE = 20
# Requests of 2048 tokens, some of which are being answered when it does.
LOST_SESSIONS = 24
# Flags of two workers that share a GPU: the other one may use what the first
# leaves of the second share.
FIRST = ("--no-warm-up", "--memory-fraction", "0.4")
OTHER = ("--no-warm-up", "--memory-fraction", "0.8")


def whereabouts(pid):
    """Where the threads of a process are, of one that does not end."""
    threads = {}
    for folder in sorted(pathlib.Path(f"/proc/{pid}/task").glob("*")):
        try:
            threads[folder.name] = {
                "name": (folder / "comm").read_text().strip(),
                "state": (folder / "stat").read_text().rsplit(")", 1)[1][1],
                "waits_in": (folder / "wchan").read_text(),
                "stack": (folder / "stack").read_text().splitlines()[:12]}
        except OSError as error:
            threads[folder.name] = str(error)
    return {"pid": pid, "threads": threads}


@contextlib.contextmanager
def delays(pids, longest):
    """Stops one of the processes at random, time and again, for up to so many
    seconds. Yields a list of one number: how often."""
    rng = random.Random(1)
    over = threading.Event()
    times = [0]

    def run():
        while not over.wait(rng.uniform(0, longest)):
            pid = rng.choice(pids)
            os.kill(pid, signal.SIGSTOP)
            time.sleep(rng.uniform(0, longest))
            os.kill(pid, signal.SIGCONT)
            times[0] += 1

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield times
    finally:
        over.set()
        thread.join()


def said_in(log):
    """What a process has written to the file, which has ended."""
    log.seek(0)
    return log.read().strip()


def children_of(pid):
    out = subprocess.run(["pgrep", "-P", str(pid)], stdout=subprocess.PIPE,
                         text=True).stdout
    return [int(child) for child in out.split()]


class Run(Campaign):
    """One call of this program."""

    KIND = "ranks"
    KEY = ("what", "model", "accept", "ranks", "collectives")

    def left(self):
        options = self.options
        left = []
        for what in options.what:
            for ranks in options.ranks:
                if what == "sums":
                    left += [(what, "", "", ranks, kind)
                             for kind in SUMS if ranks > 1]
                    continue
                for model in options.models:
                    # All other weights of the largest do not fit one GPU.
                    if ranks == 1 and model.startswith("122B"):
                        continue
                    for accept in (options.accept
                                   if what in ("decode", "serve")
                                   else options.accept[:1]):
                        left.append((what, model, accept, ranks,
                                     options.collectives))
        return [key for key in left if key not in self.done]

    def measure_all(self):
        for key in self.left():
            self.check_time(LONGEST[key[0]])
            what, model, accept, ranks, collectives = key
            begin = time.monotonic()
            measured = getattr(self, what)(model, accept, ranks, collectives)
            self.add({"what": what, "model": model, "accept": accept,
                      "ranks": ranks, "collectives": collectives,
                      "gpu": self.device, "commit": self.options.commit,
                      "measured": measured})
            print(f"{what} {model} {ranks} ranks {collectives}: "
                  f"{time.monotonic() - begin:.0f} s", flush=True)

    @staticmethod
    def name_of(model, accept):
        return f"synthetic:{model},accept={accept}"

    def json_of(self, *command):
        """What a program writes with --json."""
        with tempfile.NamedTemporaryFile(suffix=".json") as out:
            print(self.bundle.call(*command, "--json", out.name, timeout=570),
                  end="", flush=True)
            return json.load(open(out.name))

    def sums(self, _model, _accept, ranks, collectives):
        return self.json_of("collectives_bench", "--ranks", str(ranks),
                            "--kinds", collectives)["rows"]

    @staticmethod
    def rank_flags(ranks, collectives):
        return () if ranks == 1 else ("--ranks", str(ranks),
                                      "--collectives", collectives)

    def worker_flags(self, ranks, collectives):
        return (*self.rank_flags(ranks, collectives),
                *shlex.split(self.options.worker_flags))

    def evaluate(self, model, accept, ranks, collectives, *flags):
        return self.json_of("bole-eval", "bench", "--model",
                            self.name_of(model, accept), "--device", "cuda",
                            "--draft-head", "listed",
                            *self.rank_flags(ranks, collectives), *flags)

    def steps(self, model, accept, ranks, collectives):
        report = self.evaluate(
            model, accept, ranks, collectives, "--modes", "none", "--breakdown",
            "--output-tokens", "96",
            "--batch", ",".join(str(batch) for batch, _ in STEPS),
            "--tree-nodes", ",".join(str(nodes) for _, nodes in STEPS))
        return report["phases"]

    def decode(self, model, accept, ranks, collectives):
        report = self.evaluate(
            model, accept, ranks, collectives, "--modes",
            "plain,chain,serial,blocks", "--chain-depths", "3,5",
            "--prompt-tokens", "256", "--output-tokens", "96",
            "--batch", ",".join(map(str, DECODE_REQUESTS)),
            "--tree-nodes", "64,32,16,16")
        return report["decode"]

    def worker(self, model, accept, ranks, collectives, *flags):
        return self.bundle.worker(self.name_of(model, accept), "cuda",
                                  *self.worker_flags(ranks, collectives),
                                  *flags)

    def serve(self, model, accept, ranks, collectives):
        table = str(self.file_of(f"{model} {accept} {ranks}", ".table.json"))
        self.bundle.calibrate(self.name_of(model, accept), "cuda", table,
                              "--coarse", worker_flags=self.worker_flags(
                                  ranks, collectives))
        rows = []
        with self.worker(model, accept, ranks, collectives, "--cost-table",
                         table) as worker:
            for policy in ("off", "goodput"):
                with self.bundle.scheduler(self.name_of(model, accept), worker,
                                           "--policy", policy) as scheduler:
                    for requests in (1, 16):
                        report = self.bundle.bench(scheduler, "64:256",
                                                   requests,
                                                   max(4, 2 * requests))
                        rows.append({"policy": policy, "requests": requests,
                                     "rates": report["rates"],
                                     "speculation": report["speculation"]})
        return rows

    def rounds(self, model, accept, ranks, collectives):
        """A digest that differs, or a rank that hangs, ends the worker."""
        done = 0
        begin = time.monotonic()
        with self.worker(model, accept, ranks, collectives) as worker:
            pids = [worker.process.pid, *children_of(worker.process.pid)]
            stopped = (delays(pids, 0.02) if self.options.delays
                       else contextlib.nullcontext([0]))
            with self.bundle.scheduler(self.name_of(model, accept),
                                       worker) as scheduler, stopped as times:
                while done < self.options.rounds:
                    report = self.bundle.bench(scheduler, "64:512", 8, 16)
                    speculation = report["speculation"]
                    done += sum(speculation[kind] for kind in (
                        "off_rounds", "chain_rounds", "tree_rounds"))
        return {"rounds": done, "delays": times[0],
                "seconds": time.monotonic() - begin}

    def kill(self, model, accept, ranks, collectives):
        if ranks == 1:
            return {}
        return {name: self.lose(model, accept, ranks, collectives, sent)
                for name, sent in (("killed", signal.SIGKILL),
                                   ("stopped", signal.SIGSTOP))}

    @contextlib.contextmanager
    def losing_worker(self, name, ranks, collectives, log):
        """A worker that may end as it likes; `log` has what it says."""
        try:
            worker = Service(
                self.bundle.program("bole-worker"), "--model", name, "--device",
                "cuda", *FIRST, *self.worker_flags(ranks, collectives), *LISTEN,
                stderr=log)
        except RuntimeError as error:
            raise Failure(f"{error}: {said_in(log)}") from error
        try:
            yield worker
        finally:
            worker.kill()

    def other_worker(self, name, ranks):
        """One that requests go to when the first is lost, on the last GPU."""
        return self.bundle.worker(name, f"cuda:{ranks - 1}", *OTHER,
                                  *shlex.split(self.options.worker_flags))

    def lose(self, model, accept, ranks, collectives, sent):
        """How a worker ends one of whose ranks got a signal, and whether every
        request goes on elsewhere."""
        name = self.name_of(model, accept)
        with tempfile.TemporaryFile("w+") as log, \
                tempfile.NamedTemporaryFile() as report, \
                self.losing_worker(name, ranks, collectives, log) as worker, \
                self.other_worker(name, ranks) as other, \
                self.bundle.scheduler(name, worker, "--worker",
                                      other.address) as scheduler:
            children = children_of(worker.process.pid)
            if len(children) != ranks - 1:
                raise Failure(f"{ranks} ranks have {len(children)} children")
            load = subprocess.Popen(
                [self.bundle.program("bole"), "bench", "--server",
                 scheduler.address, "--synthetic", "64:2048", "--ignore-eos",
                 "--concurrency", "8", "--sessions", str(LOST_SESSIONS),
                 "--out", report.name],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            try:
                time.sleep(3)
                if load.poll() is not None:
                    raise Failure("the load ended before the signal: "
                                  f"{load.stdout.read()[-600:]}")
                lost = self.strike(worker, children[-1], sent)
                said, _ = load.communicate(timeout=120)
            finally:
                load.kill()
            if load.returncode != 0:
                raise Failure(f"the load ended with {load.returncode}: "
                              f"{said[-600:]}")
            lines = said_in(log).splitlines()
            counts = json.load(open(report.name))["counts"]
            tokens = 2048 * LOST_SESSIONS
            if counts["output_tokens"] != tokens:
                raise Failure(f"{counts['output_tokens']} tokens came of "
                              f"{tokens}")
            lost["said"] = ([line for line in lines if "rank" in line]
                            or lines[-3:])[-1:]
            return {**lost, "counts": counts}

    @staticmethod
    def strike(worker, rank, sent):
        """Sends a rank's process the signal, and waits for the worker's end."""
        begin = time.monotonic()
        os.kill(rank, sent)
        try:
            code = worker.process.wait(timeout=LATE)
        except subprocess.TimeoutExpired:
            return {"seconds": time.monotonic() - begin,
                    "left": [whereabouts(pid)
                             for pid in (worker.process.pid, rank)]}
        return {"code": code, "seconds": time.monotonic() - begin}


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("bundle", metavar="BUNDLE")
    parser.add_argument("out", metavar="OUT", help="a folder")
    parser.add_argument("--ranks", type=list_of(int), default=[1, 2])
    parser.add_argument("--models", type=list_of(str), default=list(MODELS))
    parser.add_argument("--accept", type=list_of(str), default=["6", "3"],
                        help="mean accepted tokens; the first where only one "
                             "is measured")
    parser.add_argument("--what", type=list_of(str), default=list(WHAT))
    parser.add_argument("--collectives", choices=("push", "nccl"),
                        default="push")
    parser.add_argument("--rounds", type=int, default=10000)
    parser.add_argument("--delays", action="store_true")
    parser.add_argument("--worker-flags", default="",
                        help="more of them, for serve, rounds and kill")
    parser.add_argument("--seconds", type=float, default=500,
                        help="after which nothing begins")
    parser.add_argument("--commit", default="unknown")
    options = parser.parse_args()
    options.device = "cuda"
    known(parser, "--what", options.what, WHAT)
    known(parser, "--models", options.models, (*MODELS, FOUR_LAYERS))
    return options


if __name__ == "__main__":
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    sys.exit(Run(parse()).run())
