#!/usr/bin/python3
"""What the binaries tell of requests: a trace over HTTP from the caller's span
to the worker's rounds, lines in the log, and the last rounds on SIGUSR1 and
for who asks."""

import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.error
import urllib.request

sys.dont_write_bytecode = True  # The folder may be a source tree.
sys.path[:0] = ["tests/e2e", "deploy/otlp"]

from collect import Collector
from draw_trace import as_svg, as_text, in_order, spans_of
from services import MODEL, SCHEDULER, WORKER, Service, eventually

BOLE = "clients/cli/bole"
PROMPT = "def canary(n):\n"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER = "00f067aa0ba902b7"


def values_of(span):
    """{name: value} of a span's attributes."""
    return {a["key"]: next(iter(a["value"].values()))
            for a in span["attributes"]}


class WatchingTest(unittest.TestCase):
    def setUp(self):
        self.spans = []
        self.collector = Collector(
            ("127.0.0.1", 0), self.take)
        self.addCleanup(self.collector.server_close)
        threading.Thread(target=self.collector.serve_forever,
                         daemon=True).start()
        self.addCleanup(self.collector.shutdown)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        common = ["--model", MODEL, "--listen", "127.0.0.1:0",
                  "--flight-recorder-dir", self.folder]
        port = self.collector.server_address[1]
        common += ["--otlp-endpoint", f"http://127.0.0.1:{port}/v1/traces"]
        self.worker = Service(WORKER, *common, "--threads", "1")
        self.addCleanup(self.worker.kill)
        self.log = os.path.join(self.folder, "stderr")
        # Service shows standard error as its own: a shell takes it aside.
        self.scheduler = Service(
            "/bin/sh", "-c", 'exec "$@" 2>"$0"', self.log, SCHEDULER, *common,
            "--worker", self.worker.address, "--http-listen", "127.0.0.1:0",
            "--log-format", "json", "--log-requests", "all")
        self.addCleanup(self.scheduler.kill)
        [http] = [line.split()[-1] for line in self.scheduler.output
                  if line.startswith("http on port ")]
        self.url = f"http://127.0.0.1:{http}/v1/completions"
        self.assertTrue(eventually(lambda: self.complete({}) == 200))

    def take(self, body):
        """Keeps spans, each with its service."""
        [resource] = body["resourceSpans"]
        names = {a["key"]: a["value"]["stringValue"]
                 for a in resource["resource"]["attributes"]}
        for span in spans_of(body):
            self.spans.append({**span, "service": names["service.name"]})

    def complete(self, headers, **fields):
        """The status of an answer."""
        body = {"prompt": PROMPT, "max_tokens": 24, "temperature": 0,
                "ignore_eos": True, **fields}
        request = urllib.request.Request(
            self.url, json.dumps(body).encode(),
            {"Content-Type": "application/json", **headers})
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                response.read()
                return response.status
        except urllib.error.HTTPError as error:
            return error.code

    def lines(self):
        with open(self.log, encoding="utf-8") as log:
            return [json.loads(line) for line in log]

    def rounds(self, service):
        [path] = glob.glob(f"{self.folder}/{service}-*-signal.jsonl")
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def test_a_request_is_one_trace_below_its_callers_span(self):
        self.assertEqual(self.complete({
            "traceparent": f"00-{TRACE}-{CALLER}-01",
            "X-Request-Id": "request-7", "X-Bole-Tenant": "blue"}), 200)
        self.assertTrue(eventually(lambda: len(self.spans) == 8), self.spans)
        by_name = {span["name"]: span for span in self.spans}
        self.assertEqual(set(by_name), {
            "generate", "admission", "queue", "prefill", "rounds", "delivery",
            "worker.prefill", "worker.rounds"})
        root = by_name["generate"]
        self.assertEqual(root["parentSpanId"], CALLER)
        for name, span in by_name.items():
            self.assertEqual(span["traceId"], TRACE)
            self.assertLessEqual(int(root["startTimeUnixNano"]),
                                 int(span["startTimeUnixNano"]))
            self.assertLessEqual(int(span["endTimeUnixNano"]),
                                 int(root["endTimeUnixNano"]))
            of_worker = name.startswith("worker.")
            self.assertEqual(span["service"], "bole-worker" if of_worker
                             else "bole-scheduler")
            parent = by_name[name.removeprefix("worker.")] if of_worker else root
            if span is not root:
                self.assertEqual(span["parentSpanId"], parent["spanId"])
        scheduled = values_of(by_name["rounds"])
        self.assertEqual(scheduled["bole.tokens"], "23")
        self.assertGreater(int(scheduled["bole.rounds"]), 0)
        ran = values_of(by_name["worker.rounds"])
        for name in ["bole.tokens", "bole.rounds", "bole.accepted_drafts"]:
            self.assertEqual(ran[name], scheduled[name], name)
        self.assertGreaterEqual(int(ran["bole.nodes"]), int(ran["bole.rounds"]))
        chunks = values_of(by_name["worker.prefill"])
        self.assertEqual(chunks["bole.chunks"], "1")
        self.assertIn(int(chunks["bole.tokens"]), range(1, 1 + int(
            values_of(by_name["prefill"])["bole.prompt_tokens"])))
        for values in [ran, chunks]:
            self.assertGreater(values["bole.engine_seconds"], 0)
        rows = in_order(self.spans)
        self.assertEqual([(depth, span["name"]) for depth, span in rows
                          if span["name"].startswith("worker.")],
                         [(2, "worker.prefill"), (2, "worker.rounds")])
        self.assertEqual(len(rows), 8)
        self.assertIn("worker.rounds", as_text(rows))
        self.assertTrue(as_svg(rows).endswith("</svg>\n"))
        self.assertNotIn("canary", json.dumps(self.spans))

    def test_the_log_has_lines_of_requests_without_their_texts(self):
        header = {"X-Request-Id": "request-7", "X-Bole-Tenant": "blue",
                  "traceparent": f"00-{TRACE}-{CALLER}-00"}
        self.assertEqual(self.complete(header), 200)
        self.assertEqual(self.complete(header, model="none"), 404)

        def mine():
            return [line for line in self.lines()
                    if line.get("request_id") == "request-7"]

        self.assertTrue(eventually(lambda: len(mine()) == 2))
        ended, refused = mine()
        self.assertEqual(ended["message"], "a request ended")
        self.assertEqual(ended["tenant"], "blue")
        self.assertEqual(ended["trace_id"], TRACE)
        self.assertEqual(ended["output_tokens"], 24)
        self.assertEqual(refused["message"], "a request was refused")
        self.assertEqual(refused["tenant"], "blue")
        self.assertEqual(refused["reason"], "unknown_model")
        for line in self.lines():
            self.assertLessEqual({"time", "level", "service", "message"},
                                 set(line))
        with open(self.log, encoding="utf-8") as log:
            self.assertNotIn("canary", log.read())
        self.assertEqual(self.spans, [])

    def test_sigusr1_writes_the_last_rounds_of_both(self):
        for service in [self.scheduler, self.worker]:
            service.process.send_signal(signal.SIGUSR1)
        self.assertTrue(eventually(
            lambda: len(glob.glob(f"{self.folder}/*.jsonl")) == 2))
        for name in ["bole-scheduler", "bole-worker"]:
            header, *rounds = self.rounds(name)
            self.assertEqual(header["flight_record"], name)
            self.assertGreater(len(rounds), 0)
            self.assertEqual(sum(r["emitted"] for r in rounds) % 24, 0)
            self.assertEqual(rounds[0]["prefills"], 1)
        self.assertEqual(self.complete({}), 200)

    def test_either_service_gives_its_last_rounds_to_who_asks(self):
        for service in [self.scheduler, self.worker]:
            dumped = subprocess.run(
                [BOLE, "debug", "dump", "--server", service.address],
                stdout=subprocess.PIPE, text=True, check=True).stdout
            header, *rounds = map(json.loads, dumped.splitlines())
            self.assertEqual(
                header["flight_record"],
                "bole-worker" if service is self.worker else "bole-scheduler")
            self.assertEqual(sum(r["emitted"] for r in rounds) % 24, 0)
            self.assertGreater(len(rounds), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
