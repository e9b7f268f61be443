"""Services, loads, and the Prometheus that watches them, as processes."""

import os
import pathlib
import re
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / folder) for folder in
                ["deploy/prometheus", "deploy/grafana", "tests/e2e"]]

import draw  # noqa: E402
from render_rules import render_files  # noqa: E402
from services import Service, built, eventually  # noqa: E402

MODEL = "models/demo"
COSTS = "tests/simulation/costs/h200_9b.json"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def certificate(folder, days):
    """A certificate of 127.0.0.1 that is its own issuer, and its key."""
    cert, key = folder / f"cert{days}.pem", folder / f"key{days}.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
         "ec_paramgen_curve:prime256v1", "-nodes", "-days", str(days),
         "-subj", "/CN=localhost", "-addext",
         "subjectAltName=IP:127.0.0.1,DNS:localhost",
         "-keyout", key, "-out", cert],
        check=True, capture_output=True)
    return cert, key


class System:
    """A scheduler and simulated workers, in a namespace of their own."""

    def __init__(self, namespace, workers, scheduler_flags=(), ca=None,
                 token=None):
        """`workers`: the flags of each. `ca`, of a single system of a test, is
        what clients trust, and `token` the file of theirs."""
        self._speaks_tls = {"bole-scheduler": "--tls-cert" in scheduler_flags,
                            "bole-worker": "--tls-cert" in workers[0]}
        self.namespace = namespace
        self.ca = ca
        self.token = token
        self.workers = []
        self.scheduler = None
        self._loads = []
        common = ["--model", MODEL, "--listen", "127.0.0.1:0",
                  "--metrics-listen", "127.0.0.1:0"]
        try:
            for flags in workers:
                self.workers.append(
                    Service(built("tests/simulation/bole-sim-worker"),
                            *common, *flags))
            links = [flag for worker in self.workers
                     for flag in ["--worker", worker.address]]
            self.scheduler = Service(
                built("scheduler_service/bole-scheduler"), *common,
                "--allow-synthetic", *links, *scheduler_flags)
        except BaseException:
            self.stop()
            raise

    def scheme_of(self, job):
        return "https" if self._speaks_tls[job] else "http"

    def targets(self):
        """{job: [HOST:PORT]} of what there was at the start."""
        return {"bole-scheduler": [f"127.0.0.1:{self.scheduler.metrics_port}"],
                "bole-worker": [f"127.0.0.1:{worker.metrics_port}"
                                for worker in self.workers]}

    def page(self, service):
        """The metrics that it exports now."""
        if not self.ca:
            return service.metrics()
        request = urllib.request.Request(
            f"https://127.0.0.1:{service.metrics_port}/metrics",
            headers={"Authorization":
                     f"Bearer {pathlib.Path(self.token).read_text().strip()}"})
        with urllib.request.urlopen(
                request, timeout=10,
                context=ssl.create_default_context(cafile=self.ca)) as page:
            return page.read().decode()

    def bole(self, *arguments):
        """The command of a client."""
        command = [built("clients/cli/bole"), *arguments, "--server",
                   self.scheduler.address]
        if self.ca:
            command += ["--ca", str(self.ca)]
        if self.token:
            command += ["--token-file", str(self.token)]
        return command

    def load(self, *flags):
        """Begins a load; stop() ends it."""
        self._loads.append(subprocess.Popen(
            self.bole("bench", *flags), stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL))
        return self._loads[-1]

    def wait_until_ready(self):
        subprocess.run(self.bole("health", "--wait", "30"), check=True,
                       stdout=subprocess.DEVNULL)

    def stop(self):
        for load in self._loads:
            load.kill()
            load.wait()
        for service in [self.scheduler, *self.workers]:
            if service is not None:
                service.kill()


class Prometheus:
    """Debian's Prometheus with the tree's configuration, but for its targets,
    its times, and the folder of its data."""

    def __init__(self, systems, scale, shortest_window):
        self._folder = tempfile.TemporaryDirectory(prefix="bole-prometheus.")
        folder = pathlib.Path(self._folder.name)
        rules = render_files(folder / "rules", scale, shortest_window)
        config = yaml.safe_load(
            (ROOT / "deploy/prometheus/prometheus.yml").read_text())
        config["global"] = {"scrape_interval": "1s",
                            "evaluation_interval": "1s"}
        config["rule_files"] = [str(path) for path in rules]
        for job in config["scrape_configs"]:
            name = job["job_name"]
            job["static_configs"] = [
                {"targets": system.targets()[name],
                 "labels": {"namespace": system.namespace,
                            "__scheme__": system.scheme_of(name)}}
                for system in systems]
            for system in systems:
                if system.ca:
                    job["tls_config"] = {"ca_file": str(system.ca)}
                if system.token:
                    job["authorization"] = {
                        "credentials_file": str(system.token)}
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        self.address = f"http://127.0.0.1:{free_port()}"
        self._log = open(folder / "log", "w", encoding="utf-8")
        self._process = subprocess.Popen(
            ["prometheus", f"--config.file={folder}/prometheus.yml",
             f"--storage.tsdb.path={folder}/data",
             f"--web.listen-address={self.address.removeprefix('http://')}"],
            stdout=self._log, stderr=self._log)
        if not eventually(self._answers):
            self.stop()
            raise RuntimeError("Prometheus does not answer")

    def _answers(self):
        try:
            return bool(self.ask("status/buildinfo"))
        except (urllib.error.URLError, ConnectionError):
            return False

    def ask(self, path, **parameters):
        return draw.ask(self.address, path, **parameters)

    def query(self, expression):
        """[(labels, value)] now."""
        return [(one["metric"], float(one["value"][1]))
                for one in self.ask("query", query=expression)["result"]]

    def rules(self):
        return [rule for group in self.ask("rules")["groups"]
                for rule in group["rules"]]

    def firing(self):
        """{(alert, namespace)} of those that fire."""
        return {(alert["labels"]["alertname"],
                 alert["labels"].get("namespace", ""))
                for alert in self.ask("alerts")["alerts"]
                if alert["state"] == "firing"}

    def stop(self):
        self._process.kill()
        self._process.wait()
        self._log.close()
        self._folder.cleanup()


def metric_names(expression):
    """The names of metrics in an expression of the rules or dashboards."""
    bare = re.sub(r'"[^"]*"|\{[^}]*\}|by \([^)]*\)|on \([^)]*\)|'
                  r"group_left \([^)]*\)|\[[^]]*\]", " ", expression)
    return set(re.findall(r"\b(?:bole|process|up)[\w:]*", bare))


def in_root():
    """Goes to where the programs and the models are."""
    os.chdir(ROOT)
