import { FAMILIES } from "../../kernel/ip/address.ts";
import assert from "node:assert/strict";
import type { ConntrackEntry } from "../../kernel/conntrack/entry.ts";
import { deleteFlows } from "../../kernel/conntrack/flow_deletion.ts";
import { peekId } from "../../kernel/conntrack/flow_tuples.ts";
import { hasLabel, labelBit } from "../../kernel/conntrack/labels.ts";
import { relabelFlows } from "../../kernel/conntrack/relabelling.ts";
import { ConntrackSockets } from "../../kernel/conntrack/sockets.ts";
import { walkInSlices } from "../../kernel/conntrack/sliced_walk.ts";
import { openConntrackSocket } from "../../kernel/conntrack/table.ts";
import { listEntries } from "../support/list_entries.ts";
import type { NetlinkSocket } from "../../kernel/netlink/socket.ts";
import type { Lab } from "../lab/lab.ts";
import { ProbeSocket, SocketType } from "../lab/probe/socket.ts";
import { suiteLab } from "../support/suite_lab.ts";
import { type TrackedPair, trackedPair } from "./tracked_pair.ts";

const LABEL = 100;
/** Enough flows that the kernel lists them in several datagrams. */
const FLOWS_PER_FAMILY = 600;
const FIRST_PORT = 20_000;
const RULESET = `
table inet lab {
  chain out {
    type filter hook output priority 0;
    ct label set ${LABEL}
  }
}`;

/** Works as long as a slice lasts, so that the slice ends after the entry. */
function workOn(): void {
  const end = performance.now() + 2.5;
  while (performance.now() < end);
}

describe("kernel/conntrack: in slices", () => {
  let lab: Lab | undefined;
  let pair: TrackedPair;
  /** The number of turns that other work got. */
  let turns = 0;
  let immediate: NodeJS.Immediate | undefined;

  before(function () {
    lab = suiteLab(this, "conntrack-slices");
    pair = trackedPair(lab, RULESET);
    pair.near.writeSysctl("net/netfilter/nf_conntrack_udp_timeout", "600");
    for (const [index, family] of FAMILIES.entries()) {
      const socket = ProbeSocket.open(pair.near, family, SocketType.DATAGRAM);
      const address = pair.farAddresses[index] ?? assert.fail();
      for (let port = FIRST_PORT; port < FIRST_PORT + FLOWS_PER_FAMILY; port++) {
        assert.equal(socket.sendTo(Uint8Array.of(1), { address, port }), 1);
      }
      socket.close();
    }
  });
  beforeEach(() => {
    turns = 0;
    const count = (): void => {
      turns++;
      immediate = setImmediate(count);
    };
    count();
  });
  afterEach(() => clearImmediate(immediate));

  const open = (): NetlinkSocket => pair.near.inside(() => openConntrackSocket(pair.near.calls));
  const sockets = (opening = open): ConntrackSockets => new ConntrackSockets(pair.near.calls, opening);
  const isOurs = ({ original }: ConntrackEntry): boolean => (original.destinationPort ?? 0) >= FIRST_PORT;

  function entries(): readonly ConntrackEntry[] {
    const socket = open();
    try {
      return listEntries(socket).filter(isOurs);
    } finally {
      socket.close();
    }
  }

  it("a walk visits every entry once, and other work runs between slices and after each slice's end", async () => {
    const socket = open();
    const seen: number[] = [];
    let unsettled = 0;
    const turnsAtEnds: number[] = [];
    const see = (message: { readonly body: Uint8Array }): void => {
      seen.push(peekId(message.body));
      unsettled++;
      if (seen.length % 100 === 0) workOn();
    };
    const endSlice = (): void => {
      unsettled = 0;
      turnsAtEnds.push(turns);
    };
    const walk = walkInSlices(socket, {}, { see, endSlice }, pair.near.calls);
    const check = setInterval(() => assert.equal(unsettled, 0, "other work ran before the end of a slice"), 0);
    await walk;
    clearInterval(check);
    socket.close();
    const ids = new Set(seen);
    assert.ok(entries().every(({ id }) => ids.has(id)));
    assert.ok(turns >= 10, `${turns} turns`);
    assert.equal(unsettled, 0);
    assert.ok(new Set(turnsAtEnds).size >= 10, "slices end before others get their turn");
  });

  it("relabelFlows changes the labels of exactly the chosen flows, while other work goes on", async () => {
    const cleared: number[] = [];
    const bit = labelBit(LABEL);
    await relabelFlows(sockets(), [{ family: 4 }, { family: 6 }], {
      glance: ({ original }) => (original.destinationPort ?? 0) >= FIRST_PORT + FLOWS_PER_FAMILY / 2,
      decide: (entry) => {
        if (cleared.length % 50 === 0) workOn();
        return entry.original.destinationPort === FIRST_PORT + FLOWS_PER_FAMILY - 1
          ? undefined
          : { value: 0n, mask: bit };
      },
      changed: ({ key, change }, outcome) => {
        assert.deepEqual([change, outcome], [{ value: 0n, mask: bit }, "done"]);
        cleared.push(key.original.destinationPort ?? 0);
      },
    });
    assert.equal(cleared.length, FLOWS_PER_FAMILY - 2);
    assert.ok(turns >= 5, `${turns} turns`);
    for (const { original, labels } of entries()) {
      const port = original.destinationPort ?? 0;
      const isCleared = port >= FIRST_PORT + FLOWS_PER_FAMILY / 2 && port < FIRST_PORT + FLOWS_PER_FAMILY - 1;
      assert.equal(hasLabel(labels, LABEL), !isCleared, `port ${port}`);
    }
  });

  it("a refusal by the kernel reaches the caller, and both sockets are closed", async () => {
    const opened: { isClosed: boolean }[] = [];
    const closing = (): NetlinkSocket => {
      const socket = open();
      const state = { isClosed: false };
      opened.push(state);
      const close = socket.close.bind(socket);
      socket.close = () => {
        state.isClosed = true;
        close();
      };
      return socket;
    };
    const glance = (): boolean => {
      throw new Error("glance");
    };
    const failing = relabelFlows(sockets(closing), [{}], { glance, decide: () => undefined, changed: () => {} });
    await assert.rejects(failing, { message: "glance" });
    assert.deepEqual(opened, [{ isClosed: true }, { isClosed: true }]);
  });

  it("sockets are kept for the next walk, since closing one may wait for a grace period", async () => {
    let opened = 0;
    const counted = sockets(() => {
      opened++;
      return open();
    });
    const idle = { glance: () => false, decide: () => undefined, changed: () => {} };
    for (let round = 0; round < 3; round++) await relabelFlows(counted, [{}], idle);
    await deleteFlows(counted, [{}], () => false);
    assert.equal(opened, 2);
  });

  it("deleteFlows deletes no other flow, although it lists all where they are few", async () => {
    const count = entries().length;
    assert.equal(await pair.near.inside(() => deleteFlows(sockets(), [{ protocol: "tcp" }], () => true)), 0);
    assert.equal(entries().length, count);
  });

  it("deleteFlows deletes exactly the chosen flows of both families, while other work goes on", async () => {
    const kept = FIRST_PORT + 7;
    let glances = 0;
    const deleted = await pair.near.inside(() =>
      deleteFlows(sockets(), [{ family: 4 }, { family: 6 }], ({ original }) => {
        if (++glances % 100 === 0) workOn();
        return (original.destinationPort ?? 0) >= FIRST_PORT && original.destinationPort !== kept;
      }),
    );
    assert.equal(deleted, 2 * (FLOWS_PER_FAMILY - 1));
    assert.deepEqual(
      entries().map(({ original }) => original.destinationPort),
      [kept, kept],
    );
    assert.ok(turns >= 10, `${turns} turns`);
  });
});
