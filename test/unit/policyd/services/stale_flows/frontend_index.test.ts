import assert from "node:assert/strict";
import { parseAddress } from "../../../../../kernel/ip/address.ts";
import { FrontendIndex } from "../../../../../policyd/services/stale_flows/frontend_index.ts";
import type { ServedFrontend } from "../../../../../policyd/services/stale_flows/served_frontends.ts";

const ID = "4 1 udp 53";

function frontend(...targets: readonly string[]): ReadonlyMap<string, ServedFrontend> {
  return new Map([
    [ID, { family: 4, frontend: { type: "cluster", address: parseAddress("10.96.0.1"), port: 53 }, targets }],
  ]);
}

/** The frontends that are suspected once the rules are in force: where flows may go, and where they no longer may. */
function suspicions(
  index: FrontendIndex,
): readonly (readonly [string, readonly string[] | undefined, readonly string[]])[] {
  index.ripen();
  return [...index.take()].map(([id, { targets, former }]) => [id, targets && [...targets], [...former]]);
}

describe("services/stale_flows: the index of frontends", () => {
  it("an endpoint that leaves several is a former target, and the others stay targets", () => {
    const index = new FrontendIndex();
    index.replace("a/b", frontend("10.0.0.1 53", "10.0.0.2 53", "10.0.0.3 53"));
    assert.deepEqual(suspicions(index), [[ID, ["10.0.0.1 53", "10.0.0.2 53", "10.0.0.3 53"], []]], "the first targets");
    index.replace("a/b", frontend("10.0.0.1 53", "10.0.0.3 53", "10.0.0.4 53"));
    assert.deepEqual(suspicions(index), [[ID, ["10.0.0.1 53", "10.0.0.3 53", "10.0.0.4 53"], ["10.0.0.2 53"]]]);
    index.replace("a/b", frontend("10.0.0.1 53", "10.0.0.3 53", "10.0.0.4 53", "10.0.0.5 53"));
    assert.deepEqual(suspicions(index), []);
  });

  it("all endpoints are former targets when none is left or the Service is gone", () => {
    const index = new FrontendIndex();
    index.replace("a/b", frontend("10.0.0.1 53", "10.0.0.2 53"));
    suspicions(index);
    index.replace("a/b", frontend());
    assert.deepEqual(suspicions(index), [[ID, [], ["10.0.0.1 53", "10.0.0.2 53"]]]);
    index.replace("a/b", frontend("10.0.0.1 53", "10.0.0.2 53"));
    suspicions(index);
    index.replace("a/b", new Map());
    assert.deepEqual(suspicions(index), [[ID, undefined, ["10.0.0.1 53", "10.0.0.2 53"]]]);
    assert.equal(index.has(ID), false);
  });

  it("a target matches only by its whole address and port, as the Service is now", () => {
    const index = new FrontendIndex();
    const has = (...targets: readonly string[]): readonly boolean[] =>
      targets.map((target) => index.hasTarget(ID, target));
    index.replace("a/b", frontend("10.0.0.1 53", "10.0.0.2 531"));
    assert.deepEqual(has("10.0.0.1 53", "10.0.0.2 531"), [true, true]);
    assert.deepEqual(has("0.0.0.1 53", "10.0.0.2 53", "10.0.0.3 53"), [false, false, false]);
    assert.equal(index.hasTarget("4 2 udp 53", "10.0.0.1 53"), false);
    index.replace("a/b", frontend());
    assert.deepEqual(has("10.0.0.1 53"), [false]);
  });
});
