import assert from "node:assert/strict";
import { parseMac } from "../../../kernel/ip/mac.ts";
import { encodeFrame, encodeIp, encodeUdp } from "../../lab/probe/frame.ts";
import { eventually, type GuardedNode } from "../../support/guard/guarded_node.ts";
import { useGuardedNode } from "../../support/guard/guarded_suite.ts";
import { WAYS } from "../../support/guard/ways.ts";
import { DropReason } from "../../../policyd/node/tables/drop_reasons.ts";

const PORT = 7003;
const SOURCES = 500;

/** The bridge learns addresses before br_netfilter sees a frame. */
for (const way of WAYS.filter(({ bridgeNetfilter }) => !bridgeNetfilter)) {
  const { title: state } = way;
  describe(`the bridge's forwarding table, ${state}`, function () {
    this.timeout(300_000);
    let on: GuardedNode;

    useGuardedNode("fdb", way, (made) => void (on = made));

    const entries = (): number =>
      on.wired.node
        .exec("bridge", ["fdb", "show", "br", "cni0"])
        .split("\n")
        .filter((line) => line.startsWith("02:aa:")).length;

    /** Sends a frame from each of many MAC addresses, none of which is the pod's. */
    const flood = (): void => {
      const { attacker, bridge } = on;
      const packet = encodeIp(encodeUdp(attacker.addresses[4], bridge.addresses[4], PORT, new Uint8Array(16)));
      for (let i = 0; i < SOURCES; i++) {
        const [high, low] = [i >> 8, i & 255].map((byte) => byte.toString(16).padStart(2, "0"));
        attacker.link.send(encodeFrame({ from: parseMac(`02:aa:00:00:${high}:${low}`), to: bridge.mac, ...packet }));
      }
    };

    it("SHARE-04: a pod that sends from many MAC addresses adds none of them to the bridge's forwarding table", async () => {
      flood();
      assert.ok(await eventually(() => entries() === SOURCES), `${entries()} without the guard`);
      on.wired.node.exec("ip", ["link", "set", "cni0", "type", "bridge", "fdb_flush"]);
      assert.equal(entries(), 0);
      on.load();
      flood();
      assert.ok(await eventually(() => on.dropped(DropReason.SOURCE) >= SOURCES));
      assert.equal(entries(), 0);
    });
  });
}
