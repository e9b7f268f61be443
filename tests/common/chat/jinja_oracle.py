#!/usr/bin/env python3
"""Renders chat templates with jinja2, as transformers sets it up.

Usage: jinja_oracle.py < CASES.json > RESULTS.json

CASES is a list of {"template": text, "context": object}; RESULTS has for each
{"output": text} or {"error": message}. Without jinja2 it exits with 77.
"""

import json
import sys

try:
    import jinja2
    import jinja2.sandbox
except ImportError:
    print("no module jinja2", file=sys.stderr)
    sys.exit(77)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value):
    return json.dumps(value, ensure_ascii=False)


def make_environment():
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    return environment


def render(environment, case):
    try:
        template = environment.from_string(case["template"])
        return {"output": template.render(**case["context"])}
    except Exception as error:  # What a template may raise has no common base.
        return {"error": f"{type(error).__name__}: {error}"}


def main():
    environment = make_environment()
    results = [render(environment, case) for case in json.load(sys.stdin)]
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
