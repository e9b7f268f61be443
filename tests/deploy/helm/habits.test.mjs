// What charts of servers of models often get wrong.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { flags } from "./flags.mjs";
import { cases, objects, root } from "./render.mjs";

const each = (what, check) => {
  for (const [name, values] of Object.entries(cases)) {
    test(`${what}: ${name}`, () => check(objects(values), name));
  }
};

const of = (made, ...kinds) => made.filter(({ kind }) => kinds.includes(kind));
const named = (object) => `${object.kind} ${object.metadata.name}`;

// Every pod that is made, with the name of what makes it.
const pods = (made) => of(made, "Deployment", "StatefulSet", "Pod").map(
  (object) => object.kind === "Pod"
    ? { name: named(object), labels: object.metadata.labels, spec: object.spec }
    : { name: named(object), labels: object.spec.template.metadata.labels,
        spec: object.spec.template.spec });

const containers = ({ spec }) => [...spec.initContainers ?? [], ...spec.containers];
const matches = (labels, selector) => Object.entries(selector ?? {}).every(
  ([key, value]) => labels[key] === value);
const flag = (container, name) => container.args
  .find((arg) => arg.startsWith(`${name}=`))?.slice(name.length + 1);

each("every port is named, listened on and probed", (made) => {
  for (const pod of pods(made)) {
    for (const container of pod.spec.containers) {
      const ports = container.ports ?? [];
      for (const { name, containerPort } of ports) {
        assert.match(name, /^[a-z]{1,15}$/, pod.name);
        assert.ok(container.args.some((arg) =>
          arg.includes("listen=") && arg.endsWith(`:${containerPort}`)),
        `${pod.name} has port ${name}, and no flag that opens it`);
      }
      const opened = container.args?.filter((arg) => /listen=.*:\d+$/.test(arg)) ?? [];
      assert.equal(opened.length, ports.length, pod.name);
      if (ports.length === 0) continue;
      const health = flag(container, "--health-listen").split(":").pop();
      for (const probe of ["startupProbe", "livenessProbe", "readinessProbe"]) {
        assert.equal(container[probe]?.grpc.port, Number(health), `${pod.name} ${probe}`);
      }
      // Liveness is the process alone: a scheduler without workers is not to
      // be restarted. Readiness is the service.
      assert.equal(container.livenessProbe.grpc.service, undefined, pod.name);
      assert.match(container.readinessProbe.grpc.service, /^bole\./, pod.name);
    }
  }
});

each("slow loads are not killed", (made) => {
  for (const object of of(made, "StatefulSet")) {
    const { failureThreshold, periodSeconds } =
      object.spec.template.spec.containers[0].startupProbe;
    assert.ok(failureThreshold * periodSeconds >= 120, named(object));
  }
});

each("the grace period is longer than what it is for", (made) => {
  for (const object of of(made, "Deployment", "StatefulSet")) {
    const { spec } = object.spec.template;
    const [container] = spec.containers;
    const drain = Number(flag(container, "--drain-seconds"));
    const sleep = Number(container.lifecycle?.preStop.exec.command[1] ?? 0);
    assert.ok(drain > 0, named(object));
    if (object.kind === "Deployment") assert.ok(sleep > 0, named(object));
    assert.ok(spec.terminationGracePeriodSeconds >= drain + sleep + 10, named(object));
  }
});

each("no image can change under its name", (made) => {
  for (const pod of pods(made)) {
    for (const { name, image } of containers(pod)) {
      assert.match(image, /(:v?\d[\w.-]*|@sha256:[0-9a-f]{64})$/, `${pod.name} ${name}`);
    }
  }
});

each("no pod has a privilege", (made) => {
  for (const pod of pods(made)) {
    const { spec } = pod;
    assert.equal(spec.securityContext.runAsNonRoot, true, pod.name);
    assert.ok(spec.securityContext.runAsUser > 0, pod.name);
    assert.equal(spec.securityContext.seccompProfile.type, "RuntimeDefault", pod.name);
    assert.equal(spec.automountServiceAccountToken, false, pod.name);
    for (const key of ["hostNetwork", "hostPID", "hostIPC"]) {
      assert.equal(spec[key], undefined, pod.name);
    }
    for (const container of containers(pod)) {
      assert.deepEqual(container.securityContext, {
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ["ALL"] },
      }, `${pod.name} ${container.name}`);
    }
    for (const { name, hostPath } of spec.volumes ?? []) {
      if (!hostPath) continue;
      for (const container of containers(pod)) {
        const mount = container.volumeMounts.find((m) => m.name === name);
        assert.equal(mount?.readOnly ?? true, true, `${pod.name} writes ${hostPath.path}`);
      }
    }
  }
  assert.deepEqual(of(made, "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"), []);
});

each("every container asks for memory and processors", (made) => {
  for (const pod of pods(made)) {
    for (const { name, resources } of containers(pod)) {
      assert.ok(resources.requests.cpu && resources.requests.memory, `${pod.name} ${name}`);
    }
    for (const { name, resources } of pod.spec.containers) {
      assert.ok(resources.limits.memory, `${pod.name} ${name}`);
    }
  }
});

each("every mount has its volume, and every volume is mounted", (made) => {
  for (const object of of(made, "Deployment", "StatefulSet")) {
    const { spec } = object.spec.template;
    const volumes = [...spec.volumes, ...(object.spec.volumeClaimTemplates ?? [])
      .map(({ metadata }) => metadata)].map(({ name }) => name);
    const mounts = containers({ spec }).flatMap((c) => c.volumeMounts.map((m) => m.name));
    assert.deepEqual([...new Set(mounts)].sort(), volumes.sort(), named(object));
  }
});

// Secrets that whoever installs the chart makes, by where values name them.
const documented = {
  "auth.existingSecret": ["bole-tokens", "fleet-tokens"],
  "images.pullSecrets": ["pull", "registry-credentials"],
  "tls.secrets": ["d", "w", "l"],
  "ingress.http.tlsSecret": ["ingress"],
  "ingress.grpc.tlsSecret": ["llm-ingress-tls"],
  "models": ["checkpoint-credentials"],
};

each("every Secret exists or is documented", (made) => {
  const known = new Set([
    ...of(made, "Secret").map(({ metadata }) => metadata.name),
    ...of(made, "Certificate").map(({ spec }) => spec.secretName),
    ...Object.values(documented).flat(),
  ]);
  const used = [
    ...pods(made).flatMap(({ spec }) => [
      ...(spec.volumes ?? []).map(({ secret }) => secret?.secretName),
      ...(spec.imagePullSecrets ?? []).map(({ name }) => name),
      ...containers({ spec }).flatMap((container) => [
        ...(container.envFrom ?? []).map(({ secretRef }) => secretRef?.name),
        ...(container.env ?? []).map(({ valueFrom }) => valueFrom?.secretKeyRef?.name),
      ]),
    ]),
    ...of(made, "Ingress").flatMap(({ spec }) => (spec.tls ?? []).map((t) => t.secretName)),
    ...of(made, "Issuer").map(({ spec }) => spec.ca?.secretName),
  ].filter((name) => name !== undefined);
  for (const name of used) assert.ok(known.has(name), `Secret ${name}`);
});

test("the README tells of every Secret that one makes", () => {
  const readme = readFileSync(join(root, "deploy/helm/bole/README.md"), "utf8");
  for (const value of Object.keys(documented)) {
    assert.ok(readme.includes(`\`${value}`), value);
  }
  for (const key of ["tokens", "peer-token", "test-token"]) {
    assert.ok(readme.includes(`\`${key}\``), key);
  }
});

each("what is referred to is there", (made, name) => {
  const all = pods(made);
  for (const service of of(made, "Service")) {
    const chosen = all.filter(({ labels }) => matches(labels, service.spec.selector));
    assert.equal(chosen.length, 1, named(service));
    const open = chosen[0].spec.containers[0].ports.map((port) => port.name);
    for (const { name: port, targetPort } of service.spec.ports) {
      assert.ok(open.includes(targetPort), `${named(service)} ${port}`);
    }
  }
  for (const object of of(made, "PodDisruptionBudget")) {
    assert.equal(all.filter(({ labels }) =>
      matches(labels, object.spec.selector.matchLabels)).length, 1, named(object));
  }
  for (const object of of(made, "HorizontalPodAutoscaler", "ScaledObject")) {
    const target = made.find((o) => o.kind === object.spec.scaleTargetRef.kind &&
      o.metadata.name === object.spec.scaleTargetRef.name);
    assert.ok(target, named(object));
    assert.equal(target.spec.replicas, undefined, `${named(object)} and its target disagree`);
  }
  const services = of(made, "Service").map(({ metadata }) => metadata.name);
  for (const object of of(made, "ServiceMonitor")) {
    const chosen = of(made, "Service").filter(({ metadata, spec }) =>
      matches(metadata.labels, object.spec.selector.matchLabels) &&
      spec.ports.some((port) => port.name === object.spec.endpoints[0].port));
    assert.ok(chosen.length > 0 && chosen.every(({ spec }) => spec.clusterIP === "None"),
      named(object));
  }
  // Of the flags of schedulers, too.
  const [scheduler] = of(made, "Deployment");
  const flags = scheduler.spec.template.spec.containers[0].args;
  const hosts = flags.filter((arg) => /^--(worker|peers)=/.test(arg))
    .map((arg) => arg.replace(/^--\w+=/, ""));
  assert.ok(hosts.length >= of(made, "StatefulSet").length, name);
  for (const host of hosts) {
    const [service, namespace, svc] = host.split(":")[0].split(".");
    assert.ok(services.includes(service), host);
    assert.deepEqual([namespace, svc], ["llm", "svc"]);
    assert.equal(made.find((o) => o.kind === "Service" && o.metadata.name === service)
      .spec.clusterIP, "None", `${host} is one address for many`);
  }
});

each("only schedulers reach workers, and nobody is let in by accident", (made) => {
  const policies = of(made, "NetworkPolicy");
  const [deny] = policies.filter(({ spec }) => !spec.ingress && !spec.egress);
  for (const pod of pods(made)) {
    assert.ok(matches(pod.labels, deny.spec.podSelector.matchLabels), pod.name);
  }
  assert.deepEqual(deny.spec.policyTypes, ["Ingress", "Egress"]);
  for (const policy of policies) {
    for (const rule of policy.spec.ingress ?? []) {
      assert.ok(rule.from.length > 0 && rule.ports.length > 0, named(policy));
      if (!rule.ports.some(({ port }) => port === "worker")) continue;
      assert.deepEqual(rule.from.map(({ podSelector }) =>
        podSelector.matchLabels["app.kubernetes.io/component"]), ["scheduler"]);
    }
  }
});

each("a rolling update cannot wait for itself", (made) => {
  // A new scheduler may find that the old ones hold all workers.
  const [{ spec }] = of(made, "Deployment");
  assert.ok(spec.strategy.rollingUpdate.maxUnavailable >= 1);
});

each("nothing is null or left empty", (made) => {
  const look = (part, path) => {
    assert.notEqual(part, null, path);
    assert.notEqual(part, "", path);
    if (typeof part !== "object") return;
    for (const [key, value] of Object.entries(part)) look(value, `${path}.${key}`);
  };
  for (const object of made) look(object, named(object));
});

each("programs know their flags", (made) => {
  for (const object of of(made, "Deployment", "StatefulSet")) {
    const [container] = object.spec.template.spec.containers;
    for (const arg of container.args) {
      assert.ok(flags[container.command[0]].has(arg.split("=")[0]), `${named(object)} ${arg}`);
    }
  }
});
