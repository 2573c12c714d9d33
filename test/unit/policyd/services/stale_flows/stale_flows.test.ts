import assert from "node:assert/strict";
import { parseAddress } from "../../../../../kernel/ip/address.ts";
import type { SetDifference } from "../../../../../policyd/ruleset/difference.ts";
import { INET_TABLE } from "../../../../../policyd/ruleset/table_part.ts";
import { endpointMaps } from "../../../../../policyd/services/rules/endpoint_maps.ts";
import { manifest, NODE, setUp, VIP, withEndpoints } from "../../../../support/services/stale_flow_machine.ts";
import { udpEntry } from "../../../../support/services/udp_entry.ts";

describe("services/stale_flows: the time of a round", () => {
  const flow = udpEntry([VIP, 53], ["10.244.1.2", 5353]);

  it("SVC-27: flows are checked only when the rules are in force, in a separate turn", async () => {
    const { stale, state, tell, inForce, pass, settle } = setUp([flow]);
    tell(withEndpoints("10.244.1.2"));
    await settle();
    assert.equal(state.entries.length, 1);
    tell(withEndpoints("10.244.1.3"));
    await pass(60_000);
    assert.equal(state.rounds.length, 0);
    inForce();
    assert.equal(state.rounds.length, 0);
    await pass(0);
    assert.deepEqual([state.rounds.length, state.entries.length, stale.deleted], [1, 0, 1]);
    await pass(60_000);
    assert.equal(state.rounds.length, 1);
  });

  it("SVC-27: a Service that is deleted and created again during a round keeps its flows", async () => {
    for (const isGoneBefore of [true, false]) {
      const { state, tell, remove, inForce, pass, settle } = setUp();
      const [toFormer, toLatter] = [flow, udpEntry([VIP, 53], ["10.244.1.9", 5353])];
      tell(withEndpoints("10.244.1.2", "10.244.1.3"));
      await settle();
      state.entries = [toFormer];
      if (isGoneBefore) remove("a");
      else tell(withEndpoints("10.244.1.2"));
      inForce();
      state.during = () => {
        remove("a");
        tell(withEndpoints("10.244.1.2", "10.244.1.9"));
        inForce();
        state.entries = [...state.entries, toLatter];
        state.during = () => {};
      };
      await pass(5000);
      assert.deepEqual(state.entries, [toFormer, toLatter], `gone before: ${isGoneBefore}`);
    }
  });

  it("SVC-27 CLAIM-05: flows to a node port are judged by that port's endpoints, whatever changes in a Service whose external IP claims the port in vain", async () => {
    const { tell, settle, areDeleted } = setUp();
    const [good, dead] = ["10.244.1.2", "10.244.1.3"];
    const claiming = (address: string, externalIPs = [NODE]): string =>
      manifest("b", "10.96.0.11", [{ address }], {
        externalIPs,
        ports: [{ name: "dns", port: 30_053, protocol: "UDP" }],
      });
    const [living, stale] = [good, dead].map((address) => udpEntry([NODE, 30_053], [address, 5353]));
    assert.ok(living !== undefined && stale !== undefined);
    for (const change of [claiming(good), claiming(dead), claiming(good, []), claiming(dead, [])]) {
      tell(withEndpoints(good, dead) + claiming(good));
      await settle();
      tell(withEndpoints(good) + change);
      assert.deepEqual(await areDeleted(living, stale), [false, true], change);
    }
  });

  it("SVC-27: a round that the kernel refuses is reported and retried until it succeeds", async () => {
    const { stale, state, tell, remove, inForce, pass } = setUp([flow]);
    tell(withEndpoints("10.244.1.2"));
    remove("a");
    state.refuses = true;
    inForce();
    await pass(3000);
    assert.ok(state.rounds.length >= 3);
    assert.deepEqual(stale.problems(), ["stale UDP flows: no answer; it is tried again"]);
    tell(withEndpoints("10.244.1.9"));
    remove("a");
    inForce();
    state.entries = [flow, udpEntry([VIP, 53], ["10.244.1.9", 5353])];
    await pass(3000);
    state.refuses = false;
    await pass(1000);
    assert.deepEqual([state.entries.length, stale.problems()], [0, []]);
  });

  it("SVC-27: after the start all flows are checked, also of frontends that went while no daemon was running", async () => {
    const gone = udpEntry(["10.96.0.77", 99], ["10.244.9.9", 1000]);
    const byPort = udpEntry([NODE, 30_099], ["10.244.9.9", 1000]);
    const foreign = udpEntry(["10.96.0.77", 99], ["10.244.9.8", 1000]);
    const tcpKey = udpEntry(["10.96.0.78", 99], ["10.244.9.9", 1000]);
    const kept = udpEntry([VIP, 53], ["10.244.1.3", 5353]);
    const { state, tell, inForce, pass } = setUp([flow, gone, byPort, foreign, tcpKey, kept]);
    tell(withEndpoints("10.244.1.3"));
    const number = (text: string): number => Number(parseAddress(text));
    const difference = (name: string, key: readonly (string | number)[]): SetDifference => {
      const set = endpointMaps().sets.find((one) => one.name === name) ?? assert.fail(name);
      const table = { ...INET_TABLE, sets: [], chains: [] };
      const deleted = [{ key, data: [number("10.244.9.9"), 1000] }];
      return { table, set, deleted, added: [], addedKeys: [], addedKept: [] };
    };
    inForce(true, [
      difference("service4_2", [number("10.96.0.77"), "udp", 99, 1]),
      difference("service4_1", [number("10.96.0.78"), "tcp", 99]),
      difference("local_port4_1", ["udp", 30_099]),
    ]);
    await pass(0);
    assert.deepEqual(state.entries, [foreign, tcpKey, kept]);
    state.entries = [flow];
    inForce(true);
    await pass(2000);
    assert.deepEqual(state.entries, [], "also after another program's change, by which no Service has changed");
  });

  it("after stop no round runs", async () => {
    const { stale, state, tell, inForce, pass } = setUp();
    tell(withEndpoints("10.244.1.2"));
    inForce();
    stale.stop();
    await pass(5000);
    assert.equal(state.rounds.length, 0);
  });
});
