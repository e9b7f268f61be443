#!/usr/bin/python3
"""What hostile clients do to the others: latency, errors, memory.

    bazel build //scheduler_service:bole-scheduler \\
        //tests/simulation:bole-sim-worker //tests/e2e:python_stubs
    tests/bench/attacks/attacks.py --out attacks.json

For each kind of attacker a scheduler and a simulated worker are started.
Well-behaved clients stream over HTTP and gRPC all the time: alone, attacked,
alone, attacked, --seconds each. Then everybody leaves. Prints, and keeps with
--out, the good clients' times to the first token (TTFT), alone and attacked; the
scheduler's resident memory before, after the first attack and after the second,
which is as long; its processor time; and what came of the attackers' actions.

Exits with 1 if a good client met an error or another text than before, if the
scheduler kept a connection, or if its memory grew by more than --max-growth-mib.
Run from the root of the tree. With --seconds 0.3 and five attacks it needs
some 20 s.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True  # The folder may be a source tree.
HERE = "tests/bench/attacks"
sys.path[:0] = ["tests/e2e/stubs", "bazel-bin/tests/e2e/stubs", "tests/e2e",
                HERE]

from served import Served, haproxy
from services import eventually

# {name: (kind of attackers.py, door, actions per second, at a time)}. Each rate
# leaves a core to the services and the good clients where there are two.
ATTACKS = {
    "slow_headers": ("slow_headers", "http", 100, 500),
    "endless_headers": ("endless_headers", "http", 100, 32),
    "declared_bodies": ("declared_bodies", "http", 100, 32),
    "chunked_bodies": ("chunked_bodies", "http", 10, 16),
    "held_bodies": ("held_bodies", "http", 10, 16),
    "deep_json": ("deep_json", "http", 5, 8),
    "half_closed": ("half_closed", "http", 50, 64),
    "open_and_reset": ("open_and_reset", "http", 500, 32),
    "http_cancels": ("http_cancels", "http", 100, 32),
    "stream_resets": ("stream_resets", "grpc", 2000, 1),
    "grpc_cancels": ("grpc_cancels", "grpc", 200, 64),
    "proxied_stream_resets": ("stream_resets", "grpc", 2000, 1),
}
PROXIED = "proxied_"
# After an attack, until the good clients count as alone again.
SETTLING_SECONDS = 0.5
# The server gives up a connection that lingers after 2 s.
CLOSING_SECONDS = 20


class Program:
    """One beside this that runs until its input ends and prints JSON lines."""

    def __init__(self, name, *args):
        self.records = []
        self._process = subprocess.Popen(
            ["/usr/bin/python3", os.path.join(HERE, name), *map(str, args)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self._process.stdout:
            self.records.append(json.loads(line))

    def lives(self):
        return self._process.poll() is None

    def stop(self):
        """Everything that it printed."""
        self._process.stdin.close()
        status = self._process.wait(timeout=120)
        self._reader.join()
        self._process.stdout.close()
        if status != 0:
            raise RuntimeError(f"{self._process.args} ended with {status}")
        return self.records


def percentile(values, share):
    """Of sorted values, the smallest that so large a share does not exceed."""
    return values[min(len(values) - 1, int(share * len(values)))]


def latencies(records, phases):
    """Of the good requests that began in one of `phases`, a list of (start, end):
    times to the first token, and of whole answers."""
    asked = [record for record in records if "seconds" in record and any(
        start <= record["began"] < end for start, end in phases)]
    if not asked:
        return {"requests": 0}
    first = sorted(record["ttft"] for record in asked)
    whole = sorted(record["seconds"] for record in asked)
    return {"requests": len(asked),
            "p50_ms": round(1e3 * percentile(first, 0.5), 1),
            "p99_ms": round(1e3 * percentile(first, 0.99), 1),
            "whole_p50_ms": round(1e3 * percentile(whole, 0.5), 1),
            "whole_p99_ms": round(1e3 * percentile(whole, 0.99), 1)}


class Trial:
    """One kind of attacker and what it did."""

    def __init__(self, name, args):
        self.name = name
        self.kind, self.door, rate, self.connections = ATTACKS[name]
        self.rate = rate * args.rate_factor
        self._args = args

    def run(self):
        with Served(self.name.startswith(PROXIED)) as served:
            flags = ["--clients", self._args.clients]
            if served.ca:
                flags += ["--ca", served.ca]
            good = Program("good_clients.py", "--http-port",
                           served.ports["http"], "--grpc-port",
                           served.ports["grpc"], *flags)
            return self._measure(served, good)

    def _measure(self, served, good):
        # Errors until all services are up are none.
        def all_answered():
            last = good.records[-2 * self._args.clients:]
            return (len(last) == 2 * self._args.clients and
                    not any("error" in record for record in last))
        if not eventually(all_answered) or not good.lives():
            raise RuntimeError(f"no answers: {good.records[-3:]}")
        began = time.monotonic()
        phases = {"alone": [], "attacked": []}
        memory = [served.memory_mib()]
        cpu = {"alone": 0, "attacked": 0}
        attackers = []
        for phase in ["alone", "attacked"] * 2:
            attacker = self._attacker(served) if phase == "attacked" else None
            start, used = time.monotonic(), served.cpu_seconds()
            time.sleep(self._args.seconds)
            phases[phase].append((start, time.monotonic()))
            cpu[phase] += served.cpu_seconds() - used
            if attacker:
                memory.append(served.memory_mib())
                attackers += attacker.stop()
                time.sleep(min(SETTLING_SECONDS, self._args.seconds))
        records = [r for r in good.stop() if r["began"] >= began]
        served.stop_proxy()
        closed = served.end_of_connections(CLOSING_SECONDS)
        memory.append(served.memory_mib())
        return self._report(phases, records, memory, cpu, attackers, closed)

    def _attacker(self, served):
        flags = ["--tls"] if served.ca else []
        attacker = Program(
            "attackers.py", self.kind, "--port", served.ports[self.door],
            "--rate", self.rate, "--connections", self.connections, *flags)
        time.sleep(0.3)  # Until Python has started.
        return attacker

    def _report(self, phases, records, memory, cpu, attackers, closed):
        outcomes = {}
        for attacker in attackers:
            for outcome, count in attacker["outcomes"].items():
                outcomes[outcome] = outcomes.get(outcome, 0) + count
        ttft = {phase: latencies(records, times)
                for phase, times in phases.items()}
        both = all(values["requests"] for values in ttft.values())
        seconds = 2 * self._args.seconds
        return {
            "attack": self.name,
            "actions_per_second": self.rate,
            "at_a_time": self.connections,
            "actions": sum(a["actions"] for a in attackers),
            "outcomes": outcomes,
            "ttft_alone": ttft["alone"],
            "ttft_attacked": ttft["attacked"],
            "p50_ratio": both and round(
                ttft["attacked"]["p50_ms"] / ttft["alone"]["p50_ms"], 2),
            "p99_ratio": both and round(
                ttft["attacked"]["p99_ms"] / ttft["alone"]["p99_ms"], 2),
            "errors": [r["error"] for r in records if "error" in r],
            "rss_mib": dict(zip(
                ["before", "attacked_once", "attacked_twice", "after"], memory)),
            "scheduler_cores_alone": round(cpu["alone"] / seconds, 2),
            "scheduler_cores_attacked": round(cpu["attacked"] / seconds, 2),
            "attacker_cores": round(
                sum(a["cpu_seconds"] for a in attackers) / seconds, 2),
            "seconds_until_no_connection": closed,
        }

    def failures(self, report):
        found = [f"a good client met {error}" for error in report["errors"][:3]]
        for phase in ["ttft_alone", "ttft_attacked"]:
            if not report[phase]["requests"]:
                found.append(f"no good client asked: {phase}")
        if not report["actions"]:
            found.append("the attacker did nothing")
        if report["seconds_until_no_connection"] is None:
            found.append("a connection is left")
        rss = report["rss_mib"]
        growth = max(rss.values()) - rss["before"]
        if growth > self._args.max_growth_mib:
            found.append(f"memory grew by {growth:.0f} MiB")
        return [f"{self.name}: {failure}" for failure in found]


def told(report):
    alone, attacked = report["ttft_alone"], report["ttft_attacked"]
    rss = report["rss_mib"]
    return (f"{report['attack']}: {report['actions']} actions, TTFT p50 "
            f"{alone.get('p50_ms')} -> {attacked.get('p50_ms')} ms, p99 "
            f"{alone.get('p99_ms')} -> {attacked.get('p99_ms')} ms, "
            f"{len(report['errors'])} errors, RSS "
            f"{' -> '.join(str(mib) for mib in rss.values())} MiB, cores "
            f"{report['scheduler_cores_alone']} -> "
            f"{report['scheduler_cores_attacked']}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attacks", default=",".join(ATTACKS),
                        help="which, with commas between (default: all, without "
                        "the proxied ones where HAProxy is not installed)")
    parser.add_argument("--seconds", type=float, default=10,
                        help="of each of four phases (default: 10)")
    parser.add_argument("--clients", type=int, default=8,
                        help="that behave (default: 8)")
    parser.add_argument("--rate-factor", type=float, default=1,
                        help="attack so many times as often (default: 1)")
    parser.add_argument("--max-growth-mib", type=float, default=128)
    parser.add_argument("--out", help="file for the JSON")
    args = parser.parse_args()
    names = args.attacks.split(",")
    if haproxy() is None:
        print("haproxy is not installed: nothing is attacked through it")
        names = [name for name in names if not name.startswith(PROXIED)]

    reports, failures = [], []
    for number, name in enumerate(names, 1):
        print(f"[{number}/{len(names)}] ", end="", flush=True)
        trial = Trial(name, args)
        report = trial.run()
        reports.append(report)
        failures += trial.failures(report)
        print(told(report), flush=True)
    if args.out:
        with open(args.out, "w") as file:
            json.dump({"results": reports}, file, indent=1)
            file.write("\n")
    print("\n".join(failures) or "every good client had its text")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
