import assert from "node:assert/strict";
import { type Address, type Family, FAMILIES } from "../../../kernel/ip/address.ts";
import { Errno } from "../../../kernel/syscall/errno.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { ProbeSocket, SocketType } from "../../lab/probe/socket.ts";
import { eventually, type GuardedNode, soon } from "../../support/guard/guarded_node.ts";
import { useGuardedNode } from "../../support/guard/guarded_suite.ts";
import { OPPOSITE_WAYS } from "../../support/guard/ways.ts";
import { DropReason } from "../../../policyd/node/tables/drop_reasons.ts";

const PORT = 10_256;
const FLOOD = 400;
/** The most connections that one source gets in all: at once, and in the time that the flood takes. */
const MOST = 80;
const HONEST = 5;

for (const way of OPPOSITE_WAYS) {
  const { title: state } = way;
  describe(`connections to the daemon's own ports, ${state}`, function () {
    this.timeout(300_000);
    let on: GuardedNode;

    useGuardedNode("asked", way, (made) => void (on = made));

    /** Opens connections. @returns the number that the server accepts, within a moment where not all may come */
    async function connected(
      from: LabNamespace,
      to: Address,
      family: Family,
      count: number,
      waits = eventually,
    ): Promise<number> {
      const server = ProbeSocket.open(on.wired.node, family, SocketType.STREAM);
      const clients: ProbeSocket[] = [];
      try {
        server.bind({ address: to, port: PORT });
        server.listen();
        for (let i = 0; i < count; i++) {
          const client = ProbeSocket.open(from, family, SocketType.STREAM);
          clients.push(client);
          assert.ok([0, -Errno.EINPROGRESS].includes(client.connect({ address: to, port: PORT })));
        }
        let accepted = 0;
        await waits(() => {
          for (let next = server.accept(); next !== undefined; next = server.accept()) {
            accepted++;
            next.socket.close();
          }
          return accepted >= count;
        });
        return accepted;
      } finally {
        for (const client of clients) client.close();
        server.close();
      }
    }

    for (const [index, family] of FAMILIES.entries()) {
      it(`SHARE-03: a pod gets a few connections a second to the daemon's ports, and other clients get all of theirs, IPv${family}`, async () => {
        const to = on.wired.addresses[index] ?? assert.fail("an address of the node");
        const { attacker, victim, wired, nodes } = on;
        on.load();
        assert.equal(
          await connected(attacker.namespace, to, family, FLOOD),
          FLOOD,
          "without the share every connection is accepted",
        );

        on.load({ askedPorts: [9873, PORT] });
        const got = await connected(attacker.namespace, to, family, FLOOD, soon);
        assert.ok(got > 0 && got <= MOST, `with the share ${got} connections are accepted`);
        assert.ok(on.dropped(DropReason.ASKED) >= FLOOD - MOST);
        for (const [what, from] of [
          ["another pod", victim.namespace],
          ["a neighbour of the node", nodes.router],
        ] as const) {
          assert.equal(await connected(from, to, family, HONEST), HONEST, what);
        }
        assert.equal(await connected(wired.node, to, family, FLOOD), FLOOD, "the node itself");
      });
    }
  });
}
