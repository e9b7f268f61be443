// What the chart makes is what Kubernetes takes, and a misspelt field is not.
import assert from "node:assert/strict";
import test from "node:test";
import { cases, objects } from "./render.mjs";
import { problemsOf } from "./schemas.mjs";

for (const [name, values] of Object.entries(cases)) {
  test(`objects of ${name} are valid`, () => {
    const made = objects(values);
    assert.ok(made.length >= 10, `${made.length} objects`);
    const problems = made.flatMap((object) => problemsOf(object).map(
      (problem) => `${object.kind} ${object.metadata.name}${problem}`));
    assert.deepEqual(problems, []);
  });
}

test("every kind of the chart is made by everything", () => {
  const kinds = new Set(objects(cases.everything).map(({ kind }) => kind));
  for (const kind of [
    "Certificate", "Deployment", "GRPCRoute", "HTTPRoute",
    "HorizontalPodAutoscaler", "InferencePool", "Ingress", "Issuer",
    "NetworkPolicy", "Pod", "PodDisruptionBudget", "ScaledObject", "Service",
    "ServiceAccount", "ServiceMonitor", "StatefulSet",
  ]) {
    assert.ok(kinds.has(kind), kind);
  }
});

// [kind, path to what holds the field, the field, its misspelling]
const misspellings = [
  ["Deployment", ["spec", "template", "spec"], "terminationGracePeriodSeconds", "terminationGracePeriod"],
  ["Deployment", ["spec", "template", "spec", "containers", 0], "readinessProbe", "readynessProbe"],
  ["StatefulSet", ["spec"], "podManagementPolicy", "podManagmentPolicy"],
  ["StatefulSet", ["spec", "template", "spec", "securityContext"], "runAsNonRoot", "runAsNonroot"],
  ["Service", ["spec"], "publishNotReadyAddresses", "publishUnreadyAddresses"],
  ["NetworkPolicy", ["spec"], "policyTypes", "policyType"],
  ["HorizontalPodAutoscaler", ["spec"], "maxReplicas", "maxReplica"],
  ["PodDisruptionBudget", ["spec"], "maxUnavailable", "maxUnavailible"],
  ["ServiceMonitor", ["spec"], "namespaceSelector", "nameSpaceSelector"],
  ["Certificate", ["spec"], "renewBefore", "renewBeforeExpiry"],
  ["ScaledObject", ["spec"], "pollingInterval", "pollInterval"],
  ["HTTPRoute", ["spec", "rules", 0], "backendRefs", "backends"],
  ["GRPCRoute", ["spec", "rules", 0, "matches", 0, "method"], "service", "servicename"],
  ["InferencePool", ["spec"], "endpointPickerRef", "extensionRef"],
];

for (const [kind, path, field, misspelling] of misspellings) {
  test(`${kind} with ${misspelling} for ${field} is refused`, () => {
    const made = objects(cases.everything).filter((o) => o.kind === kind);
    const at = (object) => path.reduce((part, key) => part?.[key], object);
    const object = made.find((o) => at(o)?.[field] !== undefined);
    assert.ok(object, `no ${kind} has ${path.join(".")}.${field}`);
    assert.deepEqual(problemsOf(object), []);
    const holder = at(object);
    holder[misspelling] = holder[field];
    delete holder[field];
    const problems = problemsOf(object);
    assert.ok(problems.some((problem) => problem.includes(misspelling) &&
      problem.startsWith(`/${path.join("/")}:`)), problems.join("\n"));
  });
}
