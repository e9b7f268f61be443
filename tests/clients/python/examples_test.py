"""The SDK and its examples against a worker and a scheduler with models/demo."""

import os
import subprocess
import sys
import unittest

import bole

sys.path.insert(0, "tests/e2e")
from services import (MODEL, SCHEDULER, WORKER, Service,  # noqa: E402
                      Services, eventually, series_of)

EXAMPLES = "clients/python/examples"
PROMPT = "def fibonacci(n):\n"


class ExamplesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.services = cls.enterClassContext(
            Services(worker_flags=["--context", "8192"]))
        cls.address = cls.services.scheduler.address
        cls.client = cls.enterClassContext(bole.Client(cls.address, timeout=60))
        assert eventually(lambda: cls.client.model_info().ready)

    def run_example(self, name):
        """What it prints."""
        return subprocess.run(
            [sys.executable, f"{EXAMPLES}/{name}.py"], check=True, text=True,
            stdout=subprocess.PIPE, timeout=60,
            env={**os.environ, "BOLE_SERVER": self.address}).stdout

    def test_generate(self):
        said = self.run_example("generate")
        result = self.client.generate(PROMPT, temperature=0, max_tokens=32)
        self.assertTrue(said.startswith(result.text + "\n-- 32 tokens, "))
        self.assertIn("-- choice 0, logprob -", said)
        self.assertIn("-- choice 1, logprob -", said)

    def test_chat(self):
        question = "Write a python function to add two numbers."
        said = self.run_example("chat")
        first = self.client.generate(
            messages=[{"role": "user", "content": question}], temperature=0,
            max_tokens=48)
        self.assertTrue(said.startswith(
            f"> {question}\n{first.text}\n> And to multiply?\n"))

    def test_stream_async(self):
        said = self.run_example("stream_async")
        add = self.client.generate("def add(a, b):\n", temperature=0,
                                   max_tokens=24)
        self.assertTrue(said.startswith("--\n" + add.text + "\n--\n"))
        self.assert_idle()

    def test_tools(self):
        self.assertTrue(self.run_example("tools").strip())

    def test_errors(self):
        lines = self.run_example("errors").splitlines()
        for line, start in zip(lines, [
                "sampling_params.top_p is wrong: ", "not found: ",
                "not offered: regex", "out of time", "cancelled",
                "nothing answers, UNAVAILABLE"], strict=True):
            self.assertTrue(line.startswith(start), line)
        self.assert_idle()

    def test_tells_of_models_and_workers(self):
        self.assertEqual([m.model for m in self.client.models()], ["demo"])
        self.assertEqual(self.client.model_info().max_context, 8192)
        self.assertEqual(self.client.server_info().version, bole.__version__)
        tokens = self.client.tokenize(PROMPT)
        self.assertEqual(self.client.detokenize(tokens.input_ids), PROMPT)
        [worker] = self.client.admin.workers()
        self.assertTrue(worker.connected)

    def test_a_stream_outlives_its_worker(self):
        options = {"seed": 3, "n": 2, "max_tokens": 400, "ignore_eos": True}
        want = self.client.generate(PROMPT, **options)
        with Services() as services:
            with bole.Client(services.scheduler.address,
                             timeout=60) as client:
                assert eventually(lambda: client.model_info().ready)
                events = client.generate(PROMPT, **options, stream=True)
                for _ in range(5):
                    next(events)
                address = services.worker.address
                services.worker.kill()
                services.worker = Service(
                    WORKER, "--model", MODEL, "--listen", address,
                    "--metrics-listen", "127.0.0.1:0", "--threads", "1")
                got = events.result()
        self.assertEqual([c.token_ids for c in got.choices],
                         [c.token_ids for c in want.choices])
        self.assertEqual([c.text for c in got.choices],
                         [c.text for c in want.choices])

    def test_a_stream_outlives_its_scheduler(self):
        options = {"seed": 3, "n": 2, "max_tokens": 400, "ignore_eos": True}
        want = self.client.generate(PROMPT, **options)
        retry = bole.RetryPolicy(max_attempts=50, max_backoff=0.2)
        with Services() as services:
            address = services.scheduler.address
            with bole.Client(address, timeout=60, retry=retry) as client:
                assert eventually(lambda: client.model_info().ready)
                events = client.generate(PROMPT, **options, stream=True)
                for _ in range(5):
                    next(events)
                services.scheduler.kill()
                services.scheduler = Service(
                    SCHEDULER, "--model", MODEL, "--listen", address,
                    "--metrics-listen", "127.0.0.1:0",
                    "--worker", services.worker.address)
                got = events.result()
                self.assertTrue(eventually(
                    lambda: self.num_ended(services.scheduler) == 2))
        self.assertEqual([c.token_ids for c in got.choices],
                         [c.token_ids for c in want.choices])
        self.assertEqual([c.text for c in got.choices],
                         [c.text for c in want.choices])

    @staticmethod
    def num_ended(scheduler):
        """Choices that this process of the scheduler brought to an end."""
        return sum(value for name, value in series_of(scheduler.metrics()).items()
                   if name.startswith("bole_requests_total"))

    def assert_idle(self):
        def waiting():
            load = self.client.admin.load().total
            return load.running_requests + load.waiting_requests
        self.assertTrue(eventually(lambda: waiting() == 0))
        self.assertEqual(self.client.admin.audit(), ())
        header, *rounds = self.client.admin.dump_rounds()
        self.assertEqual(header["flight_record"], "bole-scheduler")
        self.assertGreater(len(rounds), 0)


if __name__ == "__main__":
    unittest.main()
