import { FAMILIES } from "../../../kernel/ip/address.ts";
import assert from "node:assert/strict";
import type { Lab } from "../../lab/lab.ts";
import { encodeFrame, encodeIp, encodeUdp } from "../../lab/probe/frame.ts";
import { Prober } from "../../lab/probe/prober.ts";
import { eventually, type GuardedNode, guardedNode } from "../../support/guard/guarded_node.ts";
import { bothAddresses, flowsTo, listenEverywhere, reach } from "../../support/guard/reachability.ts";
import { carries, newToken } from "../../support/guard/token.ts";
import { loadVirtualAddresses, PORT, VIRTUAL } from "../../support/guard/virtual_addresses.ts";
import { requireBridgeNetfilter } from "../../support/privilege.ts";
import { suiteLab } from "../../support/suite_lab.ts";

/** Two marks: each bit that is not ours is set in one of them and clear in the other. */
const FOREIGN_MARKS = [0x4555_5555, 0x8aaa_aaaa] as const;

for (const bridgeNetfilter of [true, false]) {
  describe(`marks of guarded traffic, br_netfilter ${bridgeNetfilter ? "on" : "off"}`, function () {
    this.timeout(300_000);
    let lab: Lab;
    let on: GuardedNode;
    let prober: Prober;

    before(function () {
      if (bridgeNetfilter) requireBridgeNetfilter(this);
      lab = suiteLab(this, `marks-${bridgeNetfilter ? "on" : "off"}`);
      on = guardedNode(lab, bridgeNetfilter, false);
      loadVirtualAddresses(on);
      prober = new Prober(lab);
      listenEverywhere(prober, on);
    });

    after(() => on?.[Symbol.dispose]());

    beforeEach(() => {
      on.load();
    });

    for (const mark of FOREIGN_MARKS) {
      it(`SVC-16: another program's mark 0x${mark.toString(16)} stays unchanged, and no bit of ours is left`, async () => {
        const { attacker, victim, wired, nodes } = on;
        const check = 'meta mark != $V counter comment "changed"\n counter comment "seen"';
        wired.node.exec(
          "nft",
          ["-f", "-"],
          `define V = ${mark}
          table inet foreign {
            chain before { type filter hook prerouting priority -150
              meta mark set $V
            }
            chain services { type filter hook prerouting priority -80
              meta mark set meta mark | 0x10000000
            }
            chain own { type filter hook output priority -150
              meta mark set $V
            }
            chain between { type filter hook postrouting priority -1
              meta mark & 0xcfffffff != $V counter comment "changed"
              meta mark & 0x20000000 != 0 counter comment "bridged"
              meta mark & 0x10000000 != 0 counter comment "masquerade"
            }
            chain behind { type filter hook postrouting priority 300
              ${check}
            }
            chain delivered { type filter hook input priority 300
              ${check}
            }
          }
          `,
        );
        try {
          const virtual = [...Object.values(VIRTUAL.other), ...Object.values(VIRTUAL.self)];
          await reach(prober, [
            ...flowsTo(attacker.namespace, virtual, ["tcp", "udp"]),
            ...flowsTo(attacker.namespace, [...bothAddresses(victim), ...wired.addresses, ...wired.routerAddresses]),
            ...[wired.node, nodes.router].flatMap((from) => flowsTo(from, bothAddresses(attacker))),
          ]);
          const listing = wired.node.exec("nft", ["list", "table", "inet", "foreign"]);
          const counted = (comment: string): readonly number[] =>
            [...listing.matchAll(new RegExp(`packets (\\d+) bytes \\d+ comment "${comment}"`, "g"))].map(([, n]) =>
              Number(n),
            );
          assert.deepEqual(counted("changed"), [0, 0, 0]);
          assert.ok(
            [...counted("seen"), ...counted("bridged"), ...counted("masquerade")].every((packets) => packets > 0),
          );
          assert.equal(counted("seen").length, 2);
        } finally {
          wired.node.exec("nft", ["delete", "table", "inet", "foreign"]);
        }
      });
    }

    it("GUARD-02: another program's rule that sets every bit of every mark opens no way on the link", async () => {
      const { attacker, victim, bridge, wired } = on;
      const chain = "chain every_bit { type filter hook prerouting priority -150\nmeta mark set 0xffffffff\n}";
      wired.node.exec("nft", ["-f", "-"], `table inet foreign {\n${chain}\n}\n`);
      for (const family of FAMILIES) {
        const [token, fence] = [newToken(), newToken()];
        const packet = (data: Uint8Array) =>
          encodeIp(encodeUdp(attacker.addresses[family], victim.addresses[family], PORT, data));
        attacker.link.send(encodeFrame({ from: attacker.mac, to: victim.mac, ...packet(token) }));
        attacker.link.send(encodeFrame({ from: attacker.mac, to: bridge.mac, ...packet(fence) }));
        const seen: Uint8Array[] = [];
        const includes = (data: Uint8Array): boolean => seen.some((frame) => carries(frame, data));
        const isThere = (): boolean => {
          seen.push(...victim.link.received());
          return includes(fence);
        };
        assert.ok(await eventually(isThere));
        assert.ok(!includes(token));
      }
      wired.node.exec("nft", ["delete", "table", "inet", "foreign"]);
    });
  });
}
