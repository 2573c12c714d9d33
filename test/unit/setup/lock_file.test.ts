import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import * as v from "valibot";

const names = v.optional(v.record(v.string(), v.string()), {});
const lockFileSchema = v.object({
  packages: v.record(
    v.string(),
    v.object({ integrity: v.optional(v.string()), resolved: v.optional(v.string()), optionalDependencies: names }),
  ),
});

describe("setup: the lock file", () => {
  const text = readFileSync(new URL("../../../package-lock.json", import.meta.url), "utf8");
  const { packages } = v.parse(lockFileSchema, JSON.parse(text));
  const installed = Object.entries(packages).filter(([place]) => place !== "");

  it("has an entry for every optional package it names, without which npm 11 refuses `npm ci`", () => {
    const absent = installed
      .flatMap(([, entry]) => Object.keys(entry.optionalDependencies))
      .filter((name) => packages[`node_modules/${name}`] === undefined);
    assert.deepEqual(absent, [], "remove these names from package-lock.json: they are for machines we do not support");
  });

  it("fixes every package by its hash, and none by an address", () => {
    for (const [place, { integrity, resolved }] of installed) {
      assert.match(integrity ?? "", /^sha512-/, place);
      assert.equal(resolved, undefined, place);
    }
  });
});
