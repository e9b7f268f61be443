#!/usr/bin/env python3
"""How many requests keep their latency targets at a full worker: `slo` beside
AdaServe's allocation.

    deploy/bundle.sh BUNDLE //worker_service:bole-worker \\
        //worker_service/calibration:bole-calibrate \\
        //scheduler_service:bole-scheduler //clients/cli:bole
    # copy the folder and the source tree, then there, until nothing is left:
    tests/bench/policies/slo.py BUNDLE OUT

A third of the requests have tight targets and the others loose ones, as two
open loops at once; every policy gets the same arrivals. A request attains its
targets if it ended well with its first token and its time per token within
them; goodput is how many do in a second. Policies take turns, in another order
in every repetition.

Every measurement is a line of OUT/slo-HOST.jsonl. What is there is not measured
again: a run that is short of time ends by itself after --seconds, with exit
code 75, and goes on when it is called again. At the end, and with --summary
alone, the table over all files of OUT is printed as markdown.
"""

import argparse
import collections
import concurrent.futures
import json
import statistics
import sys

sys.dont_write_bytecode = True  # The folder may be a source tree.

from campaign import Campaign, list_of
from pages import rows_of

POLICIES = ("adaserve", "goodput", "slo")


class Run(Campaign):
    """One call of this program."""

    KIND = "slo"
    KEY = ("model", "repetition", "policy", "rate")

    def left(self):
        """[(repetition, policy, rate)], in the order of measuring."""
        left = []
        for repetition in range(self.options.repetitions):
            turn = repetition % len(POLICIES)
            left += [(repetition, policy, rate)
                     for policy in POLICIES[turn:] + POLICIES[:turn]
                     for rate in self.options.rates
                     if (self.options.model, repetition, policy, rate)
                     not in self.done]
        return left

    def measure_all(self):
        options = self.options
        if not self.left():
            return
        table = str(self.file_of(options.model, ".table.json"))
        self.bundle.calibrate(options.model, options.device, table,
                              "--max-seconds", "200")
        with self.bundle.worker(options.model, options.device, "--cost-table",
                                table) as worker:
            for repetition, policy, rate in self.left():
                self.check_time()
                with self.bundle.scheduler(options.model, worker, "--policy",
                                           policy) as scheduler:
                    self.bundle.bench(scheduler, options.load, 16, 32)
                    self.keep(repetition, policy, rate,
                              self.both(scheduler, rate, repetition))

    def both(self, scheduler, rate, seed):
        """The reports of the tight and the loose loop, which run at once."""
        options = self.options
        loops = [(options.tight, rate / 3, 2 * seed),
                 (options.loose, 2 * rate / 3, 2 * seed + 1)]
        with concurrent.futures.ThreadPoolExecutor(len(loops)) as threads:
            return list(threads.map(
                lambda loop: self.open_loop(scheduler, *loop), loops))

    def open_loop(self, scheduler, targets, rate, seed):
        options = self.options
        ttft, tpot = targets
        path = self.file_of(options.model, f".{ttft}-{tpot}.json")
        self.bundle.call(
            "bole", "bench", "--server", scheduler.address, "--synthetic",
            options.load, "--spread", "0.5", "--rate", str(rate),
            "--sessions", str(round(rate * options.duration)),
            "--load-seed", str(seed), "--temperature", "0.2",
            "--ttft-ms", str(ttft), "--tpot-ms", str(tpot),
            "--slo", f"ttft:{ttft},tpot:{tpot}", "--out", str(path))
        report = json.loads(path.read_text())
        path.unlink()
        return report

    def keep(self, repetition, policy, rate, reports):
        requests = sum(report["counts"]["requests"] for report in reports)
        kept = sum(report["rates"]["attainment"] *
                   report["counts"]["requests"] for report in reports)
        row = {"model": self.options.model, "device": self.device,
               "policy": policy, "rate": rate, "repetition": repetition,
               "load": self.options.load, "tight": self.options.tight,
               "loose": self.options.loose, "requests": requests,
               "attainment": kept / requests,
               "tight_attainment": reports[0]["rates"]["attainment"],
               "loose_attainment": reports[1]["rates"]["attainment"],
               "goodput": sum(report["rates"]["good_requests_per_second"]
                              for report in reports),
               "tokens_per_second": sum(
                   report["rates"]["output_tokens_per_second"]
                   for report in reports),
               "version": reports[0]["run"]["version"]}
        self.add(row)
        print(f"{row['model']}  {policy:9} {rate:5.1f} requests/s  attained "
              f"{row['attainment']:.3f}, {row['tokens_per_second']:.0f} "
              "tokens/s", flush=True)


def summary(out):
    """The medians over repetitions, as lines of markdown."""
    groups = collections.defaultdict(list)
    for row in rows_of([out], "slo"):
        groups[row["device"], row["model"], row["rate"],
               row["policy"]].append(row)
    yield ("| model | requests/s | policy | targets kept | tight | loose | "
           "goodput, requests/s | tokens/s |")
    yield "|---|---|---|---|---|---|---|---|"
    for (_, model, rate, policy), rows in sorted(groups.items()):
        values = [statistics.median(row[key] for row in rows)
                  for key in ("attainment", "tight_attainment",
                              "loose_attainment", "goodput",
                              "tokens_per_second")]
        yield (f"| {model} | {rate:g} | {policy} | {values[0]:.3f} | "
               f"{values[1]:.3f} | {values[2]:.3f} | {values[3]:.1f} | "
               f"{values[4]:.0f} |")


def targets(text):
    return [int(part) for part in text.split(":")]


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("bundle", metavar="BUNDLE")
    parser.add_argument("out", metavar="OUT", help="a folder")
    parser.add_argument("--model", default="synthetic:9B,accept=3")
    parser.add_argument("--device", default="cuda", help="as of bole-worker")
    parser.add_argument("--rates", type=list_of(float),
                        default=[15.0, 25.0, 35.0], help="requests in a second")
    parser.add_argument("--duration", type=float, default=12,
                        help="seconds in which requests arrive")
    parser.add_argument("--load", default="256:192", help="of bole bench")
    parser.add_argument("--tight", type=targets, default=[150, 8],
                        metavar="TTFT:TPOT", help="in milliseconds")
    parser.add_argument("--loose", type=targets, default=[1500, 25],
                        metavar="TTFT:TPOT", help="in milliseconds")
    parser.add_argument("--repetitions", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=500,
                        help="nothing new begins after so many")
    parser.add_argument("--summary", action="store_true",
                        help="measure nothing, print the table")
    return parser.parse_args()


def main():
    options = parse()
    if options.summary:
        print("\n".join(summary(options.out)))
        return 0
    code = Run(options).run()
    print("\n".join(summary(options.out)))
    return code


if __name__ == "__main__":
    sys.exit(main())
