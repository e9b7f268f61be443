// deploy/docker: no privilege, no image that can change under its name, and
// nothing named that is not there.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { parse } from "yaml";
import { flags } from "./flags.mjs";
import { objects, root } from "./render.mjs";

const read = (name) => readFileSync(join(root, "deploy/docker", name), "utf8");
const compose = parse(read("compose.yaml"), { merge: true });
const { services } = compose;

// As `docker compose` fills in "${NAME:-default}".
const filled = (text) => text.replace(/\$\{\w+:-([^}]*)\}/g, "$1");

test("services of compose.yaml have no privilege", () => {
  for (const [name, service] of Object.entries(services)) {
    assert.match(service.user, /^[1-9]\d*:\d+$/, name);
    assert.equal(service.read_only, true, name);
    assert.deepEqual(service.cap_drop, ["ALL"], name);
    assert.deepEqual(service.security_opt, ["no-new-privileges:true"], name);
    assert.equal(service.privileged, undefined, name);
    assert.match(filled(service.image), /:v?\d+\.\d+\.\d+$/, name);
    for (const port of service.ports ?? []) assert.match(port, /^127\.0\.0\.1:/, name);
  }
});

test("services of compose.yaml are stopped later than they drain", () => {
  for (const name of ["worker", "scheduler"]) {
    const drain = services[name].command.find((arg) => arg.startsWith("--drain-seconds="));
    assert.ok(parseInt(services[name].stop_grace_period) > Number(drain.split("=")[1]) + 5, name);
  }
});

test("programs of compose.yaml know their flags", () => {
  for (const name of ["worker", "scheduler"]) {
    for (const arg of services[name].command) {
      assert.ok(flags[`bole-${name}`].has(arg.split("=")[0]), arg);
    }
  }
});

test("what compose.yaml mounts is there", () => {
  for (const [name, service] of Object.entries(services)) {
    for (const volume of service.volumes ?? []) {
      const [from, , mode] = filled(volume).split(":");
      if (!from.startsWith(".")) {
        assert.ok(from in compose.volumes, `${name}: ${from}`);
      } else {
        assert.equal(mode, "ro", `${name}: ${from}`);
        assert.ok(existsSync(join(root, "deploy/docker", from)), `${name}: ${from}`);
      }
    }
  }
});

test("Prometheus scrapes what compose.yaml opens", () => {
  const { scrape_configs: jobs } = parse(read("prometheus.yml"));
  const targets = jobs.flatMap((job) => job.static_configs[0].targets);
  assert.deepEqual(targets.sort(), ["scheduler:9400", "worker:9401"]);
  for (const target of targets) {
    const [service, port] = target.split(":");
    assert.ok(services[service].command.includes(`--metrics-listen=0.0.0.0:${port}`), target);
  }
});

// {stage: {INSTRUCTION: [text...]}}
function stagesOf(dockerfile) {
  const stages = {};
  let stage;
  const lines = dockerfile.replace(/^#.*\n/gm, "").replace(/\\\n/g, " ").split("\n");
  for (const line of lines.filter((l) => l.trim())) {
    const [, instruction, text] = line.match(/^([A-Z]+)\s+(.*)$/);
    if (instruction === "FROM") stages[text.split(" AS ")[1]] = stage = { FROM: [text] };
    else if (stage) (stage[instruction] ??= []).push(text);
  }
  return stages;
}

test("images run as a user without a name, and are asked how they are", () => {
  const { programs, "worker-cuda": cuda, ...images } = stagesOf(read("Dockerfile"));
  assert.ok(programs.RUN[0].includes("deploy/bundle.sh"));
  assert.deepEqual(Object.keys(cuda), ["FROM", "ENV"]);
  assert.deepEqual(cuda.FROM, ["worker AS worker-cuda"]);
  assert.deepEqual(Object.keys(images), ["scheduler", "worker"]);
  const ports = Object.fromEntries(objects([]).filter(({ kind }) =>
    ["Deployment", "StatefulSet"].includes(kind)).map(({ spec }) => {
    const [container] = spec.template.spec.containers;
    return [container.name, container.ports.map((port) => port.containerPort)];
  }));
  for (const [name, image] of Object.entries(images)) {
    assert.match(image.FROM[0], /^\$\{BASE\} AS /, name);
    assert.deepEqual(image.USER, ["65532:65532"], name);
    assert.equal(image.ADD, undefined, name);
    assert.deepEqual(image.EXPOSE[0].split(" ").map(Number), ports[name], name);
    assert.ok(image.ENTRYPOINT[0].includes(`bole-${name}`), name);
    const health = { scheduler: 8402, worker: 50053 }[name];
    assert.ok(image.HEALTHCHECK[0].includes(`"127.0.0.1:${health}"`), name);
  }
});

test("everything is of the tree's version", () => {
  const source = readFileSync(join(root, "common/version.h"), "utf8");
  const [, version] = source.match(/kVersion\[\] = "([^"]+)"/);
  const { appVersion, version: ofChart } =
    parse(readFileSync(join(root, "deploy/helm/bole/Chart.yaml"), "utf8"));
  assert.deepEqual([appVersion, ofChart], [version, version]);
  for (const name of ["calibrate", "worker", "scheduler"]) {
    assert.ok(filled(services[name].image).endsWith(`:${version}`), name);
  }
});
