#!/usr/bin/python3
"""Runs both services from the root file systems of their images.

    deploy/images.sh OUT
    tests/deploy/images/images_test.py OUT

As in a cluster: a user without a name and without capabilities, a root that
nobody can write, the chart's own command lines and probes, and the script of
its test. Mounts and the network are of namespaces of their own, so root is
needed; nothing outside is touched.
"""

import ctypes
import hashlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
USER = 65532
INSIDE = "BOLE_IMAGES_INSIDE"
# What a pod has besides its root.
WRITABLE = ("tmp", "var/lib/bole", "etc/bole")

LIBC = ctypes.CDLL(None)
PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38
NUM_CAPABILITIES = 64


class ImageError(Exception):
    """Something is not as it must be."""


def check(condition, what):
    if not condition:
        raise ImageError(what)


class Image:
    """A root file system, mounted read-only at a folder of its own."""

    def __init__(self, root, at):
        self.at = at
        at.mkdir()
        run = lambda *command: subprocess.run(command, check=True)
        # A container runtime makes what is mounted on.
        (root / "etc/bole").mkdir(exist_ok=True)
        run("mount", "--bind", root, at)
        run("mount", "-o", "remount,bind,ro", at)
        run("mount", "-t", "proc", "proc", at / "proc")
        run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", at / "dev")
        for name, minor in (("null", 3), ("zero", 5), ("random", 8),
                            ("urandom", 9)):
            os.mknod(at / "dev" / name, 0o20666, os.makedev(1, minor))
            os.chmod(at / "dev" / name, 0o666)
        for folder in WRITABLE:
            if (at / folder).is_dir():
                run("mount", "-t", "tmpfs", "-o", f"uid={USER},gid={USER}",
                    "tmpfs", at / folder)

    def enter(self):
        """In the child, before its program: as a container runtime does."""
        os.chroot(self.at)
        os.chdir("/")
        for capability in range(NUM_CAPABILITIES):
            # Those that this kernel lacks fail.
            LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
        os.setgroups([])
        os.setgid(USER)
        os.setuid(USER)
        LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)

    def start(self, *args, env=None, **options):
        path = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        return subprocess.Popen(args, env=path | (env or {}),
                                preexec_fn=self.enter, **options)

    def run(self, *args, env=None, timeout=120):
        """What it printed, and its exit code."""
        with self.start(*args, env=env, text=True, stdout=subprocess.PIPE,
                        stderr=subprocess.STDOUT) as process:
            try:
                stdout, _ = process.communicate(timeout=timeout)
            finally:
                process.kill()
        return subprocess.CompletedProcess(args, process.returncode, stdout)


def check_root(image):
    """Nobody can write it, and there is no way to become somebody else."""
    told = image.run("bash", "-c", "echo $UID; cat /proc/self/status")
    check(told.stdout.startswith(f"{USER}\n"), told.stdout)
    for line in told.stdout.splitlines():
        if line.startswith(("CapEff:", "CapBnd:", "CapPrm:")):
            check(int(line.split()[1], 16) == 0, line)
    for path in ("/x", "/etc/x", "/usr/lib/bole/x", "/usr/bin/x", "/usr/share/bole/x"):
        told = image.run("bash", "-c", f"echo >{path}")
        check("Read-only file system" in told.stdout, f"{path}: {told.stdout}")
    check(image.run("bash", "-c", "echo >/tmp/x").returncode == 0, "/tmp")
    found = subprocess.run(
        ["find", image.at, "-xdev", "-perm", "/6000", "-type", "f"],
        check=True, capture_output=True, text=True)
    check(not found.stdout, f"setuid: {found.stdout}")


# Tokens, and certificates that one makes oneself.
SECURE_VALUES = {
    "auth": {"anonymous": False},
    "tls": {"enabled": True,
            "secrets": {"door": "d", "worker": "w", "link": "l"}},
    "poolDefaults": {"calibration": {"enabled": False}},
    "scheduler": {"replicas": 2},
}


def objects(values):
    """What the chart makes of the laptop's values, and of these above them."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        json.dump(values, file)
        file.flush()
        told = subprocess.run(
            [os.environ["BOLE_RENDER"], "-json", "-f",
             ROOT / "deploy/helm/examples/laptop.yaml", "-f", file.name,
             ROOT / "deploy/helm/bole"], check=True, stdout=subprocess.PIPE)
    return [made["object"] for made in json.loads(told.stdout)]


def container_of(made, kind):
    spec = next(o for o in made if o["kind"] == kind)["spec"]
    spec = spec.get("template", {}).get("spec", spec)
    return spec["containers"][0], spec.get("initContainers", [])


def on_this_machine(args):
    """The chart's command line, with addresses that this network has."""
    local = []
    for arg in args:
        name, _, value = arg.partition("=")
        if name == "--peers":
            value = "127.0.0.1:8400"
        elif name == "--worker":
            value = f"127.0.0.1:{value.split(':')[1]}"
        local.append(f"{name}={value}" if value else name)
    return local


def probe(image, container, which):
    grpc = container[which]["grpc"]
    return image.run(
        "bole", "health", "--server", f"127.0.0.1:{grpc['port']}",
        "--timeout", "2", "--service", grpc.get("service", "")).returncode


def await_probe(image, container, which, process, seconds):
    deadline = time.monotonic() + seconds
    while probe(image, container, which) != 0:
        check(process.poll() is None, f"it ended with {process.returncode}")
        check(time.monotonic() < deadline, f"{which} within {seconds} s")
        time.sleep(0.2)


def calibrate(image, init):
    began = time.monotonic()
    args = [*init["command"], *on_this_machine(init["args"])]
    told = image.run(*args, timeout=300)
    check(told.returncode == 0, told.stdout)
    print(f"calibrated in {time.monotonic() - began:.0f} s", flush=True)
    told = image.run(*args)
    check("is of this kind of machine" in told.stdout, told.stdout)


def end(process, name, seconds):
    """By SIGTERM, within the time that it may take."""
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    code = process.wait(timeout=seconds)
    check(code == 0, f"{name} ended with {code}")
    print(f"{name} ended in {time.monotonic() - began:.1f} s", flush=True)


def write_secret(image, name, files):
    """As Kubernetes mounts one: of root, and readable by the pod's group."""
    folder = image.at / "etc/bole" / name
    folder.mkdir()
    for key, data in files.items():
        (folder / key).write_bytes(data)
        os.chmod(folder / key, 0o440)
        os.chown(folder / key, 0, USER)


def certificates(folder):
    """{kind: files of its Secret}, all of one authority."""
    openssl = lambda *args: subprocess.run(
        ["openssl", *args], check=True, cwd=folder, capture_output=True)
    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl("req", "-x509", *new_key, "-days", "1", "-subj", "/CN=authority",
            "-keyout", "ca.key", "-out", "ca.crt")
    made = {}
    for kind, names in (("door", "DNS:test-bole.llm.svc,IP:127.0.0.1"),
                        ("worker", "DNS:test-bole-worker"),
                        ("link", "DNS:test-bole-scheduler")):
        openssl("req", *new_key, "-subj", f"/CN={kind}", "-addext",
                f"subjectAltName={names}", "-keyout", "key", "-out", "request")
        openssl("x509", "-req", "-in", "request", "-days", "1", "-CA", "ca.crt",
                "-CAkey", "ca.key", "-CAcreateserial", "-copy_extensions",
                "copy", "-out", "crt")
        read = lambda name: pathlib.Path(folder, name).read_bytes()
        made[kind] = {"tls.crt": read("crt"), "tls.key": read("key"),
                      "ca.crt": read("ca.crt")}
    return made


def write_secrets(worker_image, scheduler_image):
    with tempfile.TemporaryDirectory() as folder:
        made = certificates(folder)
    write_secret(worker_image, "worker", made["worker"])
    write_secret(scheduler_image, "door", made["door"])
    write_secret(scheduler_image, "link", made["link"])
    tokens = {"test-token": b"bole_test", "peer-token": b"bole_peer"}
    digest = lambda key: hashlib.sha256(tokens[key]).hexdigest()
    write_secret(scheduler_image, "auth", {
        **tokens, "tokens": (f"{digest('test-token')} me generate\n"
                             f"{digest('peer-token')} peers admin\n").encode()})


def ask(image, made):
    """The chart's test, and that it fails for what is wrong."""
    pod, _ = container_of(made, "Pod")
    env = {e["name"]: e["value"] for e in pod["env"]}
    overrides = {"HOST": "127.0.0.1", "BOLE_SERVER": "127.0.0.1:8400"}
    env |= {name: value for name, value in overrides.items() if name in env}
    told = image.run(*pod["command"], *pod.get("args", []), env=env)
    check(told.returncode == 0, f"the chart's test: {told.stdout}")
    print(told.stdout.splitlines()[-1], flush=True)
    wrong = "BOLE_MODEL" if "BOLE_MODEL" in env else "BODY"
    env[wrong] += "}"
    told = image.run(*pod["command"], *pod.get("args", []), env=env)
    check(told.returncode != 0 and
          (wrong != "BODY" or " 400 " in told.stdout),
          f"the chart's test passes whatever comes: {told.stdout}")


def serve(images, made, check_answers):
    """Starts both with the chart's command lines, and ends them."""
    worker_image, scheduler_image = images
    worker, inits = container_of(made, "StatefulSet")
    scheduler, _ = container_of(made, "Deployment")
    if inits:
        calibrate(worker_image, inits[-1])
    running = []
    try:
        running.append(worker_image.start(
            *worker["command"], *on_this_machine(worker["args"])))
        await_probe(worker_image, worker, "startupProbe", running[0], 60)
        await_probe(worker_image, worker, "readinessProbe", running[0], 10)
        running.append(scheduler_image.start(
            *scheduler["command"], *on_this_machine(scheduler["args"])))
        await_probe(scheduler_image, scheduler, "livenessProbe", running[1], 30)
        await_probe(scheduler_image, scheduler, "readinessProbe", running[1],
                    30)
        ask(scheduler_image, made)
        check_answers(scheduler_image)
        sleep = scheduler["lifecycle"]["preStop"]["exec"]["command"]
        check(scheduler_image.run(sleep[0], "0").returncode == 0, str(sleep))
        end(running[1], "bole-scheduler", 25)
        end(running[0], "bole-worker", 75)
    finally:
        for process in running:
            process.kill()
            process.wait()


def answers_everybody(image):
    told = image.run("bole", "generate", "--max-tokens", "8", "Hello")
    check(told.returncode == 0, told.stdout)


def answers_those_with_tokens(image):
    command = ["bole", "generate", "--ca", "/etc/bole/door/ca.crt",
               "--max-tokens", "8", "Hello"]
    told = image.run(*command)
    check(told.returncode != 0 and "token is needed" in told.stdout,
          told.stdout)
    told = image.run(*command, env={
        "BOLE_TOKEN_FILE": "/etc/bole/auth/test-token"})
    check(told.returncode == 0, told.stdout)


def test(out):
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    folder = tempfile.mkdtemp(prefix="bole_images.")
    images = [Image(out / f"bole-{name}.root", pathlib.Path(folder, name))
              for name in ("worker", "scheduler")]
    try:
        for image in images:
            check_root(image)
        serve(images, objects({}), answers_everybody)
        print("as on a laptop: passed", flush=True)
        write_secrets(*images)
        serve(images, objects(SECURE_VALUES), answers_those_with_tokens)
        print("with certificates and tokens: passed", flush=True)
    finally:
        for image in images:
            subprocess.run(["umount", "-R", image.at], check=True)
            image.at.rmdir()
        os.rmdir(folder)


def main():
    out = pathlib.Path(sys.argv[1]).resolve()
    if INSIDE not in os.environ:
        os.environ[INSIDE] = "1"
        os.execvp("unshare", ["unshare", "--mount", "--net", sys.executable,
                              __file__, str(out)])
    try:
        test(out)
    except (ImageError, subprocess.SubprocessError) as error:
        print(f"FAILED: {error}")
        return 1
    print("passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
