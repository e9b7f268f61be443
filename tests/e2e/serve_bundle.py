#!/usr/bin/env python3
"""Both services of a bundle, and its client, on a machine that builds nothing.

    deploy/bundle.sh BUNDLE //worker_service:bole-worker \\
        //scheduler_service:bole-scheduler //clients/cli:bole
    # copy the folder and the source tree, then there:
    tests/e2e/serve_bundle.py BUNDLE --device cuda --json serve.json

For every model: starts a worker and a scheduler on free ports, asks for the same
greedy text twice through gRPC, and stops both. Fails if an answer is empty, has
not the tokens that were asked for, or differs from the other; or if a service
does not start, or ends with another code than 0. Prints tokens per second and
mean accepted tokens. Exits with 1 on a failure; what it started, it has ended
then.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True  # The folder may be a source tree.
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/e2e"))

from services import Service

DEMO = str(ROOT / "models/demo")
PROMPT = "Write a python function to find the maximum of two numbers."


class Failure(Exception):
    """What is wrong with an answer or a service."""


def mean_accepted(speculation):
    rounds = speculation["rounds"]
    return 1 + speculation["accepted_drafts"] / rounds if rounds else None


def ask(client, address, tokens):
    """One answer, as the client prints it: {"complete": ...}."""
    command = [client, "generate", "--server", address, "--json", "--timeout",
               "60", "--temperature", "0", "--ignore-eos", "--max-tokens",
               str(tokens), PROMPT]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise Failure(f"the client ended with {done.returncode}: {done.stdout}")
    complete = json.loads(done.stdout)["complete"]
    if len(complete["output_ids"]) != tokens:
        raise Failure(f"{len(complete['output_ids'])} tokens, not {tokens}")
    return complete


def stop(name, service):
    service.terminate()
    code = service.wait()
    if code != 0:
        raise Failure(f"the {name} ended with {code}")


def serve(bundle, model, options):
    """What came of serving a model: a row of the report."""
    programs = pathlib.Path(bundle) / "bin"
    listen = ["--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"]
    worker = Service(str(programs / "bole-worker"), "--model", model,
                     "--device", options.device, *listen)
    try:
        # A synthetic model has no tokenizer; any folder's will do.
        scheduler = Service(
            str(programs / "bole-scheduler"), "--allow-synthetic", "--model",
            f"{model}={DEMO}" if model.startswith("synthetic:") else model,
            *listen,
            "--worker", worker.address)
        try:
            client = str(programs / "bole")
            subprocess.run([client, "health", "--server", scheduler.address,
                            "--wait", "60"], check=True,
                           stdout=subprocess.DEVNULL)
            first, second = (ask(client, scheduler.address, options.tokens)
                             for _ in range(2))
            if (first["output_ids"], first["text"]) != (
                    second["output_ids"], second["text"]):
                raise Failure("two greedy answers differ")
            # Most ids of a synthetic model are beyond the other's tokenizer.
            if not first["text"] and os.path.isdir(model):
                raise Failure("an empty text")
            stop("scheduler", scheduler)
            stop("worker", worker)
        finally:
            scheduler.kill()
    finally:
        worker.kill()
    timing = second["timing"]
    return {
        "model": os.path.relpath(model, ROOT) if os.path.isdir(model)
                 else model,
        "output_tokens": options.tokens,
        "same_text_twice": True,
        "tokens_per_second": (options.tokens - 1) /
                             (timing["total_seconds"] - timing["first_token_seconds"]),
        "seconds_to_first_token": timing["first_token_seconds"],
        "mean_accepted_tokens": mean_accepted(second["speculation"]),
        "text_begins": second["text"][:60],
        "worker": [line.strip() for line in worker.output[:8]],
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("bundle", metavar="BUNDLE")
    parser.add_argument("--models", nargs="+", default=[DEMO, "synthetic:9B"],
                        help="folders of checkpoints, or synthetic:SIZE")
    parser.add_argument("--device", default="cuda", help="as of bole-worker")
    parser.add_argument("--tokens", type=int, default=256,
                        help="asked for in every answer")
    parser.add_argument("--json", metavar="FILE", help="where the rows go")
    parser.add_argument("--gpu", help="told in FILE")
    parser.add_argument("--commit", help="told in FILE")
    options = parser.parse_args()
    libraries = str(pathlib.Path(options.bundle).resolve() / "lib")
    os.environ["LD_LIBRARY_PATH"] = ":".join(
        filter(None, [libraries, os.environ.get("LD_LIBRARY_PATH")]))

    rows = []
    failures = 0
    for model in options.models:
        try:
            row = serve(options.bundle, model, options)
            print(f"{row['model']}: {row['tokens_per_second']:.0f} tokens/s, "
                  f"{row['mean_accepted_tokens'] or 1:.2f} accepted a round",
                  flush=True)
        except (Failure, RuntimeError, OSError, KeyError, ValueError,
                subprocess.SubprocessError) as error:
            print(f"{model}: {error}", file=sys.stderr)
            row = {"model": model, "error": str(error)}
            failures += 1
        rows.append(row)
    if options.json:
        report = {"gpu": options.gpu, "commit": options.commit,
                  "command": ["tests/e2e/serve_bundle.py", "BUNDLE",
                              "--device", options.device],
                  "serving": rows}
        pathlib.Path(options.json).write_text(json.dumps(report, indent=1))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
