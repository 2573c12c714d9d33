import assert from "node:assert/strict";
import { keyTypes } from "../../../../kernel/nftables/encode/element.ts";
import { formatKey } from "../../../../kernel/nftables/text/element_text.ts";
import type { DesiredElement } from "../../../../policyd/ruleset/desired/desired_element.ts";
import { tunnelGuard, tunnelNodes } from "../../../../policyd/node/tables/tunnel_guard.ts";
import { openTunnelGuard } from "../../../../policyd/node/tunnel_guard.ts";
import { NodeJudge } from "../../../../objects/nodes/node_judge.ts";
import type { ObjectChange } from "../../../../objects/model.ts";
import { readScenario } from "../../../support/services/scenario.ts";

const sets = [...tunnelNodes().sets, ...tunnelGuard("drawbridge0").sets];
const typesOf = (name: string) => keyTypes(sets.find((set) => set.name === name)?.key ?? assert.fail(name));

describe("policyd/node/tunnel_guard", () => {
  /** The claims of each owner, after each change of a Node's addresses. */
  function guard(encapsulation: "auto" | "never" = "auto") {
    const claims = new Map<string, readonly string[]>();
    let count = 0;
    const claim = (owner: string, of: readonly DesiredElement[]): void => {
      count++;
      claims.set(
        owner,
        of.map(({ set, element }) => `${set} ${formatKey(typesOf(set), element.key)}`),
      );
    };
    const component = openTunnelGuard({ encapsulation }, { claim }, new NodeJudge({ nodeName: "a" }));
    const put = (name: string, ...addresses: readonly (readonly [type: string, address: string])[]): void => {
      const status = { addresses: addresses.map(([type, address]) => ({ type, address })) };
      const text = JSON.stringify({ apiVersion: "v1", kind: "Node", metadata: { name }, status });
      const set = (object: ReturnType<typeof readScenario>[number]): ObjectChange => {
        return { type: "set", kind: object.kind, key: object.key, object };
      };
      component.apply(readScenario(text).map(set));
    };
    return { component, put, claims: () => [...claims.values()].flat().sort(), count: () => count };
  }

  it("GUARD-09: the ends of the tunnel follow the Nodes, and a heartbeat changes nothing", () => {
    const { component, put, claims, count } = guard();
    put("a", ["InternalIP", "192.0.2.1"], ["InternalIP", "2001:db8::1"], ["ExternalIP", "198.51.100.1"]);
    put("b", ["InternalIP", "192.0.2.2"]);
    const all = [
      "tunnel_nodes4 192.0.2.1",
      "tunnel_nodes4 192.0.2.2",
      "tunnel_nodes4 198.51.100.1",
      "tunnel_nodes6 2001:db8::1",
      "tunnel_peers4 192.0.2.1",
      "tunnel_peers4 192.0.2.2",
      "tunnel_peers6 2001:db8::1",
    ];
    assert.deepEqual(claims(), all);
    const before = count();
    put("b", ["InternalIP", "192.0.2.2"]);
    assert.equal(count(), before);
    component.apply([{ type: "delete", kind: "Node", key: "a" }]);
    assert.deepEqual(claims(), ["tunnel_nodes4 192.0.2.2", "tunnel_peers4 192.0.2.2"]);
    put("b");
    assert.deepEqual(claims(), []);
  });

  it("GUARD-09: an address that no node can have lets no sender in", () => {
    const { put, claims } = guard();
    put(
      "a",
      ["InternalIP", "127.0.0.1"],
      ["InternalIP", "169.254.1.1"],
      ["InternalIP", "224.0.0.1"],
      ["InternalIP", "::1"],
    );
    assert.deepEqual(claims(), []);
  });

  it("GUARD-17: without a tunnel of our own the addresses of nodes are claimed, and no ends of a tunnel", () => {
    const { put, claims } = guard("never");
    put("a", ["InternalIP", "192.0.2.1"], ["ExternalIP", "198.51.100.1"]);
    assert.deepEqual(claims(), ["tunnel_nodes4 192.0.2.1", "tunnel_nodes4 198.51.100.1"]);
  });
});
