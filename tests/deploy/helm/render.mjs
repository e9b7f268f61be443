// Renders the chart of the tree with the program of render/.
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

// Set by run.sh: the root of the tree, and the program.
const { BOLE_ROOT, BOLE_RENDER } = process.env;
export const root = BOLE_ROOT;
export const chart = join(root, "deploy/helm/bole");
export const examples = ["laptop", "eight_gpus", "two_models"];

function run(values, flags) {
  const folder = mkdtempSync(join(tmpdir(), "bole_values."));
  try {
    const files = [values].flat().map((value, i) => {
      if (typeof value === "string") {
        return join(root, `deploy/helm/examples/${value}.yaml`);
      }
      const file = join(folder, `${i}.yaml`);
      writeFileSync(file, JSON.stringify(value));
      return file;
    });
    return spawnSync(BOLE_RENDER,
      [...flags, ...files.flatMap((file) => ["-f", file]), chart],
      { encoding: "utf8", maxBuffer: 1 << 28 });
  } finally {
    rmSync(folder, { recursive: true });
  }
}

// What comes of values, each of which is an example's name or an object, the
// later above the earlier.
export function text(values, ...flags) {
  const result = run(values, flags);
  if (result.status !== 0) throw new Error(result.stderr);
  return result.stdout;
}

export const objects = (values, ...flags) =>
  JSON.parse(text(values, "-json", ...flags)).map(({ object }) => object);

// Why values are refused, or "" if they are not.
export function refusal(values) {
  const result = run(values, []);
  return result.status === 0 ? "" : result.stderr;
}

// Values that turn on everything which examples may leave off.
export const everything = {
  images: { registry: "registry.test:5000", pullSecrets: ["pull"] },
  commonLabels: { team: "llm" },
  tls: { enabled: true, certManager: { enabled: true } },
  scheduler: {
    replicas: 2, extraArgs: ["--max-running=64"], podLabels: { a: "b" },
    podAnnotations: { c: "d" }, nodeSelector: { e: "f" },
    tolerations: [{ key: "g", operator: "Exists" }],
    extraEnv: [{ name: "H", value: "i" }],
    extraVolumes: [{ name: "j", emptyDir: {} }],
    extraVolumeMounts: [{ name: "j", mountPath: "/j" }],
    priorityClassName: "high", service: { annotations: { k: "l" } },
    affinity: { podAntiAffinity: {} },
    topologySpreadConstraints: [{
      maxSkew: 2, topologyKey: "zone", whenUnsatisfiable: "DoNotSchedule",
    }],
  },
  models: [
    { name: "a", source: { pvc: { claimName: "models" } } },
    { name: "b", source: { image: { reference: "r.test/m:1", path: "/m" } } },
    { name: "c", source: { init: { image: "r.test/f:2", command: ["f"] } } },
    { name: "demo", source: { builtin: {} } },
  ],
  pools: [
    { name: "a", model: "a", gpu: { count: 1 }, preStopSeconds: 3,
      extraVolumes: [{ name: "j", emptyDir: {} }],
      extraVolumeMounts: [{ name: "j", mountPath: "/j" }],
      autoscaling: { kind: "hpa" },
      calibration: { volume: { storageClass: "fast" } } },
    { name: "b", model: "b", autoscaling: { kind: "keda" },
      calibration: { volume: { persistent: false } } },
    { name: "c", model: "c", calibration: { configMap: { name: "costs" } } },
    { name: "d", model: "demo", calibration: { enabled: false },
      engine: { context: 1048576, pages: 2000000 } },
  ],
  serviceAccount: { annotations: { m: "n" } },
  networkPolicy: { extraEgress: [{ ports: [{ port: 443, protocol: "TCP" }] }] },
  serviceMonitor: { enabled: true, labels: { release: "p" } },
  prometheusRule: { enabled: true },
  dashboards: { enabled: true, annotations: { folder: "Bole" } },
  ingress: {
    http: { enabled: true, host: "a.test", tlsSecret: "ingress", className: "x" },
    grpc: { enabled: true, host: "*.b.test", annotations: { o: "p" } },
  },
  gateway: {
    http: { enabled: true, parentRefs: [{ name: "g" }], hostnames: ["a.test"] },
    grpc: { enabled: true, parentRefs: [{ name: "g" }], hostnames: ["b.test"] },
  },
  inferencePool: { enabled: true },
};

// Every set of values that checks of objects go through, by name.
export const cases = {
  defaults: [],
  ...Object.fromEntries(examples.map((name) => [name, [name]])),
  everything: [everything],
  "without HTTP": [{ scheduler: { http: { enabled: false } } }],
  "secrets of one's own": [{
    tls: { enabled: true, secrets: { door: "d", worker: "w", link: "l" } },
  }],
};
