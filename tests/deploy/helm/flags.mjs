// The flags that the programs' sources name.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "./render.mjs";

function flagsOf(folder) {
  const found = new Set();
  for (const name of readdirSync(join(root, folder))) {
    if (!name.endsWith(".cc")) continue;
    const source = readFileSync(join(root, folder, name), "utf8");
    for (const [, flag] of source.matchAll(/"(--[a-z-]+)["!,]/g)) found.add(flag);
    for (const [, kind] of source.matchAll(/AddClientFlags\(app, "([a-z]+)"/g)) {
      for (const what of ["ca", "cert", "key", "name"]) found.add(`--${kind}-${what}`);
    }
  }
  return found;
}

export const flags = {
  "bole-scheduler": flagsOf("scheduler_service"),
  "bole-worker": flagsOf("worker_service"),
};
