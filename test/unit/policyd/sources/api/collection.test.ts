import assert from "node:assert/strict";
import process from "node:process";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { Collection } from "../../../../../policyd/sources/api/collection.ts";
import { Interner } from "../../../../../policyd/sources/api/interner.ts";

/** A long part of a label's name. */
const NAME = Array(4).fill("n".repeat(60)).join(".");

function service(externalIPs: readonly string[], annotations: Readonly<Record<string, string>> = {}): object {
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: "web", namespace: "shop", annotations },
    spec: { externalIPs },
  };
}

describe("source/api: the objects of one kind", () => {
  it("DAEMON-02 DAEMON-01: each problem of an object is reported once, until it has gone and come back", () => {
    const collection = new Collection({ kind: "Service", apiVersion: "v1" }, new Interner());
    const put = (object: object): readonly string[] => {
      collection.put(object);
      return collection.takeNewProblems().map(({ text }) => /"(\w+)"/.exec(text)?.[1] ?? text);
    };
    assert.deepEqual(put(service(["a", "b"])), ["a", "b"]);
    assert.deepEqual(put(service(["a", "b"], { note: "touched" })), []);
    assert.deepEqual(put(service(["a", "c"])), ["c"]);
    assert.deepEqual(put(service(["a", "b"])), ["b"]);
    assert.equal(collection.problems().length, 2);
    assert.deepEqual(put(service([])), []);
    assert.deepEqual(collection.problems(), []);
    assert.deepEqual(put(service(["a"])), ["a"]);
  });

  it("API-25: large labels of a pod that change all the time do not stay in memory", () => {
    const collection = new Collection({ kind: "Pod", apiVersion: "v1" }, new Interner());
    setFlagsFromString("--expose-gc");
    const memory = (): number => {
      runInNewContext("gc()");
      return process.memoryUsage().heapUsed;
    };
    /** Sets labels of 300 kB, and returns the memory afterwards. */
    const relabelled = (versions: number): number => {
      for (let version = 0; version < versions; version++) {
        const labels = Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`${i}.${NAME}/x`, `v${version}`]));
        const metadata = { name: "web", namespace: "shop", labels };
        collection.put({ apiVersion: "v1", kind: "Pod", metadata, spec: {}, status: {} });
        collection.takeChanges();
      }
      return memory();
    };
    const before = relabelled(2);
    const grown = relabelled(60) - before;
    assert.ok(grown < 5e6, `${Math.round(grown / 1e6)} MB`);
  });
});
