// The flags that the programs' sources name.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "./render.mjs";

function flagsOf(...folders) {
  const found = new Set();
  const files = folders.flatMap((folder) =>
    readdirSync(join(root, folder)).map((name) => join(root, folder, name)));
  for (const file of files) {
    if (!file.endsWith(".cc")) continue;
    const source = readFileSync(file, "utf8");
    for (const [, flag] of source.matchAll(/"(--[a-z-]+)["!,]/g)) found.add(flag);
    for (const [, kind] of source.matchAll(/AddClientFlags\(app, "([a-z]+)"/g)) {
      for (const what of ["ca", "cert", "key", "name"]) found.add(`--${kind}-${what}`);
    }
  }
  return found;
}

export const flags = {
  "bole-scheduler": flagsOf("scheduler_service"),
  "bole-worker": flagsOf("worker_service", "worker_service/engine",
    "worker_service/loading", "worker_service/serving"),
};
