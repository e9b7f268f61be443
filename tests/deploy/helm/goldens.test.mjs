// What the examples make is what is kept of them, and the files of the chart
// come out as they are.
import assert from "node:assert/strict";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { spawnSync } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { chart, examples, root, text } from "./render.mjs";

const folder = join(root, "tests/golden/helm");
const remake = process.env.BOLE_REMAKE === "1";

// Rules and dashboards are checked below.
const isFile = (document) =>
  /^# templates\/(dashboards|prometheusrules)\.yaml\n/.test(document);

function check(file, made) {
  const path = join(folder, file);
  if (remake) {
    mkdirSync(folder, { recursive: true });
    writeFileSync(path, made);
  }
  assert.equal(made, readFileSync(path, "utf8"),
    `${file} differs; tests/deploy/helm/run.sh --remake writes it anew`);
}

for (const name of examples) {
  test(`${name} makes what it made`, () => {
    const documents = text(name).split("---\n").filter((d) => d && !isFile(d));
    check(`${name}.yaml`, documents.map((document) => `---\n${document}`).join(""));
    check(`${name}.notes.txt`, text(name, "-notes"));
  });
}

test("nothing else is kept", () => {
  const kept = readdirSync(folder).filter((file) => /\.(yaml|txt)$/.test(file));
  assert.deepEqual(kept.sort(),
    examples.flatMap((name) => [`${name}.notes.txt`, `${name}.yaml`]).sort());
});

// Objects of a copy of the chart whose files are `files`.
function withFiles(files) {
  const copy = mkdtempSync(join(tmpdir(), "bole_chart."));
  try {
    cpSync(chart, copy, { recursive: true });
    rmSync(join(copy, "files"), { recursive: true, force: true });
    mkdirSync(join(copy, "files/dashboards"), { recursive: true });
    for (const [name, data] of Object.entries(files)) {
      writeFileSync(join(copy, "files", name), data);
    }
    const result = spawnSync(process.env.BOLE_RENDER, ["-json", "-f",
      join(root, "deploy/helm/examples/eight_gpus.yaml"), copy], { encoding: "utf8" });
    assert.equal(result.status, 0, result.stderr);
    return JSON.parse(result.stdout).map(({ object }) => object)
      .filter(({ kind }) => ["ConfigMap", "PrometheusRule"].includes(kind));
  } finally {
    rmSync(copy, { recursive: true });
  }
}

test("a chart without files makes nothing of them", () => {
  assert.deepEqual(withFiles({}), []);
});

test("templates of others are left alone", () => {
  const alert = { alert: "A", expr: "x > 1", annotations: { summary: "{{ $labels.worker }} is \"down\"" } };
  const groups = { groups: [{ name: "g", rules: [alert] }] };
  const dashboard = JSON.stringify({ title: "{{worker}} \\ \"é\"", uid: "u" }, null, 2);
  const made = withFiles({
    "alerts.yaml": JSON.stringify(groups),
    "dashboards/bole-the_users.json": dashboard,
  });
  assert.deepEqual(made.map(({ metadata }) => metadata.name).sort(),
    ["test-bole-alerts", "test-bole-dashboard-the-users"]);
  const [map] = made.filter(({ kind }) => kind === "ConfigMap");
  assert.deepEqual(map.data, { "bole-the_users.json": dashboard });
  assert.equal(map.metadata.labels.grafana_dashboard, "1");
  const [rule] = made.filter(({ kind }) => kind === "PrometheusRule");
  assert.deepEqual(rule.spec, groups);
});
