#!/usr/bin/env python3
"""Whether a policy is ever slower than plain decoding: many pairs.

    tests/bench/policies/never_slower.py BUNDLE OUT.json --device cpu
    tests/bench/policies/never_slower.py BUNDLE OUT.json --device cpu \\
        --shuffle-drafter       # with drafts that are always wrong

Two workers of one model, each with a scheduler of its own, live throughout: one
pair decodes under --policy, the other one with speculation off. They are loaded
in turn, never both at once, and each goes first in every other pair; the
policy keeps what it has learnt. For each number of requests: the geometric mean
of the ratios of tokens per second, and its lower bound at 95 %. Exits with 1 if
a bound is below --at-least.

Pairs that are in OUT.json already are not measured again, so that a run that
ends after --seconds, with exit code 75, goes on when it is called again.
"""

import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True

import serving
import shuffle_drafter
import statistics_of_pairs as statistics

UNFINISHED = 75


@contextlib.contextmanager
def serving_with(bundle, options, model, table, *flags):
    """A scheduler with a worker of its own."""
    with bundle.worker(model, options.device, *options.worker_flags.split(),
                       "--cost-table", table) as worker:
        with bundle.scheduler(model, worker, *flags) as scheduler:
            yield scheduler


def rate_of(bundle, scheduler, options, requests):
    report = bundle.bench(scheduler, options.load, requests,
                          requests * options.sessions)
    return {"tokens_per_second": report["rates"]["output_tokens_per_second"],
            "mean_accepted": report["rates"]["mean_accepted_tokens"],
            "speculation": report["speculation"]}


def measure_pairs(bundle, options, model, table, pairs):
    """Appends to `pairs`, and returns whether there are as many as asked for."""
    deadline = time.monotonic() + options.seconds
    with contextlib.ExitStack() as stack:
        schedulers = {
            name: stack.enter_context(
                serving_with(bundle, options, model, table, "--policy", policy))
            for name, policy in (("policy", options.policy), ("off", "off"))}
        for scheduler in schedulers.values():
            rate_of(bundle, scheduler, options, max(options.requests))
        for number in range(options.pairs):
            for requests in options.requests:
                of = pairs.setdefault(str(requests), [])
                if len(of) > number:
                    continue
                if time.monotonic() > deadline:
                    return False
                order = ["policy", "off"] if number % 2 else ["off", "policy"]
                of.append({name: rate_of(bundle, schedulers[name], options,
                                         requests) for name in order})
                pathlib.Path(options.out).write_text(
                    json.dumps(document(options, pairs), indent=1))
    return True


def document(options, pairs):
    # What lies in the source tree is named from there.
    model = options.model.removeprefix(f"{serving.ROOT}/")
    return {"model": model, "shuffled": options.shuffle_drafter,
            "device": options.device, "policy": options.policy,
            "load": options.load, "sessions": options.sessions, "pairs": pairs}


def judge(options, pairs):
    """Prints the ratios; how many bounds are too low."""
    missed = 0
    print("requests  pairs  policy/off  lower bound  rounds without drafts")
    for requests, of in sorted(pairs.items(), key=lambda item: int(item[0])):
        ratios = [pair["policy"]["tokens_per_second"] /
                  pair["off"]["tokens_per_second"] for pair in of]
        bound = statistics.lower_bound(ratios)
        counts = [pair["policy"]["speculation"] for pair in of]
        off = sum(count["off_rounds"] for count in counts)
        rounds = off + sum(count["chain_rounds"] + count["tree_rounds"]
                           for count in counts)
        share = f"{100 * off / rounds:.1f} %" if rounds else "-"
        low = bound < options.at_least
        missed += low
        print(f"{requests:>8}  {len(of):>5}  "
              f"{statistics.geometric_mean(ratios):>10.3f}  {bound:>11.3f}  "
              f"{share:>21}{'  too low' if low else ''}")
    return missed


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("bundle", metavar="BUNDLE")
    parser.add_argument("out", metavar="OUT.json")
    parser.add_argument("--model", default=serving.DEMO)
    parser.add_argument("--device", default="cpu", help="as of bole-worker")
    parser.add_argument("--policy", default="goodput")
    parser.add_argument("--requests", type=lambda text:
                        [int(part) for part in text.split(",")],
                        default=[1, 2, 4, 8, 16])
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--load", default="32:96", help="of bole bench")
    parser.add_argument("--sessions", type=int, default=2,
                        help="for each request at once")
    parser.add_argument("--at-least", type=float, default=0.97)
    parser.add_argument("--seconds", type=float, default=500,
                        help="no pair begins after so many")
    parser.add_argument("--shuffle-drafter", action="store_true",
                        help="of a copy of the checkpoint the drafter's "
                        "weights")
    parser.add_argument("--calibrate-flags", default="--coarse",
                        help="of bole-calibrate, in one argument")
    parser.add_argument("--worker-flags", default="",
                        help="more flags of bole-worker, in one argument")
    return parser.parse_args()


def main():
    options = parse()
    bundle = serving.Bundle(options.bundle)
    pairs = {}
    if os.path.exists(options.out):
        pairs = json.load(open(options.out))["pairs"]
    with tempfile.TemporaryDirectory() as scratch:
        model = options.model
        if options.shuffle_drafter:
            model = os.path.join(scratch, os.path.basename(model))
            shuffle_drafter.copy(options.model, model, seed=1)
        table = options.out + ".table"
        try:
            bundle.calibrate(model, options.device, table,
                             *options.calibrate_flags.split())
            complete = measure_pairs(bundle, options, model, table, pairs)
        except (serving.Failure, RuntimeError, OSError,
                subprocess.SubprocessError) as error:
            print(error, file=sys.stderr)
            return 1
    missed = judge(options, pairs)
    if not complete:
        print("there are pairs left")
        return UNFINISHED
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
