import assert from "node:assert/strict";
import type { NotificationSource } from "../../kernel/notifications/source.ts";
import type { KernelNotifications } from "../../kernel/notifications/notifications.ts";
import { type LoggedPacket, parseLoggedPacket } from "../../kernel/packets/logged_packet.ts";
import type { Lab } from "../lab/lab.ts";
import { suiteLab } from "../support/suite_lab.ts";
import { EventRecorder } from "./event_recorder.ts";
import { makeFlows, type TrackedPair, trackedPair } from "./tracked_pair.ts";

const GROUP = 21;
const RULESET = `
table inet lab {
  chain out {
    type filter hook output priority 0;
    meta l4proto udp th dport 6200 log group ${GROUP} prefix "out-6200"
  }
}`;
const source: NotificationSource = {
  kind: "nflog",
  group: GROUP,
  copyBytes: 96,
  queueThreshold: 1,
  queueMilliseconds: 0,
};

describe("kernel/packets", () => {
  let lab: Lab | undefined;
  let pair: TrackedPair;
  let events: KernelNotifications | undefined;
  const recorder = new EventRecorder();

  before(async function () {
    lab = suiteLab(this, "kernel-nflog");
    pair = trackedPair(lab, RULESET);
    events = pair.near.notifications();
    await events.subscribe(source, recorder);
  });
  after(async () => await events?.stop());

  async function packets(prefix: string, count = 1): Promise<readonly LoggedPacket[]> {
    const found = (): readonly LoggedPacket[] =>
      recorder.messages
        .map(parseLoggedPacket)
        .filter((packet) => packet !== undefined)
        .filter((packet) => packet.prefix === prefix);
    await recorder.until(() => found().length >= count);
    return found();
  }

  it("packets have their prefix and their parsed headers", async () => {
    await makeFlows(
      pair,
      pair.farAddresses.map((to) => ({ protocol: "udp", to, port: 6200 })),
    );
    const [v4, v6] = await packets("out-6200", 2);
    assert.deepEqual(v4?.payload.length, 44);
    for (const [packet, i] of [
      [v4, 0],
      [v6, 1],
    ] as const) {
      assert.ok(packet?.ip?.sourcePort !== undefined);
      assert.deepEqual(packet.ip, {
        family: i === 0 ? 4 : 6,
        source: pair.nearAddresses[i],
        destination: pair.farAddresses[i],
        protocol: "udp",
        sourcePort: packet.ip.sourcePort,
        destinationPort: 6200,
        upperOffset: i === 0 ? 20 : 40,
        isLaterFragment: false,
      });
    }
  });

  it("packets are cut to the group's copy length, and several are read from one datagram", async () => {
    const other = pair.near.notifications();
    const cut = new EventRecorder();
    try {
      const group = {
        kind: "nflog",
        group: GROUP + 1,
        copyBytes: 24,
        queueThreshold: 3,
        queueMilliseconds: 60_000,
      } as const;
      await other.subscribe(group, cut);
      pair.near.exec("nft", ["-f", "-"], `add rule inet lab out udp dport 6300 log group ${GROUP + 1}\n`);
      const flow = { protocol: "udp", to: pair.farAddresses[0], port: 6300 } as const;
      await makeFlows(pair, [flow]);
      await makeFlows(pair, [flow]);
      assert.equal(cut.reported.length, 0);
      await makeFlows(pair, [flow]);
      await cut.until(() => cut.messages.length >= 3);
      const seen = cut.messages.map((message) => parseLoggedPacket(message));
      assert.deepEqual(
        seen.map((packet) => packet?.payload.length),
        [24, 24, 24],
      );
      assert.deepEqual(
        seen.map((packet) => packet?.ip?.destinationPort),
        [6300, 6300, 6300],
      );
    } finally {
      await other.stop();
    }
  });
});
