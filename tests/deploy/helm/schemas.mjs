// The schemas of Kubernetes and of what is installed into it, as their npm
// packages have them, closed: a field that a schema does not name is an error.
import { readFileSync } from "node:fs";
import { createRequire, Module } from "node:module";
import Ajv from "ajv";

const require = createRequire(import.meta.url);

// {id: schema} and {"apiVersion kind": id}, as the packages register them.
const schemas = new Map();
const ids = new Map();

function setSchema(model, id, addSchema) {
  addSchema();
  ids.set(`${model.apiVersion} ${model.kind}`, id);
}

class Model {
  static setSchema = setSchema;
}

// The packages' own validation leaves unknown fields alone, so they get these
// in place of it.
const inPlaceOf = {
  "@kubernetes-models/validate": {
    register: (id, schema) => schemas.set(id, schema),
  },
  "@kubernetes-models/base": {
    Model, setSchema, createTypeMetaGuard: () => () => true,
  },
};
const load = Module._load;
Module._load = (request, ...rest) =>
  inPlaceOf[request] ?? load(request, ...rest);

for (const part of [
  "kubernetes-models/apps/v1",
  "kubernetes-models/autoscaling/v2",
  "kubernetes-models/networking.k8s.io/v1",
  "kubernetes-models/policy/v1",
  "kubernetes-models/v1",
  "@kubernetes-models/cert-manager/cert-manager.io/v1",
  "@kubernetes-models/gateway-api/gateway.networking.k8s.io/v1",
  "@kubernetes-models/gateway-api/gateway.networking.k8s.io/v1alpha2",
  "@kubernetes-models/keda/keda.sh/v1alpha1",
  "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1",
]) {
  require(part);
}

// GRPCRoute became v1 as it was in v1alpha2.
const alpha = ids.get("gateway.networking.k8s.io/v1alpha2 GRPCRoute");
const grpcRoute = structuredClone(schemas.get(alpha));
grpcRoute.properties.apiVersion.enum = ["gateway.networking.k8s.io/v1"];
schemas.set("GRPCRoute", grpcRoute);
ids.set("gateway.networking.k8s.io/v1 GRPCRoute", "GRPCRoute");

// No package has it.
schemas.set("InferencePool", JSON.parse(readFileSync(
  new URL("inference_pool.schema.json", import.meta.url), "utf8")));
ids.set("inference.networking.k8s.io/v1 InferencePool", "InferencePool");

function close(schema) {
  if (Array.isArray(schema)) return schema.map(close);
  if (schema === null || typeof schema !== "object") return schema;
  const closed = Object.fromEntries(
    Object.entries(schema).map(([key, value]) => [key, close(value)]));
  if (schema.properties !== undefined && schema.type === "object" &&
      schema.additionalProperties === undefined &&
      !schema["x-kubernetes-preserve-unknown-fields"]) {
    closed.additionalProperties = false;
  }
  return closed;
}

const ajv = new Ajv({
  strict: false,
  allErrors: true,
  // What is not here, such as "date-time", is not checked.
  formats: {
    int32: true, int64: true, double: true, byte: true,
    "date-time": true, ipv4: true, ipv6: true,
    quantity: /^[+-]?(\d+|\d+\.\d*|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?$/,
  },
});
for (const [id, schema] of schemas) ajv.addSchema({ ...close(schema), $id: id });

// Of the schema's alternatives "null" is not what was meant.
const isNoise = (error) =>
  ["oneOf", "anyOf"].includes(error.keyword) || error.params.type === "null";

// What is wrong with an object: "PATH: WHY" each.
export function problemsOf(object) {
  const kind = `${object.apiVersion} ${object.kind}`;
  if (!ids.has(kind)) return [`/: there is no schema of ${kind}`];
  const validate = ajv.getSchema(ids.get(kind));
  if (validate(object)) return [];
  const told = validate.errors.filter((error) => !isNoise(error));
  return (told.length > 0 ? told : validate.errors).map((error) =>
    `${error.instancePath}: ${error.message}` +
    (error.params.additionalProperty
      ? ` (${error.params.additionalProperty})` : ""));
}
