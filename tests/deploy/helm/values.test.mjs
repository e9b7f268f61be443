// Wrong values are refused, with their path and what is wrong with them.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { chart, objects, refusal, text } from "./render.mjs";

const pool = (values) => ({ pools: [{ name: "a", model: "demo", ...values }] });
const model = (source) => ({ models: [{ name: "demo", source }] });

// [values, what the refusal says]
const wrong = [
  [{ replicas: 2 }, "Additional property replicas is not allowed"],
  [{ scheduler: { replica: 2 } }, "scheduler: Additional property replica is not allowed"],
  [{ scheduler: { replicas: 0 } }, "scheduler.replicas: Must be greater than or equal to 1"],
  [{ scheduler: { replicas: "2" } }, "scheduler.replicas: Invalid type"],
  [{ scheduler: { replicas: 2 } }, "scheduler.replicas is 2: with tokens"],
  [{ scheduler: { policy: "fast" } }, "scheduler.policy: scheduler.policy must be one of"],
  [{ scheduler: { extraArgs: ["-v"] } }, "scheduler.extraArgs.0: Does not match"],
  [{ scheduler: { extraArgs: ["--listen=0.0.0.0:1"] } }, "scheduler.extraArgs: --listen=0.0.0.0:1 is set by the chart"],
  [{ scheduler: { service: { type: "ExternalName" } } }, "scheduler.service.type"],
  [{ scheduler: { resources: { limits: { memory: "4 GB" } } } }, "scheduler.resources.limits.memory: Does not match"],
  [{ images: { tag: "latest" } }, "images.tag"],
  [{ images: { worker: { digest: "sha256:12" } } }, "images.worker.digest: Does not match"],
  [{ auth: { existingSecret: "" } }, "auth.existingSecret is empty"],
  [{ auth: { existingSecret: "Not A Name" } }, "auth.existingSecret: Does not match"],
  [{ tls: { enabled: true } }, "tls.secrets.door is empty"],
  [{ tls: { enabled: true, secrets: { door: "d", link: "l" } } }, "tls.secrets.worker is empty"],
  [{ tls: { certManager: { enabled: true } } }, "tls.certManager.enabled is true, but tls.enabled is false"],
  [{ tls: { certManager: { duration: "90 days" } } }, "tls.certManager.duration: Does not match"],
  [{ models: [] }, "models: Array must have at least 1 items"],
  [model({}), "models.0.source: Must have at least 1 properties"],
  [model({ builtin: {}, hostPath: { path: "/m" } }), "models.0.source: Must have at most 1 properties"],
  [model({ hostPath: { path: "m" } }), "models.0.source.hostPath.path: Does not match"],
  [model({ pvc: {} }), "models.0.source.pvc: claimName is required"],
  [model({ image: { reference: "r.test/m:latest", path: "/m" } }), "models.0.source.image.reference"],
  [model({ image: { reference: "r.test/m", path: "/m" } }), "models.0.source.image.reference: Does not match"],
  [{ models: [{ name: "a b", source: { builtin: {} } }] }, "models.0.name: Does not match"],
  [{ models: [...Array(2)].map(() => ({ name: "demo", source: { builtin: {} } })) }, "models: demo is there twice"],
  [{ pools: [] }, "pools: Array must have at least 1 items"],
  [{ pools: [{ name: "a" }] }, "pools.0: model is required"],
  [{ pools: [...Array(2)].map(() => ({ name: "a", model: "demo" })) }, "pools: a is there twice"],
  [pool({ model: "none" }), "pools[0].model: none is none of the models demo"],
  [pool({ name: "thirteen-long" }), "pools.0.name: String length"],
  [pool({ name: "peers" }), "pools[0].name: peers is the name of something else"],
  [pool({ gpu: { count: 2 } }), "pools.0.gpu.count: Must be less than or equal to 1"],
  [pool({ gpus: 1 }), "pools.0: Additional property gpus is not allowed"],
  [pool({ engine: { memoryFraction: 1.5 } }), "pools.0.engine.memoryFraction: Must be less than or equal to 1"],
  [pool({ calibration: { size: "fine" } }), "pools.0.calibration.size"],
  [pool({ extraArgs: ["--cost-table=x"] }), "pools[0].extraArgs: --cost-table=x is set by the chart"],
  [pool({ autoscaling: { kind: "vpa" } }), "pools.0.autoscaling.kind"],
  [pool({ autoscaling: { minReplicas: 5 } }), "pools[0].autoscaling: minReplicas is 5, above maxReplicas 4"],
  [pool({ drainSeconds: -1 }), "pools.0.drainSeconds: Must be greater than or equal to 0"],
  [{ poolDefaults: { name: "a" } }, "poolDefaults"],
  [{ poolDefaults: { startupSeconds: 1 } }, "poolDefaults.startupSeconds: Must be greater than or equal to 5"],
  [{ security: { runAsUser: 0 } }, "security.runAsUser: Must be greater than or equal to 1"],
  [{ ingress: { http: { enabled: true } } }, "ingress.http.host is empty"],
  [{ gateway: { grpc: { enabled: true } } }, "gateway.grpc.parentRefs is empty"],
  [{ scheduler: { http: { enabled: false } }, inferencePool: { enabled: true } }, "scheduler.http.enabled is false"],
  [{ tests: { model: "none" } }, "tests.model: none is none of the models demo"],
  [{ serviceMonitor: { interval: "fast" } }, "serviceMonitor.interval: Does not match"],
];

for (const [values, said] of wrong) {
  test(`refused: ${JSON.stringify(values)}`, () => {
    const why = refusal(values);
    assert.ok(why.includes(said), why || "it is accepted");
  });
}

test("null takes a default away", () => {
  const [none, other] = [null, 7].map((id) => text({ security: { runAsUser: id, fsGroup: id } }));
  assert.ok(!/runAsUser|fsGroup:/.test(none) && /runAsGroup: 65532/.test(none));
  assert.ok(/runAsUser: 7\n/.test(other) && /fsGroup: 7\n/.test(other));
});

test("what is false or zero is above a default", () => {
  const made = text(pool({ calibration: { enabled: false }, threads: 0, replicas: 0 }));
  assert.ok(!made.includes("bole-calibrate-once"));
  assert.ok(!made.includes("--threads"));
  assert.match(made, /\n {2}replicas: 0\n/);
});

test("large numbers are written in full", () => {
  assert.match(text(pool({ engine: { context: 1048576 } })), /--context=1048576\n/);
});

test("the cache on the host comes on top of a worker's memory", () => {
  for (const [gib, memory, sum] of [
    [0, "2Gi", "2Gi"], [16, "2Gi", "18Gi"], [0.5, "1.5Gi", "2Gi"], [0.3, "2Gi", "2356Mi"],
    [1, "512Mi", "1536Mi"], [1, "1G", "1978Mi"], [1, 1073741825, "2049Mi"], [16384, "1Ti", "17408Gi"],
  ]) {
    const [worker] = objects(pool({ engine: { hostCacheGb: gib }, resources: {
      requests: { memory }, limits: { memory },
    } })).filter(({ kind }) => kind === "StatefulSet");
    const { initContainers, containers } = worker.spec.template.spec;
    for (const { resources } of [...initContainers, ...containers]) {
      const { requests, limits } = resources;
      assert.deepEqual([requests.memory, limits.memory], [sum, sum], `${memory} and ${gib} GiB`);
      assert.equal(requests.cpu, "2");
    }
  }
});

// Paths of an object's leaves; lists and free maps are leaves.
const leaves = (value, path = "") =>
  value !== null && typeof value === "object" && !Array.isArray(value) &&
  Object.keys(value).length > 0
    ? Object.entries(value).flatMap(([key, part]) => leaves(part, path ? `${path}.${key}` : key))
    : [path];

test("the schema has no door left open", () => {
  const schema = JSON.parse(readFileSync(join(chart, "values.schema.json"), "utf8"));
  const open = [];
  const look = (part, path) => {
    if (part === null || typeof part !== "object") return;
    if (part.properties && part.additionalProperties !== false) open.push(path);
    for (const [key, value] of Object.entries(part)) look(value, `${path}/${key}`);
  };
  look(schema, "");
  assert.deepEqual(open, []);
});

test("the README has every value, its default and what it is", () => {
  const readme = readFileSync(join(chart, "README.md"), "utf8");
  const rows = [...readme.matchAll(/^\| `([^`/]+)` \| (.*?)\| (.*)\|$/gm)]
    .map(([, path, value, what]) => [path, value.trim(), what.trim()]);
  const table = rows.slice(rows.findIndex(([path]) => path === "nameOverride"));
  const values = JSON.parse(text([], "-values"));
  const at = (path) => path.split(".").reduce((part, key) => part?.[key], values);
  const said = new Set(table.map(([path]) => path));
  assert.deepEqual(leaves(values).filter((path) =>
    !path.split(".").some((_, i, parts) => said.has(parts.slice(0, i + 1).join(".")))), []);
  for (const [path, value, what] of table) {
    assert.notEqual(at(path), undefined, `${path} is no value`);
    assert.notEqual(what, "", path);
    if (value === "see `values.yaml`") continue;
    const plain = at(path);
    assert.equal(value, plain === "" ? "" :
      `\`${typeof plain === "string" ? plain : JSON.stringify(plain)}\``, path);
  }
});
