"""What is attacked: a scheduler with a simulated worker, and with HAProxy before it
if it is asked for; and what the system knows of the scheduler's process."""

import os
import shutil
import subprocess
import tempfile
import time

from fleet import free_port
from services import MODEL, SCHEDULER, Service, built, eventually

SIM_WORKER = "tests/simulation/bole-sim-worker"
PROXY_CONFIGURATION = "deploy/haproxy.cfg"
# A round takes 5 ms, and a prompt 2 ms, as on a GPU. There are places for more
# requests than attackers ask at a time.
COSTS = """{"terms": [
  {"name": "forward", "axes": [["requests", [1, 128]]],
   "microseconds": [5000, 5000]},
  {"name": "prefill", "axes": [["prefill_tokens", [1, 2048]]],
   "microseconds": [2000, 2000]}]}
"""
LISTENS = "0A"  # State of a socket in /proc/net/tcp.


def haproxy():
    """Its path, or None if it is not installed."""
    return shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")


class Proxy:
    """HAProxy with the project's configuration, on ports that are free and with
    a certificate of its own."""

    def __init__(self, folder, http_port, grpc_port):
        self.ca = os.path.join(folder, "cert.pem")
        key, pem = (os.path.join(folder, name) for name in ["key", "both.pem"])
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days",
             "1", "-subj", "/CN=bole.test", "-addext",
             "subjectAltName=DNS:bole.test", "-keyout", key, "-out", self.ca],
            check=True, stderr=subprocess.DEVNULL)
        with open(pem, "w") as both:
            for path in [self.ca, key]:
                with open(path) as part:
                    both.write(part.read())
        self.grpc_port, self.http_port = free_port(), free_port()
        with open(PROXY_CONFIGURATION) as file:
            text = file.read()
        for old, new in [("bind :8443", f"bind 127.0.0.1:{self.grpc_port}"),
                         ("bind :8444", f"bind 127.0.0.1:{self.http_port}"),
                         ("8400", str(grpc_port)), ("8401", str(http_port))]:
            assert old in text, f"{PROXY_CONFIGURATION} has no {old}"
            text = text.replace(old, new)
        configuration = os.path.join(folder, "haproxy.cfg")
        with open(configuration, "w") as file:
            file.write(text)
        self._process = subprocess.Popen(
            [haproxy(), "-f", configuration],
            env=dict(os.environ, BOLE_PROXY_PEM=pem),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def stop(self):
        self._process.kill()
        self._process.wait()


class Served:
    """Both services, ended with a `with`."""

    def __init__(self, proxied=False):
        self._folder = tempfile.TemporaryDirectory(prefix="bole-attacks.")
        self._services = []
        self._proxy = None
        try:
            self._start(proxied)
        except BaseException:
            self.__exit__()
            raise

    def _start(self, proxied):
        costs = os.path.join(self._folder.name, "costs.json")
        with open(costs, "w") as file:
            file.write(COSTS)
        self._services.append(Service(
            built(SIM_WORKER), "--model", MODEL, "--listen", "127.0.0.1:0",
            "--max-requests", "128", "--costs", costs))
        self._scheduler = Service(
            built(SCHEDULER), "--model", MODEL, "--allow-synthetic",
            "--worker", self._services[0].address, "--listen", "127.0.0.1:0",
            "--http-listen", "127.0.0.1:0")
        self._services.append(self._scheduler)
        self.ports = {
            "grpc": int(self._scheduler.address.split(":")[-1]),
            "http": next(int(line.split()[-1])
                         for line in self._scheduler.output
                         if line.startswith("http on port "))}
        self._own_ports = set(self.ports.values())
        self.pid = self._scheduler.process.pid
        self.ca = None
        if proxied:
            self._proxy = Proxy(self._folder.name, self.ports["http"],
                                self.ports["grpc"])
            self.ports = {"grpc": self._proxy.grpc_port,
                          "http": self._proxy.http_port}
            self.ca = self._proxy.ca

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop_proxy()
        for service in reversed(self._services):
            service.kill()
        self._folder.cleanup()

    def stop_proxy(self):
        if self._proxy:
            self._proxy.stop()
            self._proxy = None

    def lives(self):
        return self._scheduler.process.poll() is None

    def memory_mib(self):
        """What is resident of the scheduler."""
        with open(f"/proc/{self.pid}/status") as status:
            for line in status:
                if line.startswith("VmRSS:"):
                    return round(int(line.split()[1]) / 1024, 1)
        raise ProcessLookupError(self.pid)

    def cpu_seconds(self):
        with open(f"/proc/{self.pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def connections(self):
        """How many the scheduler has with clients; those that it has closed
        and the system has not are none."""
        count = 0
        with open("/proc/net/tcp") as sockets:
            for line in list(sockets)[1:]:
                _, local, _, state, *_, = line.split()
                inode = line.split()[9]
                port = int(local.split(":")[1], 16)
                count += (port in self._own_ports and state != LISTENS and
                          inode != "0")
        return count

    def end_of_connections(self, seconds):
        """Seconds until none is left, or None."""
        start = time.monotonic()
        if eventually(lambda: self.connections() == 0, seconds):
            return round(time.monotonic() - start, 2)
        return None
