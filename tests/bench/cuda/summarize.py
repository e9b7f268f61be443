#!/usr/bin/env python3
"""Measured numbers beside their targets.

Usage: summarize.py FOLDER

Reads the JSON files that tests/bench/cuda/run_all.sh left in FOLDER and prints
one line for each claim: what was measured, the target, and whether it is met.
What was not measured is said. Exits with 1 if a target is missed.
"""

import json
import pathlib
import sys


class Report:
    """Lines of the table, and whether all targets were met."""

    def __init__(self):
        self.missed = 0
        print(f"{'what':58} {'measured':>12} {'target':>12}  met?")

    def at_most(self, what, measured, target, unit=""):
        self._line(what, measured, f"<= {target:g}{unit}", unit,
                   None if measured is None else measured <= target)

    def at_least(self, what, measured, target, unit=""):
        self._line(what, measured, f">= {target:g}{unit}", unit,
                   None if measured is None else measured >= target)

    def told(self, what, measured, unit=""):
        self._line(what, measured, "-", unit, "")

    def _line(self, what, measured, target, unit, met):
        number = "-" if measured is None else f"{measured:.4g}{unit}"
        if measured is None:
            word = "not measured"
        elif met == "":
            word = ""
        else:
            word = "yes" if met else "NO"
            self.missed += not met
        print(f"{what:58} {number:>12} {target:>12}  {word}")


class Results:
    """The files of a folder, by name without .json."""

    def __init__(self, folder):
        self.files = {}
        for path in sorted(pathlib.Path(folder).glob("*.json")):
            try:
                self.files[path.stem] = json.loads(path.read_text())
            except json.JSONDecodeError as error:
                print(f"{path}: {error}", file=sys.stderr)

    def get(self, name):
        return self.files.get(name, {})

    def rows(self, name, key="rows", **fields):
        """The rows of a file that have these fields."""
        return [r for r in self.get(name).get(key, [])
                if all(r.get(k) == v for k, v in fields.items())]

    def value(self, name, key, field, **fields):
        """A field of the first such row, or None."""
        rows = [r for r in self.rows(name, key, **fields) if field in r]
        return rows[0][field] if rows else None

    def copy_bytes_per_second(self):
        """What a large copy read and wrote, of any file that tells."""
        for content in self.files.values():
            for row in content.get("rows", []):
                if "copy_gb_per_s" in row:
                    return 1e9 * row["copy_gb_per_s"]
        return None


def ratio(a, b):
    return None if a is None or not b else a / b


# Measurements of other designs on the same kind of card, by the same method
# (graph replays over more layers than a cache holds, H200, 16 key and 32 value
# heads): microseconds of a layer's verification, by requests and nodes.
SNAPSHOTS = "serial with snapshots (SGLang)"
OTHER_DESIGNS = {
    SNAPSHOTS: {(8, 16): 101.9, (16, 16): 188.8, (8, 32): 219.7,
                (16, 32): 414.8, (8, 64): 487.9, (16, 64): 919.9,
                (8, 128): 1028.2, (16, 128): 2103.9},
    "Weaver, tf32": {(8, 16): 35.3, (16, 16): 58.1, (8, 32): 37.2,
                      (16, 32): 62.9, (8, 64): 74.7, (16, 64): 135.9,
                      (8, 128): 156.0, (16, 128): 303.9},
    "TreeWY": {(8, 16): 35.0, (16, 16): 51.9, (8, 32): 195.9,
                      (16, 32): 296.8, (8, 64): 490.9, (16, 64): 980.9},
    "one kernel, bfloat16 series": {
        (8, 16): 32.1, (16, 16): 51.6, (8, 32): 33.0, (16, 32): 56.2,
        (8, 64): 37.2, (16, 64): 65.7},
    "two stages in Triton": {(8, 16): 14.0, (16, 16): 22.4, (8, 32): 18.0,
                              (16, 32): 32.9, (8, 64): 32.1, (16, 64): 58.1},
}
# Microseconds for their commits, by requests: a design that keeps a state for
# every node copies one, all others replay the accepted path.
SNAPSHOT_COPY = {8: 8.6, 16: 17.2}
REPLAY = {8: 24.4, 16: 45.8}
LAYERS_9B = 24  # Linear layers, which have the same heads as the 4B's.


def best_of_other_designs(batch, nodes):
    """Microseconds of verification and commit, and the design's name."""
    return min((times[batch, nodes] +
                (SNAPSHOT_COPY if name == SNAPSHOTS else REPLAY)[batch], name)
               for name, times in OTHER_DESIGNS.items()
               if (batch, nodes) in times)


def operators(results, report):
    """Line 1: every operator beside the reference, and the sanitizer."""
    tests = results.get("operators")
    report.told("1  operators: tests that passed", tests.get("passed"))
    report.at_most("1  operators: tests that failed",
                   len(tests["failed"]) if tests else None, 0)
    sections = {s["tool"]: s for s in
                results.get("sanitizer").get("compute_sanitizer", [])}
    for tool in ("memcheck", "racecheck"):
        section = sections.get(tool, {})
        report.told(f"1  {tool}: tests", section.get("tests"))
        report.at_most(f"1  {tool}: found", section.get("found"), 0)
        report.at_most(f"1  {tool}: tests that were not done in time",
                       len(section["not_done"]) if section else None, 0)
        report.at_most(f"1  {tool}: tests that failed under it",
                       len(section["failed"]) if section else None, 0)


def models(results, report):
    """Line 2: whole models beside the reference's outputs and themselves.

    The bounds are the tests' own (tests/worker_service/engine/golden_cuda_test.cc and
    its neighbours)."""
    tests = results.get("models")
    report.at_most("2  models: tests that failed",
                   len(tests["failed"]) if tests else None, 0)
    for name, told in tests.get("properties", {}).items():
        element = name.rsplit("/", 1)[-1]
        for key, value in told.items():
            if key.endswith("share_of_bound"):
                report.at_most(f"2  {element}: {key}", value, 1)
            elif not key.endswith("logits_largest"):
                report.told(f"2  {element}: {key}", value)


def serving(results, report):
    """Line 12: the bundle, through gRPC."""
    for model in ("models/demo", "synthetic:9B"):
        row = next(iter(results.rows("serving", "serving", model=model)), {})
        report.at_least(f"12 {model}: output tokens, the same twice",
                        row.get("output_tokens"), 1)
        report.told(f"12 {model}", row.get("tokens_per_second"), " tok/s")
        report.told(f"12 {model}: mean accepted tokens",
                    row.get("mean_accepted_tokens"))


def verification(results, report):
    """Line 3: the verification core, by shape, batch and nodes.

    The floor counts the store of U, as it does where the target of 26
    microseconds comes from. This verifier needs no U: what it is over the floor
    without that store is told beside it."""
    for shape in ("4B", "27B", "122B"):
        rows = {(r["requests"], r["nodes"]): r
                for r in results.rows("gdn_verify", shape=shape)}
        big = rows.get((16, 64), {})
        for other, least in (("neumann", 2.0), ("serial", 20.0)):
            report.at_least(
                f"3  {shape} B 16, T 64: {other} / blocks",
                ratio(big.get(f"{other}_us"), big.get("blocks_us")), least)
        for name, most, chosen in (
                ("B >= 8, T <= 64", 1.5, lambda b, t: b >= 8 and t <= 64),
                ("B >= 8, T 128", 1.8, lambda b, t: b >= 8 and t == 128)):
            def worst(floor):
                over = [ratio(r.get("blocks_us"), r[floor])
                        for key, r in rows.items() if chosen(*key)]
                return max((x for x in over if x), default=None)

            what = f"3  {shape} {name}: over the floor"
            report.at_most(f"{what} with U, at worst",
                           worst("floor_with_u_us"), most)
            report.told(f"{what} without U", worst("floor_us"))
    four = {(r["requests"], r["nodes"]): r.get("blocks_us")
            for r in results.rows("gdn_verify", shape="4B")}
    report.at_most("3  4B B 16, T 64: verification", four.get((16, 64)), 26,
                   " us")
    report.at_most("3  4B B 1, T 64: verification", four.get((1, 64)), 6, " us")
    for row in results.get("gdn_verify").get("rows", []):
        if "errors" not in row:
            continue
        report.at_most(f"3  {row['errors']}: output error",
                       row.get("blocks_output"), 1.8e-3)
        report.at_most(f"3  {row['errors']}: correction error",
                       row.get("blocks_correction"), 1e-4)


def verify_and_commit(results, report):
    """Line 4: the sum for a layer, beside half of the best other design's."""
    for nodes in (16, 32, 64, 128):
        for batch in (8, 16):
            row = next(iter(results.rows("gdn_verify", shape="4B",
                                         requests=batch, nodes=nodes)), {})
            total = None
            if "blocks_us" in row and "commit_us" in row:
                total = row["blocks_us"] + row["commit_us"]
            best, name = best_of_other_designs(batch, nodes)
            what = f"4  4B B {batch}, T {nodes}: verification and commit"
            report.at_most(what, total, best / 2, " us")
            report.told(f"4  4B B {batch}, T {nodes}: {name}", best, " us")


def forwards(results, size, tokens):
    """Milliseconds of the target's forward with so many tokens before it, by
    requests and nodes of each, and the bytes of plain decoding."""
    names = (f"round_{size}_{tokens}", f"round_{size}")
    times = {(row["batch"], row["nodes"]): row["forward_ms"] for name in names
             for row in results.rows(name, "phases", prompt_tokens=tokens)}
    if any(nodes == 1 for _, nodes in times):
        return times, results.get(f"round_{size}").get("step_bytes")
    # This reads results of an earlier program, which measured forwards alone.
    name = f"steps_{size}"
    return {(row["batch"], row["nodes"] // row["batch"]): row["ms"]
            for row in results.rows(name, "steps", kv_tokens=tokens)
            if row["nodes"] % row["batch"] == 0}, \
        results.get(name).get("step_bytes")


def plain_decoding(results, report):
    """Line 5: the forward of plain decoding over the time of its bytes."""
    speed = results.copy_bytes_per_second()
    for size, most in (("4B", 1.25), ("9B", 1.15), ("27B", 1.12),
                       ("35B_A3B", None)):
        times, content = forwards(results, size, 1024)
        for batch in (1, 8, 16):
            floor = None
            weights = (content or {}).get("weights_at_batch", {}).get(
                str(batch))
            if weights and speed:
                floor = 1e3 / speed * (
                    weights +
                    2 * batch * content["state_of_request"] +
                    1024 * batch * content["kv_of_token"])
            over = ratio(times.get((batch, 1)), floor)
            what = f"5  {size} B {batch}: plain decoding over its bytes' time"
            if batch == 1 and most is not None:
                report.at_most(what, over, most)
            else:
                report.told(what, over)


def verify_steps(results, report):
    """Line 6: a verification over plain decoding, B 1, 9B."""
    for tokens in (1024, 8192, 32768):
        times, _ = forwards(results, "9B", tokens)
        for nodes, most in ((64, 1.10), (128, 1.20)):
            report.at_most(
                f"6  9B B 1, KV {tokens}: {nodes} nodes over plain decoding",
                ratio(times.get((1, nodes)), times.get((1, 1))), most)


def drafting(results, report):
    """Line 7: drafting over verification, 9B."""
    for name, head in (("round_9B", "listed"), ("round_9B_full_head", "full")):
        row = next(iter(results.rows(name, "phases", mode="blocks", batch=1)),
                   {})
        share = ratio(row.get("draft_ms"), row.get("forward_ms"))
        what = f"7  9B B 1: draft and extend over verification, {head} head"
        if head == "listed":
            report.at_most(what, share, 0.30)
        else:
            report.told(what, share)


def transient_memory(results, report):
    """Line 8: what a request of 100 nodes keeps for its commit."""
    for model, most in (("9B", 57), ("27B", 151), ("122B", 142)):
        row = next((r for r in results.rows("gdn_verify", model=model)
                    if "factors_mb" in r), {})
        report.at_most(f"8  {model}: factors of 100 nodes",
                       row.get("factors_mb"), most, " MB")
        report.told(f"8  {model}: a state for every node",
                    row.get("node_states_mb"), " MB")


def end_to_end(results, report):
    """Line 9: offline decoding at a fixed batch."""
    for size in ("9B", "27B"):
        name = f"decode_{size}"
        for batch in (1, 2, 4, 8, 16):
            speed = {}
            for row in results.rows(name, "decode", batch=batch):
                mode = row["mode"]
                speed[mode] = max(speed.get(mode, 0),
                                  row.get("tokens_per_second", 0))
            for mode in ("plain", "chain", "serial", "neumann", "blocks"):
                report.told(f"9  {size} B {batch}: {mode}", speed.get(mode),
                            " tok/s")
            accepted = results.value(name, "decode", "mean_accepted_tokens",
                                     batch=batch, mode="blocks")
            report.told(f"9  {size} B {batch}: mean accepted tokens", accepted)
            plain = ratio(speed.get("blocks"), speed.get("plain"))
            serial = ratio(speed.get("blocks"), speed.get("serial"))
            if batch == 1:
                report.at_least(f"9  {size} B 1: blocks over plain", plain, 3.6)
            else:
                report.told(f"9  {size} B {batch}: blocks over plain", plain)
            if batch == 8:
                report.at_least(f"9  {size} B 8: blocks over serial", serial,
                                1.5)
            else:
                report.told(f"9  {size} B {batch}: blocks over serial", serial)


def commit_of(results, batch):
    """A commit of the 9B over its floor, and in percent of the forward of 64
    nodes a request."""
    # This reads results of an earlier program, which measured the model's
    # commit alone.
    for row in results.rows("round_9B", "commits", batch=batch):
        floor = ratio(1e3 * row["state_bytes_moved"],
                      results.copy_bytes_per_second())
        return (ratio(row["commit_ms"], floor),
                ratio(100 * row["commit_ms"], row["forward_ms"]))
    row = next(iter(results.rows("gdn_verify", shape="4B", requests=batch,
                                 nodes=64)), {})
    forward = results.value("round_9B", "phases", "forward_ms", batch=batch,
                            nodes=64)
    us = row.get("commit_path_us")
    return (row.get("commit_path_ratio"),
            None if us is None else ratio(100 * LAYERS_9B * us / 1e3, forward))


def commits(results, report):
    """Line 10: commits, and the GPU's idle time between rounds."""
    for batch in (1, 8, 16):
        over, share = commit_of(results, batch)
        report.at_most(f"10 9B B {batch}: commit over its floor", over, 1.4)
        what = f"10 9B B {batch}: commit over the target's forward"
        if batch == 1:
            report.at_most(what, share, 0.6, " %")
        else:
            report.told(what, share, " %")
    for name in ("decode_9B", "lease_9B", "lease8_9B"):
        for row in results.rows(name, "decode", mode="blocks"):
            idle_time(row, report)


def idle_time(row, report):
    if "device_busy_ms" not in row:
        return
    total = row["device_idle_ms"] + row["device_busy_ms"]
    idle = ratio(100 * row["device_idle_ms"], total)
    what = f"10 9B B {row['batch']}: idle between rounds"
    leased = row.get("lease_rounds", 1)
    if leased > 1:
        report.at_most(f"{what}, leases of {leased}", idle, 2, " %")
    else:
        report.told(what + ", host mode", idle, " %")


def prefill(results, report):
    """Line 11."""
    row = results.get("round_9B").get("prefill", {})
    share = row.get("share_of_matrix_rate")
    report.at_least("11 9B: prefill of 8k tokens, share of the matrix rate",
                    None if share is None else 100 * share, 55, " %")
    report.told("11 9B: prefill", row.get("tokens_per_second"), " tok/s")


def main(arguments):
    if len(arguments) != 2 or arguments[1].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    results = Results(arguments[1])
    gpus = {c.get("gpu") for c in results.files.values() if isinstance(c, dict)}
    commits_told = {c.get("commit") for c in results.files.values()
                    if isinstance(c, dict)}
    print(f"gpu: {', '.join(sorted(map(str, gpus)))}; "
          f"commit: {', '.join(sorted(map(str, commits_told)))}")
    report = Report()
    for part in (operators, models, verification, verify_and_commit,
                 plain_decoding, verify_steps, drafting, transient_memory,
                 end_to_end, commits, prefill, serving):
        part(results, report)
    print(f"{report.missed} targets missed")
    return 1 if report.missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
