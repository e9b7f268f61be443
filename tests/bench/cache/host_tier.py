#!/usr/bin/env python3
"""What the prefix cache's second tier on the host gains, and what the cache
costs where nothing hits.

    deploy/bundle.sh BUNDLE //worker_service:bole-worker \\
        //scheduler_service:bole-scheduler //clients/cli:bole
    # copy the folder and the source tree, then there, until nothing is left:
    tests/bench/cache/host_tier.py BUNDLE OUT

resume: the device has pages for little more than one long prompt. Two such
prompts take turns, so that each time the other one has been evicted to the
host. Measured is the time to the first token: of a prompt that nothing is known
of, and of one that comes back from the host.

cost: short prompts that have nothing in common fill the batch, with the cache
off, on, and on with the host tier, in turns.

Every measurement is a line of OUT/host-HOST.jsonl. What is there is not measured
again: a run that is short of time ends by itself after --seconds, with exit
code 75, and goes on when it is called again. With --summary alone, the medians
over all files of OUT are printed as markdown.
"""

import argparse
import collections
import pathlib
import statistics
import sys

sys.dont_write_bytecode = True  # The folder may be a source tree.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] /
                       "policies"))

from campaign import Campaign
from pages import rows_of

CACHES = ("off", "on", "host")


class Run(Campaign):
    """One call of this program."""

    KIND = "host"
    KEY = ("model", "what", "repetition", "case")

    def left(self):
        """[(what, repetition, case)], in the order of measuring."""
        options = self.options
        all_cases = [("resume", i, "first") for i in range(2)]
        all_cases += [("resume", i, "from host")
                      for i in range(options.repetitions)]
        for i in range(options.repetitions):
            turn = i % len(CACHES)
            all_cases += [("cost", i, case)
                          for case in CACHES[turn:] + CACHES[:turn]]
        return [case for case in all_cases
                if (options.model, *case) not in self.done]

    def measure_all(self):
        if any(what == "resume" for what, _, _ in self.left()):
            self.resume()
        if any(what == "cost" for what, _, _ in self.left()):
            self.cost()

    def resume(self):
        options = self.options
        pages = (options.prompt + 2048) // 64 * 5 // 4
        self.check_time()
        with self.bundle.worker(
                options.model, options.device, "--page-size", "64", "--pages",
                str(pages), "--context", str(options.prompt + 2048),
                "--host-cache-gb", str(options.host_cache_gb)) as worker, \
            self.bundle.scheduler(options.model, worker) as scheduler:
            for i in range(2):
                self.one_prompt(scheduler, i, "first", i)
            for i in range(options.repetitions):
                self.one_prompt(scheduler, i % 2, "from host", i)

    def one_prompt(self, scheduler, seed, case, repetition):
        self.check_time()
        report = self.bundle.bench(scheduler, f"{self.options.prompt}:16", 1, 1,
                                   "--load-seed", str(seed))
        self.keep("resume", repetition, case,
                  ttft_ms=1e3 * report["latencies"]["ttft"]["mean"],
                  cached_tokens=report["counts"]["cached_tokens"])

    def cost(self):
        options = self.options
        workers = {False: ("--host-cache-gb", "0"),
                   True: ("--host-cache-gb", str(options.host_cache_gb))}
        for with_host, flags in workers.items():
            cases = [(i, case) for what, i, case in self.left()
                     if what == "cost" and (case == "host") == with_host]
            if not cases:
                continue
            self.check_time()
            with self.bundle.worker(options.model, options.device,
                                    *flags) as worker:
                for repetition, case in cases:
                    self.check_time()
                    self.one_load(worker, repetition, case)

    def one_load(self, worker, repetition, case):
        options = self.options
        cache = "off" if case == "off" else "on"
        with self.bundle.scheduler(options.model, worker, "--prefix-cache",
                                   cache) as scheduler:
            report = self.bundle.bench(
                scheduler, options.load, options.requests,
                options.requests * 6, "--load-seed", str(repetition),
                "--warmup", str(options.requests))
        self.keep("cost", repetition, case,
                  tokens_per_second=report["rates"][
                      "output_tokens_per_second"],
                  cached_tokens=report["counts"]["cached_tokens"])

    def keep(self, what, repetition, case, **values):
        row = {"model": self.options.model, "device": self.device,
               "what": what, "repetition": repetition, "case": case,
               "prompt": self.options.prompt, "load": self.options.load,
               "requests": self.options.requests, **values}
        self.add(row)
        print(f"{row['model']}  {what} {case:9} {values}", flush=True)


def summary(out):
    """The medians over repetitions, as lines of markdown."""
    groups = collections.defaultdict(list)
    for row in rows_of([out], "host"):
        value = row.get("ttft_ms", row.get("tokens_per_second"))
        groups[row["device"], row["model"], row["what"],
               row["case"]].append(value)
    base = {"resume": "first", "cost": "off"}
    unit = {"resume": "ms to the first token", "cost": "tokens/s"}
    yield "| model | what | case | median | spread | over the first row |"
    yield "|---|---|---|---|---|---|"
    for (device, model, what, case), values in groups.items():
        middle = statistics.median(values)
        reference = statistics.median(groups[device, model, what, base[what]])
        yield (f"| {model} | {what} | {case} | {middle:.1f} {unit[what]} | "
               f"{(max(values) - min(values)) / middle:.1%} | "
               f"{middle / reference:.3f} |")


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("bundle", metavar="BUNDLE")
    parser.add_argument("out", metavar="OUT", help="a folder")
    parser.add_argument("--model", default="synthetic:9B,accept=3")
    parser.add_argument("--device", default="cuda", help="as of bole-worker")
    parser.add_argument("--prompt", type=int, default=32768,
                        help="tokens of a prompt that comes back")
    parser.add_argument("--host-cache-gb", type=float, default=16)
    parser.add_argument("--load", default="128:128",
                        help="of bole bench, where nothing hits")
    parser.add_argument("--requests", type=int, default=16,
                        help="of that load at a time")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=500,
                        help="nothing new begins after so many")
    parser.add_argument("--summary", action="store_true",
                        help="measure nothing, print the table")
    return parser.parse_args()


def main():
    options = parse()
    code = 0 if options.summary else Run(options).run()
    print("\n".join(summary(options.out)))
    return code


if __name__ == "__main__":
    sys.exit(main())
