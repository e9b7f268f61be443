#!/usr/bin/python3
"""Rules, dashboards and metrics against what the services really export.

  watch_test.py [--pictures FOLDER] [--write-table] [unittest's arguments]

Two simulated workers and a scheduler run a load for half a minute, and Debian's
Prometheus watches them with the tree's configuration: every rule and every
query of a dashboard gives something, within its bounds. --pictures also draws
the dashboards, as deploy/grafana/pictures has them; --write-table writes what
is exported into METRICS.md before it is compared.
"""

import hashlib
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True

import yaml

from observed import (COSTS, ROOT, Prometheus, System, certificate, draw,
                      eventually, in_root, metric_names)
from metrics_table import table

FILES = ROOT / "deploy/helm/bole/files"
SCALE = 1 / 30  # 5 minutes are 10 seconds.
INTERVAL = 10   # Seconds, for the windows of dashboards.
LOAD_SECONDS = 25  # Before anything is looked at; the load goes on then.
PICTURES = None
WRITES_TABLE = False

# What has no series unless something happens that does not happen here.
RARE = {"bole_worker_failures_total", "bole_graph_misses_total"}


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def rules_of(file):
    return [rule for group in yaml.safe_load(file.read_text())["groups"]
            for rule in group["rules"]]


class FilesTest(unittest.TestCase):
    """What can be checked without services."""

    def assert_runs(self, *command):
        code, output = run(*command)
        self.assertEqual(code, 0, output)

    def test_promtool_accepts_the_configuration_and_the_rules(self):
        self.assert_runs("promtool", "check", "config",
                         "deploy/prometheus/prometheus.yml")
        self.assert_runs("promtool", "check", "rules", "--lint-fatal",
                         FILES / "rules.yaml", FILES / "alerts.yaml")

    def test_rules_have_the_values_that_were_worked_out(self):
        self.assert_runs("promtool", "test", "rules",
                         "tests/deploy/prometheus/rules_test.yaml",
                         "tests/deploy/prometheus/alerts_test.yaml")

    def test_every_alert_is_tested_and_has_all_that_people_need(self):
        tests = yaml.safe_load(
            (ROOT / "tests/deploy/prometheus/alerts_test.yaml").read_text())
        tested = [test["name"] for test in tests["tests"]]
        runbook = (ROOT / "deploy/prometheus/RUNBOOK.md").read_text()
        entries = dict(re.findall(r"^## (Bole\w+)\n(.*?)(?=^## |\Z)", runbook,
                                  re.MULTILINE | re.DOTALL))
        alerts = [rule for rule in rules_of(FILES / "alerts.yaml")]
        for alert in alerts:
            name = alert["alert"]
            with self.subTest(name):
                self.assertIn(name, tested)
                self.assertIn(alert["labels"]["severity"],
                              ["critical", "warning", "info"])
                for annotation in ["summary", "description"]:
                    self.assertGreater(len(alert["annotations"][annotation]),
                                       20)
                self.assertEqual(
                    alert["annotations"]["runbook_url"],
                    f"deploy/prometheus/RUNBOOK.md#{name.lower()}")
                for part in ["Meaning", "Look at", "Do"]:
                    self.assertRegex(entries.get(name, ""),
                                     rf"(?m)^\*\*{part}\.\*\* \S.{{20}}")
        self.assertEqual(set(entries), {alert["alert"] for alert in alerts})

    def test_times_are_scaled_and_links_written(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assert_runs("deploy/prometheus/render_rules.py", folder,
                             "--scale", "0.1", "--runbooks", "https://a.b/c/")
            self.assert_runs("promtool", "check", "rules",
                             f"{folder}/rules.yaml", f"{folder}/alerts.yaml")
            scaled = rules_of(pathlib.Path(folder) / "alerts.yaml")
        by_name = {rule["alert"]: rule for rule in scaled}
        full = by_name["BoleQueueFull"]
        self.assertEqual(full["for"], "30000ms")
        self.assertIn("[30000ms]", full["expr"])
        self.assertEqual(full["annotations"]["runbook_url"],
                         "https://a.b/c/deploy/prometheus/RUNBOOK.md"
                         "#bolequeuefull")

    def test_rules_and_dashboards_ask_for_metrics_that_there_are(self):
        told = set(re.findall(r"^\| `([\w:]+)` ",
                              (ROOT / "deploy/prometheus/METRICS.md")
                              .read_text(), re.MULTILINE)) | {"up"}
        rules = rules_of(FILES / "rules.yaml")
        told |= {rule["record"] for rule in rules}
        told |= {name + suffix for name in told
                 for suffix in ["_bucket", "_sum", "_count"]}
        asked = {rule["expr"] for rule in
                 rules + rules_of(FILES / "alerts.yaml")}
        asked |= {target["expr"] for dashboard in draw.dashboards()
                  for panel in draw.graphs(dashboard)
                  for target in panel["targets"]}
        names = set().union(*map(metric_names, asked))
        self.assertGreater(len(names), 60)
        self.assertEqual(names - told, set())

    def test_dashboards_are_what_their_program_writes(self):
        self.assert_runs("deploy/grafana/dashboards.py", "--check")

    def test_dashboards_can_be_linked_to_and_filtered(self):
        for dashboard in draw.dashboards():
            with self.subTest(dashboard["uid"]):
                self.assertRegex(dashboard["uid"], "^bole-[a-z]+$")
                names = [one["name"] for one in dashboard["templating"]["list"]]
                self.assertEqual(names, ["datasource", "namespace", "model"])
                ids = [panel["id"] for panel in dashboard["panels"]]
                self.assertEqual(len(ids), len(set(ids)))
                for panel in draw.graphs(dashboard):
                    for target in panel["targets"]:
                        self.assertIn('namespace=~"$namespace"',
                                      target["expr"], panel["title"])
        for file in sorted((ROOT / "deploy/grafana/provisioning").rglob("*")):
            if file.is_file():
                self.assertEqual(yaml.safe_load(file.read_text())["apiVersion"],
                                 1, file)


class LoadTest(unittest.TestCase):
    """A load, and what Prometheus knows of it."""

    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="bole-watch.")
        folder = pathlib.Path(cls.scratch.name)
        cert, key = certificate(folder, days=90)
        (folder / "token").write_text("secret\n")
        (folder / "tokens").write_text(
            hashlib.sha256(b"secret").hexdigest() +
            " blue generate,metrics,admin\n")
        worker = ["--costs", COSTS, "--tell-costs", "--accept", "0.8,0.7,0.6",
                  "--checkpoints", "24", "--host-slots", "16", "--host-pages",
                  "512", "--tls-cert", str(cert), "--tls-key", str(key)]
        cls.system = System(
            "load", [worker, worker],
            ["--share", "1/1", "--vllm-metric-names", "--tls-cert", str(cert),
             "--tls-key", str(key), "--worker-ca", str(cert),
             "--tokens", str(folder / "tokens")],
            ca=cert, token=folder / "token")
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.addClassCleanup(cls.system.stop)
        cls.system.wait_until_ready()
        cls.prometheus = Prometheus([cls.system], SCALE, shortest_window=5)
        cls.addClassCleanup(cls.prometheus.stop)
        cls.begin = time.time()
        # Twice the same prompts, so that the cache has something to find.
        for _ in range(2):
            cls.system.load("--synthetic", "300:60", "--shared-prefix", "128",
                            "--rate", "6", "--load-seed", "7", "-n", "3000",
                            "--duration", "300")
        time.sleep(LOAD_SECONDS)

    def test_every_target_is_scraped(self):
        up = self.prometheus.query('up{namespace="load"}')
        self.assertEqual([value for _, value in up], [1, 1, 1])

    def test_every_rule_gives_something(self):
        names = set()
        for rule in self.prometheus.rules():
            with self.subTest(rule["name"]):
                self.assertEqual((rule["health"], rule.get("lastError", "")),
                                 ("ok", ""))
                if rule["type"] == "alerting":
                    names |= metric_names(rule["query"])
                    continue
                values = [value for _, value in
                          self.prometheus.query(rule["name"])]
                self.assertTrue(values)
                self.assertTrue(all(map(math.isfinite, values)), values)
                if ":ratio" in rule["name"] and "promised" not in rule["name"]:
                    self.assertTrue(all(0 <= value <= 1 for value in values),
                                    values)
        # An alert that is silent says nothing, but what it looks at is there.
        for name in sorted(names - RARE):
            with self.subTest(name):
                self.assertTrue(self.prometheus.query(name))

    def test_a_load_that_goes_well_fires_no_alert(self):
        # A machine that others load is slower than the table says.
        loaded = {("BoleCalibrationStale", "load")}
        self.assertEqual(self.prometheus.firing() - loaded, set())

    def test_rules_agree_with_what_the_load_was(self):
        def value(name):
            (_, only), = self.prometheus.query(f"sum({name})")
            return only
        # Two loads of 6 a second.
        self.assertAlmostEqual(value('bole:requests:rate_5m{code="OK"}'), 12,
                               delta=5)
        self.assertAlmostEqual(value("bole:generation_tokens:rate_5m"), 12 * 60,
                               delta=300)
        self.assertGreater(value("bole:prefix_cache_hits:ratio_5m"), 0.2)
        # Told times are the real ones, to which a loaded machine adds.
        predicted = value("bole:policy_predicted_over_measured:mean_5m")
        self.assertGreater(predicted, 0.3)
        self.assertLess(predicted, 1.1)
        # The first level is accepted so often, where it is drafted.
        self.assertAlmostEqual(
            value('bole:spec_acceptance_by_depth:ratio_5m{depth="1"}'), 0.8,
            delta=0.1)
        remaining = self.prometheus.query("bole:certificate_remaining:seconds")
        self.assertEqual(len(remaining), 3)  # The scheduler's, two workers'.
        for _, seconds in remaining:
            self.assertAlmostEqual(seconds, 90 * 86400, delta=3600)

    def test_every_query_of_every_panel_gives_something_plausible(self):
        for dashboard in draw.dashboards():
            for panel in draw.graphs(dashboard):
                defaults = panel["fieldConfig"]["defaults"]
                for target in panel["targets"]:
                    query = draw.query_of(target, INTERVAL)
                    with self.subTest(panel["title"], query=query):
                        values = [value for _, value in
                                  self.prometheus.query(query)]
                        self.assertTrue(values)
                        for value in values:
                            self.assertGreaterEqual(
                                value, defaults.get("min", -math.inf))
                            self.assertLessEqual(
                                value, defaults.get("max", 1e12) + 1e-9)

    def test_metrics_md_is_what_the_services_export(self):
        page = {"scheduler": self.system.page(self.system.scheduler),
                "worker": self.system.page(self.system.workers[0])}
        file = ROOT / "deploy/prometheus/METRICS.md"
        text, exported = file.read_text(), "\n".join(table(page)) + "\n"
        start = text.index("| name |")
        if WRITES_TABLE:
            text = text[:start] + exported
            file.write_text(text)
        self.assertEqual(text[start:].splitlines(), exported.splitlines())

    def test_vllms_names_have_the_same_values(self):
        for ours, theirs in [
                ("bole_prompt_tokens_total", "vllm:prompt_tokens_total"),
                ("bole_time_to_first_token_seconds_count",
                 "vllm:time_to_first_token_seconds_count"),
                ("bole_spec_rounds_total",
                 "vllm:spec_decode_num_drafts_total")]:
            with self.subTest(theirs):
                both = self.prometheus.query(
                    f'label_replace({ours}, "model_name", "$1", "model", '
                    f'"(.*)") / on (model_name) {theirs}')
                (_, ratio), = both
                # Rounds go on while a scrape reads the one and then the other.
                self.assertAlmostEqual(ratio, 1, delta=0.02)

    def test_panels_can_be_drawn(self):
        out = PICTURES or pathlib.Path(self.scratch.name) / "pictures"
        drawn = draw.draw(self.prometheus.address, out,
                          (time.time() - self.begin) / 60, INTERVAL)
        self.assertEqual(len(drawn), 4)
        for path, dashboard in zip(drawn, draw.dashboards()):
            picture = path.read_text()
            for panel in draw.graphs(dashboard):
                self.assertIn(panel["title"], picture)
            self.assertLess(len(picture), 400_000)


if __name__ == "__main__":
    if "--pictures" in sys.argv:
        at = sys.argv.index("--pictures")
        PICTURES = pathlib.Path(sys.argv[at + 1]).resolve()
        del sys.argv[at:at + 2]
    if "--write-table" in sys.argv:
        WRITES_TABLE = True
        sys.argv.remove("--write-table")
    in_root()
    unittest.main()
