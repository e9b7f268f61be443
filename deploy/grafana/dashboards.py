#!/usr/bin/env python3
"""Writes Grafana's dashboards, deploy/helm/bole/files/dashboards/*.json.

  dashboards.py          writes them
  dashboards.py --check  exits with 1 if they are not what it would write

A dashboard is a list of rows, a row a list of panels. Ids of dashboards are
their names, so that links to them last.
"""

import json
import pathlib
import sys

OUT = (pathlib.Path(__file__).parent.parent / "helm" / "bole" / "files" /
       "dashboards")
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
MODEL = 'namespace=~"$namespace",model=~"$model"'
ALL = 'namespace=~"$namespace"'
WIDTH = 24  # Of Grafana's grid.
HEIGHT = 8


def panel(title, unit, targets, *, low=0, high=None, about="", stack=False):
    """A graph. `targets`: pairs of a query and a legend. `low` and `high`: what
    no value is beyond; the tests hold the data against them."""
    bounds = {key: value for key, value in [("min", low), ("max", high)]
              if value is not None}
    return {
        "type": "timeseries",
        "title": title,
        "description": about,
        "datasource": DATASOURCE,
        "fieldConfig": {
            "defaults": {
                "unit": unit, **bounds,
                "custom": {
                    "lineWidth": 1,
                    "fillOpacity": 20 if stack else 0,
                    "showPoints": "never",
                    "stacking": {"mode": "normal" if stack else "none"},
                },
            },
            "overrides": [],
        },
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom"},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "targets": [
            {"refId": chr(ord("A") + i), "datasource": DATASOURCE,
             "expr": query, "legendFormat": legend}
            for i, (query, legend) in enumerate(targets)],
    }


def rate(name, labels=MODEL, by="model"):
    return f"sum by ({by}) (rate({name}{{{labels}}}[$__rate_interval]))"


def over(upper, lower):
    """A ratio that is absent where nothing happens."""
    return f"{upper} / ({lower} > 0)"


def quantiles(name, shares):
    return [(f"histogram_quantile({share}, "
             f"{rate(name + '_bucket', by='model, le')})",
             f"{{{{model}}}} p{round(100 * share)}") for share in shares]


def mean(name, by="model", labels=MODEL):
    return over(rate(name + "_sum", labels, by),
                rate(name + "_count", labels, by))


def gauge(name, by, labels=ALL, of="sum"):
    return f"{of} by ({by}) ({name}{{{labels}}})"


USERS = [
    ("What users wait for", [
        panel("Time to first token", "s",
              quantiles("bole_time_to_first_token_seconds", [.5, .95, .99]),
              high=3600),
        panel("Time between tokens", "s",
              quantiles("bole_inter_token_latency_seconds", [.5, .95, .99]),
              high=60, about="Time between rounds over their tokens: once for "
                             "each token."),
        panel("Whole answers", "s",
              quantiles("bole_e2e_request_latency_seconds", [.5, .95]),
              high=7200),
        panel("Time in the queue", "s",
              quantiles("bole_queue_time_seconds", [.5, .95]) +
              [(mean("bole_queue_time_seconds"), "{{model}} mean")],
              high=3600, about="From the arrival to the first round. Workers "
                               "are scaled by its mean."),
    ]),
    ("Throughput", [
        panel("Output tokens", "suffix: tok/s",
              [(rate("bole_generation_tokens_total"), "{{model}}")],
              high=1e7),
        panel("Prompt tokens", "suffix: tok/s",
              [(rate("bole_prompt_tokens_total"), "{{model}} prompts"),
               (rate("bole_prefill_tokens_total"), "{{model}} run")],
              high=1e7, about="Run: what the cache did not have, and what was "
                              "run again after a displacement."),
        panel("Requests that ended", "reqps",
              [(rate("bole_requests_total", by="model, code"),
                "{{model}} {{code}}")], stack=True),
        panel("Requests that are here", "short",
              [(gauge("bole_requests_running", "model", MODEL),
                "{{model}} running"),
               (gauge("bole_requests_waiting", "model", MODEL),
                "{{model}} waiting"),
               (f"sum(bole_open_requests{{{ALL}}})", "open calls")]),
    ]),
    ("What is refused, and how texts end", [
        panel("Refused", "reqps",
              [(rate("bole_rejected_total", ALL, "reason"), "{{reason}}")],
              stack=True),
        panel("Share of requests that failed", "percentunit",
              [(over(rate("bole_requests_total",
                          MODEL + ',code=~"INTERNAL|UNAVAILABLE|UNKNOWN|'
                          'UNIMPLEMENTED|DATA_LOSS|ABORTED"'),
                     rate("bole_requests_total")), "{{model}}")], high=1,
              about="By no fault of their clients."),
        panel("Ends", "reqps",
              [(rate("bole_finished_requests_total", by="model, reason"),
                "{{model}} {{reason}}")], stack=True),
        panel("Mean lengths", "suffix: tok",
              [(mean("bole_request_prompt_tokens"), "{{model}} prompts"),
               (mean("bole_request_generation_tokens"), "{{model}} outputs")]),
        panel("Output tokens by tenant", "suffix: tok/s",
              [(rate("bole_tenant_tokens_total", ALL + ',kind="generation"',
                     "tenant"), "{{tenant}}")],
              about="Counted when a request ends."),
        panel("Output in memory", "bytes",
              [(gauge("bole_output_bytes", "state"), "{{state}}")],
              about="What clients have not taken yet, or is kept for complete "
                    "messages."),
    ]),
]

SPECULATION = [
    ("Budgets", [
        panel("Nodes of a round: budget and selected", "suffix: nodes",
              [(over(rate("bole_verify_budget_nodes_total"),
                     rate("bole_round_seconds_count",
                          MODEL + ',phase="engine"')), "{{model}} budget"),
               (over(rate("bole_verify_nodes_selected_total"),
                     rate("bole_round_seconds_count",
                          MODEL + ',phase="engine"')), "{{model}} selected")],
              high=65536, about="Roots included."),
        panel("What rounds draft", "percentunit",
              [(f"{rate('bole_policy_rounds_total', by='choice')} / on () "
                "group_left () (sum(rate(bole_policy_rounds_total{" + MODEL +
                "}[$__rate_interval])) > 0)", "{{choice}}")],
              high=1, stack=True),
        panel("Why nothing is drafted", "suffix: rounds/s",
              [(rate("bole_policy_rounds_total", MODEL + ',choice="off"',
                     "model, reason"), "{{model}} {{reason}}")], stack=True),
        panel("Workers whose table of costs is missing or stale", "short",
              [(gauge("bole_policy_fallback", "reason"), "{{reason}}")]),
    ]),
    ("Acceptance", [
        panel("Tokens of a verification", "suffix: tok",
              [("1 + " + over(rate("bole_spec_accepted_tokens_total"),
                              rate("bole_spec_rounds_total")), "{{model}}")],
              low=1, high=17, about="The model's own included."),
        panel("Acceptance by depth", "percentunit",
              [(over(rate("bole_spec_accepted_tokens_per_depth_total",
                          by="model, depth"),
                     rate("bole_spec_verified_trees_per_depth_total",
                          by="model, depth")), "{{model}} {{depth}}")],
              high=1, about="Of the trees that had a node at a depth, those "
                            "that were accepted so far."),
        panel("Promised and accepted", "suffix: tok/s",
              [(rate("bole_spec_promised_tokens_total"), "{{model}} promised"),
               (rate("bole_spec_kept_tokens_total"), "{{model}} accepted")],
              about="What would be accepted if the drafter's probabilities "
                    "were right, and what was."),
        panel("Share of drafts that are accepted", "percentunit",
              [(over(rate("bole_spec_accepted_tokens_total"),
                     rate("bole_spec_draft_tokens_total")), "{{model}}")],
              high=1),
    ]),
    ("Rounds", [
        panel("Where a round's time goes", "s",
              [(mean("bole_round_seconds", "phase"), "{{phase}}")], high=600,
              stack=True, about="engine: in the worker; wire: between the "
                                "services; host: the scheduler, from a result "
                                "to the next plan."),
        panel("Predicted over measured", "none",
              [(mean("bole_policy_predicted_ratio"), "{{model}} mean"),
               (f"histogram_quantile(0.05, "
                f"{rate('bole_policy_predicted_ratio_bucket', by='model, le')})",
                "{{model}} p5"),
               (f"histogram_quantile(0.95, "
                f"{rate('bole_policy_predicted_ratio_bucket', by='model, le')})",
                "{{model}} p95")],
              high=100, about="Of rounds that were planned by a table of "
                              "costs. Far from 1, it is to be measured anew."),
        panel("Rounds", "suffix: rounds/s",
              [(rate("bole_round_seconds_count", MODEL + ',phase="engine"'),
                "{{model}}")]),
        panel("Rounds without a captured graph", "suffix: rounds/s",
              [(rate("bole_graph_misses_total", ALL, "instance"),
                "{{instance}}")],
              about="On a GPU: queued operator by operator."),
    ]),
]

CACHE = [
    ("Memory of the workers", [
        panel("KV pages", "suffix: pages",
              [(gauge("bole_worker_pages", "state"), "{{state}}")], stack=True,
              about="Held by requests, cached for later ones, free."),
        panel("State slots", "suffix: slots",
              [(gauge("bole_worker_slots", "state"), "{{state}}")],
              stack=True),
        panel("Share of pages that requests hold", "percentunit",
              [(over(gauge("bole_worker_pages", "worker",
                           ALL + ',state="held"'),
                     gauge("bole_worker_pages", "worker")), "{{worker}}")],
              high=1),
        panel("Memory allocated at start", "bytes",
              [(gauge("bole_worker_memory_bytes", "part"), "{{part}}")],
              stack=True, about="Of all workers together."),
    ]),
    ("Prefix cache", [
        panel("Share of prompt tokens that were there", "percentunit",
              [(over(rate("bole_prefix_cache_hits_tokens_total"),
                     rate("bole_prefix_cache_queries_tokens_total")),
                "{{model}}")], high=1),
        panel("Why no more was found", "reqps",
              [(rate("bole_prefix_cache_misses_total", by="reason"),
                "{{reason}}")], stack=True,
              about="cold: nobody began like this; below_granularity: too "
                    "short; evicted: it gave way; no_checkpoint: no state "
                    "between the tokens; salt: another tenant's; "
                    "other_worker: another worker had it."),
        panel("Checkpoints", "short",
              [(gauge("bole_prefix_cache_checkpoints", "worker"),
                "{{worker}} device"),
               (gauge("bole_prefix_cache_host_checkpoints", "worker"),
                "{{worker}} host")]),
        panel("Checkpoints that give way", "suffix: /s",
              [(rate("bole_prefix_cache_evicted_checkpoints", ALL, "worker"),
                "{{worker}} device"),
               (rate("bole_prefix_cache_host_evicted_checkpoints", ALL,
                     "worker"), "{{worker}} host")]),
    ]),
    ("Copies", [
        panel("Between device and host", "Bps",
              [(rate("bole_prefix_cache_host_written_bytes", ALL, "worker"),
                "{{worker}} to the host"),
               (rate("bole_prefix_cache_host_read_bytes", ALL, "worker"),
                "{{worker}} back")]),
        panel("On the device", "suffix: /s",
              [(rate("bole_worker_copies_total", ALL, "kind"), "{{kind}}")]),
    ]),
]

FLEET = [
    ("Workers", [
        panel("Workers that are connected", "short",
              [("sum(max by (namespace, worker) "
                f"(bole_worker_up{{{ALL}}}))", "up"),
               ("count(max by (namespace, worker) "
                f"(bole_worker_up{{{ALL}}}))", "known"),
               ("sum(max by (namespace, worker) "
                f"(bole_worker_draining{{{ALL}}}))", "draining")]),
        panel("Requests on each worker", "short",
              [(gauge("bole_worker_requests", "worker, stage"),
                "{{worker}} {{stage}}")], stack=True),
        panel("Time of a plan in the engine", "s",
              [("histogram_quantile(0.95, " +
                rate("bole_step_seconds_bucket", ALL, "instance, le") + ")",
                "{{instance}} p95")], high=600),
        panel("Plans that were run or refused", "suffix: /s",
              [(rate("bole_worker_steps_total", ALL, "instance"),
                "{{instance}}"),
               (rate("bole_plans_refused_total", ALL, "reason"),
                "refused: {{reason}}")]),
    ]),
    ("Requests that move", [
        panel("Places that were lost", "reqps",
              [(rate("bole_migrations_total", ALL, "reason"), "{{reason}}")],
              stack=True, about="lost: with the worker; evicted: for pages; "
                                "preempted: for another tenant; drained: the "
                                "worker left."),
        panel("Workers of a shared pool", "short",
              [(gauge("bole_pool_workers", "state", MODEL), "{{state}}")],
              about="Of schedulers with --peers or --share."),
        panel("Schedulers", "short",
              [(gauge("bole_schedulers", "state", of="max"), "{{state}}")],
              about="As the scheduler that counts most sees them."),
        panel("Workers claimed and given back", "suffix: /s",
              [(rate("bole_workers_claimed_total", ALL, "instance"),
                "{{instance}} claimed"),
               (rate("bole_workers_given_back_total", ALL, "instance"),
                "{{instance}} given back")]),
    ]),
    ("Processes", [
        panel("Processor", "none",
              [(f'rate(process_cpu_seconds_total{{{ALL},job=~".*bole.*"}}'
                "[$__rate_interval])", "{{instance}}")], high=4096,
              about="Cores."),
        panel("Memory", "bytes",
              [(f'process_resident_memory_bytes{{{ALL},job=~".*bole.*"}}',
                "{{instance}}")]),
        panel("Time since the start", "s",
              [(f'time() - process_start_time_seconds{{{ALL},'
                'job=~".*bole.*"}', "{{instance}}")]),
        panel("Certificates end in", "s",
              [(f"min by (instance, use) "
                f"(bole_certificate_expiry_timestamp_seconds{{{ALL}}}) - "
                "time()", "{{instance}} {{use}}")], low=None),
        panel("Open file descriptors", "percentunit",
              [(f'process_open_fds{{{ALL},job=~".*bole.*"}} / '
                f'process_max_fds{{{ALL},job=~".*bole.*"}}',
                "{{instance}}")], high=1),
        panel("Versions", "short",
              [(f"count by (service, version) (bole_build_info{{{ALL}}})",
                "{{service}} {{version}}")]),
    ]),
]

DASHBOARDS = {
    "bole-users": ("Bole: users", USERS),
    "bole-speculation": ("Bole: speculation", SPECULATION),
    "bole-cache": ("Bole: memory and cache", CACHE),
    "bole-fleet": ("Bole: fleet", FLEET),
}


def variable(name, label, query):
    return {
        "name": name, "label": label, "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": query, "refId": name},
        "definition": query, "refresh": 2, "sort": 1,
        "includeAll": True, "multi": True, "allValue": ".*",
        "current": {"selected": True, "text": "All", "value": "$__all"},
    }


def laid_out(rows):
    """The panels with their places and numbers."""
    panels, y = [], 0
    for title, row in rows:
        panels.append({"type": "row", "title": title, "collapsed": False,
                       "panels": [],
                       "gridPos": {"h": 1, "w": WIDTH, "x": 0, "y": y}})
        y += 1
        for at, graph in enumerate(row):
            width = WIDTH // 2
            panels.append(graph | {"gridPos": {
                "h": HEIGHT, "w": width, "x": width * (at % 2),
                "y": y + HEIGHT * (at // 2)}})
        y += HEIGHT * ((len(row) + 1) // 2)
    return [one | {"id": number} for number, one in enumerate(panels, 1)]


def dashboard(uid, title, rows):
    return {
        "uid": uid, "title": title, "tags": ["bole"],
        "schemaVersion": 38, "version": 1, "editable": False,
        "timezone": "", "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "links": [{"type": "dashboards", "tags": ["bole"], "asDropdown": True,
                   "title": "Bole", "includeVars": True, "keepTime": True}],
        "templating": {"list": [
            {"name": "datasource", "label": "Prometheus",
             "type": "datasource", "query": "prometheus",
             "current": {"text": "default", "value": "default"}},
            variable("namespace", "Namespace",
                     "label_values(bole_build_info, namespace)"),
            variable("model", "Model",
                     f"label_values(bole_requests_running{{{ALL}}}, model)"),
        ]},
        "panels": laid_out(rows),
    }


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    status = 0
    for uid, (title, rows) in DASHBOARDS.items():
        path = OUT / f"{uid}.json"
        text = json.dumps(dashboard(uid, title, rows), indent=1) + "\n"
        if not check:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print(f"{path} is not what deploy/grafana/dashboards.py writes")
            status = 1
    sys.exit(status)


if __name__ == "__main__":
    main()
