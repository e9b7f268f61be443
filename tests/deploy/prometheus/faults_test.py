#!/usr/bin/python3
"""The runbook, tried: every alert of the table below fires, by name, where its
fault was injected, and nowhere else.

Each fault has a scheduler and workers of its own, in a namespace of their own;
one Prometheus watches them all, with the tree's rules at 1/120 of their times.
"""

import hashlib
import pathlib
import tempfile
import time
import unittest
import sys

sys.dont_write_bytecode = True

from observed import COSTS, Prometheus, System, certificate, in_root

SCALE = 1 / 120  # "for: 10m" is 5 seconds.
WINDOW = 5       # Seconds: the shortest window of a rate, five scrapes.
PATIENCE = 90    # Seconds, for all of them together.

TIMED = ["--costs", COSTS]
TOLD = [*TIMED, "--tell-costs"]
STEADY = ["--synthetic", "100:200", "--concurrency", "2", "--duration", "300"]

# Where each alert has to fire, and nowhere else.
EXPECTED = {
    "BoleWorkerDown": {"lost", "alone"},
    "BoleTargetDown": {"lost", "alone"},
    "BoleNoWorker": {"alone"},
    "BoleQueueFull": {"full"},
    "BoleCacheThrash": {"thrash"},
    "BoleSpeculationOff": {"off"},
    "BoleCalibrationMissing": {"untold"},
    "BoleCalibrationStale": {"stale"},
    "BoleNoProgress": {"stuck"},
    "BoleTokensFileWrong": {"secrets"},
    "BoleCertificateExpires": {"secrets"},
    "BoleCertificateExpiresNow": {"secrets"},
}


class FaultsTest(unittest.TestCase):
    def system(self, namespace, workers, *flags, **more):
        made = System(namespace, workers, flags, **more)
        self.addCleanup(made.stop)
        self.systems[namespace] = made
        return made

    def start(self, folder):
        """The systems, before anything goes wrong."""
        self.systems = {}
        cert, key = certificate(folder, days=1)
        tokens = folder / "tokens"
        token = folder / "token"
        token.write_text("secret")
        tokens.write_text(hashlib.sha256(b"secret").hexdigest() +
                          " blue metrics\n")
        self.system("lost", [TOLD, TOLD])
        self.system("alone", [TOLD])
        self.system("full", [TOLD], "--max-waiting-requests", "1",
                    "--max-running", "1")
        self.system("thrash", [[*TOLD, "--checkpoints", "2", "--pages", "64",
                                "--max-requests", "4"]])
        self.system("off", [[*TOLD, "--no-drafter"]])
        self.system("untold", [TIMED])
        self.system("stale", [[*TOLD, "--fault", "slow:3@1-"]])
        self.system("stuck", [[*TOLD, "--fault", "hang@200-"]])
        self.system("secrets", [TOLD], "--tls-cert", str(cert), "--tls-key",
                    str(key), "--tokens", str(tokens), ca=cert, token=token)
        for name, system in self.systems.items():
            if name != "secrets":
                system.wait_until_ready()
        return tokens

    def inject(self, tokens):
        for name in ["lost", "off", "untold", "stale", "stuck"]:
            self.systems[name].load(*STEADY)
        self.systems["lost"].workers[0].kill()
        self.systems["alone"].workers[0].kill()
        for name in ["alone", "full"]:
            self.systems[name].load("--synthetic", "100:100", "--rate", "20",
                                    "--retries", "0", "-n", "100000",
                                    "--duration", "300")
        again = ["--synthetic", "300:10", "--rate", "8", "--load-seed", "3",
                 "-n", "100000", "--duration", "300"]
        self.systems["thrash"].load(*again)
        time.sleep(4)  # The same prompts, once they have given way.
        self.systems["thrash"].load(*again)
        tokens.write_text("this is no digest\n")

    def test_every_fault_fires_its_alerts_and_no_others(self):
        with tempfile.TemporaryDirectory(prefix="bole-faults.") as folder:
            tokens = self.start(pathlib.Path(folder))
            prometheus = Prometheus(self.systems.values(), SCALE, WINDOW)
            self.addCleanup(prometheus.stop)
            time.sleep(4)  # Counters are seen before they count.
            self.inject(tokens)
            wanted = {(alert, namespace) for alert, where in EXPECTED.items()
                      for namespace in where}
            fired, deadline = set(), time.monotonic() + PATIENCE
            while not wanted <= fired and time.monotonic() < deadline:
                time.sleep(1)
                fired |= prometheus.firing()
        for alert, namespaces in EXPECTED.items():
            with self.subTest(alert):
                self.assertEqual(
                    {where for name, where in fired if name == alert},
                    namespaces)


if __name__ == "__main__":
    in_root()
    unittest.main()
