import assert from "node:assert/strict";
import { parseAddress } from "../../../../kernel/ip/address.ts";
import type { DesiredElement } from "../../../../policyd/ruleset/desired/desired_element.ts";
import { KnownPaths } from "../../../../policyd/node/tables/path_mtu_guard.ts";

describe("policyd/node: nodes to which no router is on the way", () => {
  it("ENDS-06: each node on the link has an element while it is there", () => {
    const claimed: [owner: string, sets: readonly string[]][] = [];
    const claim = (owner: string, claims: readonly DesiredElement[]): void => {
      claimed.push([owner, claims.map(({ set }) => set)]);
    };
    const paths = new KnownPaths({ claim });
    const [first, second] = ["192.0.2.1", "2001:db8::2"].map((text) => parseAddress(text));
    assert.ok(first !== undefined && second !== undefined);
    paths.set(new Set([first, second]));
    assert.deepEqual(claimed.splice(0), [
      ["path to 192.0.2.1", ["on_link_pair4"]],
      ["path to 2001:db8::2", ["on_link_pair6"]],
    ]);
    paths.set(new Set([first, second]));
    assert.deepEqual(claimed.splice(0), []);
    paths.set(new Set([second]));
    assert.deepEqual(claimed.splice(0), [["path to 192.0.2.1", []]]);
  });
});
