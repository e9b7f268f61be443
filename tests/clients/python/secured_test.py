"""What deploy/SECURITY.md tells who tries TLS and tokens, as it stands there.

Only the ports are others. Then the same is asked by who lacks something.
"""

import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, "tests/e2e")
from services import built, eventually  # noqa: E402

DOCUMENT = "deploy/SECURITY.md"
SECTION = "## On one machine, to try it\n"
PROGRAMS = ["worker_service/bole-worker", "scheduler_service/bole-scheduler",
            "clients/cli/bole"]


def free_port():
    """Nobody else's until it is taken, unless somebody is quick."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def commands():
    """The shell commands of the section, a text for each of its blocks."""
    section = pathlib.Path(DOCUMENT).read_text(encoding="utf-8")
    section = section.split(SECTION)[1].split("\n## ")[0]
    return re.findall(r"```sh\n(.*?)```", section, re.DOTALL)


class SecuredTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # It looks like the root of a tree that was built.
        cls.root = pathlib.Path(cls.enterClassContext(
            tempfile.TemporaryDirectory()))
        for path in PROGRAMS:
            link = cls.root / "bazel-bin" / path
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(os.path.abspath(built(path)))
        for path in ["deploy", "models", "clients"]:
            (cls.root / path).symlink_to(os.path.abspath(path))
        (cls.root / "venv").symlink_to(sys.prefix)

        cls.ports = {port: str(free_port()) for port in ["8400", "8401", "8500"]}
        keys, services, clients = commands()
        *cls.environment, ask, sdk, curl = re.split(r"\n(?! )", clients.strip())
        cls.clients = {"bole": ask, "sdk": sdk, "curl": curl + " --silent"}
        subprocess.run(["bash", "-euc", keys], cwd=cls.root, check=True)
        cls.services = subprocess.Popen(
            ["bash", "-euc", cls.with_free_ports(services) + "wait"],
            cwd=cls.root, start_new_session=True)
        cls.addClassCleanup(cls.end_services)
        assert eventually(lambda: cls.ask("bole").returncode == 0)

    @classmethod
    def end_services(cls):
        os.killpg(cls.services.pid, signal.SIGKILL)
        cls.services.wait()

    @classmethod
    def with_free_ports(cls, text):
        return re.sub(r"\b8(?:40[01]|500)\b", lambda m: cls.ports[m[0]], text)

    @classmethod
    def ask(cls, client, *changes):
        """The client's command, after those that change its environment."""
        script = "\n".join([*cls.environment, *changes, cls.clients[client]])
        return subprocess.run(
            ["bash", "-euc", cls.with_free_ports(script)], cwd=cls.root,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=120)

    def test_every_client_is_answered(self):
        # The first and the last sample: their texts may end early.
        for client, words in [("bole", r"\noutput tokens +\d+\n"),
                              ("sdk", "-- 32 tokens, "),
                              ("curl", '"object":"text_completion"')]:
            answer = self.ask(client)
            self.assertEqual(answer.returncode, 0, f"{client}: {answer.stdout}")
            self.assertRegex(answer.stdout, words)

    def test_nobody_gets_in_without_a_token(self):
        for client, words in [("bole", "a bearer token is needed"),
                              ("sdk", "Unauthenticated")]:
            answer = self.ask(client, "unset BOLE_TOKEN_FILE")
            self.assertNotEqual(answer.returncode, 0)
            self.assertIn(words, answer.stdout)
        answer = self.ask("curl", "cat() { echo wrong; }")
        self.assertIn('"code":"invalid_api_key"', answer.stdout)

    def test_nobody_gets_in_without_a_certificate(self):
        for client in ["bole", "sdk"]:
            answer = self.ask(client, "unset BOLE_CERT BOLE_KEY")
            self.assertNotEqual(answer.returncode, 0, client)
        curl = re.sub(r"--cert \S+ --key \S+", "", self.clients["curl"])
        script = self.with_free_ports(curl)
        answer = subprocess.run(["bash", "-uc", script], cwd=self.root)
        self.assertNotEqual(answer.returncode, 0)

    def test_the_worker_obeys_nobody_without_a_certificate(self):
        answer = subprocess.run(
            ["curl", "--silent", "--cacert", "keys/ca.pem",
             f"https://127.0.0.1:{self.ports['8500']}/"], cwd=self.root)
        self.assertNotEqual(answer.returncode, 0)


if __name__ == "__main__":
    unittest.main()
