import assert from "node:assert/strict";
import { Collection } from "../../../../../policyd/sources/api/collection.ts";
import { Interner } from "../../../../../policyd/sources/api/interner.ts";

function service(externalIPs: readonly string[], annotations: Readonly<Record<string, string>> = {}): object {
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: "web", namespace: "shop", annotations },
    spec: { externalIPs },
  };
}

describe("source/api: the objects of one kind", () => {
  it("API-07 DAEMON-01: each problem of an object is reported once, until it has gone and come back", () => {
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
});
