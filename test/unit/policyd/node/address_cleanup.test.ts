import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
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
  const note = (what: string) => (given: ReadonlySet<Address>) => {
    journal.push(`${what} ${[...given].map((address) => formatAddress(address)).join(" ")}`);
    if (state.refusal !== undefined) throw state.refusal;
  };
  return {
    journal,
    state,
    memory: new AddressCleanup({ forgetFlows: async (given) => note("flows")(given), forgetClients: note("clients") }),
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

  it("only for few IPv4 addresses their flows are requested, otherwise all flows in one list", () => {
    const [v4, v6] = [addresses("10.244.1.2"), addresses("fd00::2")];
    const [source] = v4;
    assert.deepEqual(flowQuestions(new Set(v4)), [{ original: { source } }, { reply: { source } }]);
    assert.deepEqual(flowQuestions(new Set(v6)), [{ family: 6 }]);
    const many = addresses("10.244.1.2", "10.244.1.3", "10.244.1.4", "fd00::2", "fd00::3");
    assert.deepEqual(flowQuestions(new Set(many)), [{}]);
    const onlyV4 = many.filter((address) => formatAddress(address).includes("."));
    assert.deepEqual(flowQuestions(new Set(onlyV4)), [{ family: 4 }]);
  });
});
