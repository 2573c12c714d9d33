import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import type { ConntrackFilter } from "../../../../kernel/conntrack/filter.ts";
import { cheapestLists, EVERY_FLOW } from "../../../../kernel/conntrack/flow_count.ts";
import { flowQuestions, isFlowOf } from "../../../../kernel/conntrack/flows_of_addresses.ts";
import { DrawbridgeError } from "../../../../kernel/error.ts";
import { type Address, formatAddress, parseAddress } from "../../../../kernel/ip/address.ts";
import { AddressCleanup } from "../../../../policyd/node/address_cleanup.ts";
import { udpEntry } from "../../../support/services/udp_entry.ts";

function addresses(...texts: readonly string[]): readonly Address[] {
  return texts.map((text) => parseAddress(text));
}

function setUp() {
  const journal: string[] = [];
  const state: { refusal: Error | undefined } = { refusal: undefined };
  const note = (what: string) => async (given: ReadonlySet<Address>) => {
    journal.push(`${what} ${[...given].map((address) => formatAddress(address)).join(" ")}`);
    if (state.refusal !== undefined) throw state.refusal;
  };
  return {
    journal,
    state,
    memory: new AddressCleanup({ forgetFlows: note("flows"), forgetClients: note("clients") }),
  };
}

describe("policyd/node: the memory of pods", () => {
  it("POD-20: addresses of one turn of the event loop are forgotten together, and each caller waits for it", async () => {
    const { journal, memory } = setUp();
    const asked = [memory.forget(addresses("10.244.1.2", "fd00::2")), memory.forget(addresses("10.244.1.3"))];
    assert.deepEqual(journal, []);
    await Promise.all(asked);
    assert.deepEqual(journal, ["flows 10.244.1.2 fd00::2 10.244.1.3", "clients 10.244.1.2 fd00::2 10.244.1.3"]);
    await memory.forget(addresses("10.244.1.4"));
    assert.equal(journal.length, 4);
    await memory.forget([]);
    await turn();
    assert.equal(journal.length, 4);
  });

  it("POD-20: all waiting callers get a refusal, and the next attempt is independent of it", async () => {
    const { state, memory } = setUp();
    state.refusal = new DrawbridgeError("ERR_NETLINK", "no answer");
    const outcomes = await Promise.allSettled([
      memory.forget(addresses("10.244.1.2")),
      memory.forget(addresses("10.244.1.3")),
    ]);
    assert.deepEqual(
      outcomes.map(({ status }) => status),
      ["rejected", "rejected"],
    );
    state.refusal = undefined;
    await memory.forget(addresses("10.244.1.2"));
  });

  it("POD-20: a pod's flows are those it began and those it answers, by addresses before or after NAT", () => {
    const pod = new Set(addresses("10.244.1.2"));
    const [address] = pod;
    assert.ok(isFlowOf(udpEntry(["10.96.0.1", 53], ["10.244.9.9", 53], address), pod));
    assert.ok(isFlowOf(udpEntry(["10.96.0.1", 53], ["10.244.1.2", 53]), pod));
    assert.ok(isFlowOf(udpEntry(["10.244.1.2", 53], ["10.244.1.2", 53]), pod));
    assert.ok(!isFlowOf(udpEntry(["10.96.0.1", 53], ["10.244.1.3", 53]), pod));
  });

  it("the flows of each IPv4 address are requested, and all of IPv6", () => {
    const [v4, v6] = [addresses("10.244.1.2"), addresses("fd00::2", "fd00::3")];
    const [source] = v4;
    const ofV4 = [{ original: { source } }, { reply: { source } }];
    assert.deepEqual(flowQuestions(new Set(v4)), ofV4);
    assert.deepEqual(flowQuestions(new Set([...v6, ...v4])), [...ofV4, { family: 6 }]);
  });

  it("flows are listed by filter where filters are few or flows are many, and the number of lists is bounded", () => {
    const filters = (count: number): readonly ConntrackFilter[] =>
      Array.from({ length: count }, (_, port) => ({ protocol: "udp", original: { destinationPort: port } }));
    const listed = (count: number, flows: number | undefined): number | "all" => {
      const lists = cheapestLists(filters(count), () => flows);
      return lists === EVERY_FLOW ? "all" : lists.length;
    };
    assert.deepEqual([listed(1, 1999), listed(1, 2000), listed(1, undefined)], ["all", 1, 1]);
    assert.deepEqual([listed(6, 6999), listed(6, 7000), listed(7, 1_000_000)], ["all", 6, "all"]);
    assert.equal(listed(0, 0), 0);
  });
});
