import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { listEntries, openConntrackSocket } from "../../../../kernel/conntrack/table.ts";
import { POLICY_SETS, POLICY_TABLE } from "../../../../policyd/policies/compile/policy_table.ts";
import { ProbeSocket, SocketType } from "../../../lab/probe/socket.ts";
import { namedLab, type NamedPods, namedPods } from "../../../support/policy/lab/named_lab.ts";
import { FAMILIES } from "../../../support/policy/lab/place.ts";
import type { PolicyLab } from "../../../support/policy/lab/policy_lab.ts";
import { networkPolicy } from "../../../support/policy/manifest.ts";
import { requireKernel } from "../../../support/privilege.ts";
import { until } from "../../../support/daemon/recording_sink.ts";

const PODS: NamedPods = { "x/a": { node: "node1" } };

describe("connections that have the conntrack ID of another one", function () {
  this.timeout(60_000);
  let lab: PolicyLab;

  before(async function () {
    requireKernel(this);
    lab = await namedLab("numbers", PODS, [], { masquerade: false });
  });
  after(() => lab?.close());

  for (const family of FAMILIES) {
    it(`POL-92: policies check a connection of IPv${family} with the conntrack ID of an allowed one until it is answered`, async () => {
      const [pod, outside] = ["x/a", "outside"].map((name) => lab.place(name));
      assert.ok(pod !== undefined && outside !== undefined);
      const { node } = lab.wired("node1");
      const flows = ["silent", "answered"].map((name, index) => {
        const from = { address: pod.addresses[family], port: 5000 + index };
        const to = { address: outside.addresses[family], port: 6000 + index };
        const client = ProbeSocket.open(pod.namespace, family, SocketType.DATAGRAM);
        const server = ProbeSocket.open(outside.namespace, family, SocketType.DATAGRAM);
        client.bind(from);
        server.bind(to);
        return { name, from, to, client, server, send: () => client.sendTo(Uint8Array.of(1), to) };
      });
      const [silent, answered] = flows;
      assert.ok(silent !== undefined && answered !== undefined);
      /** Sends a datagram of each flow, and returns the names of those that arrive within a quarter of a second. */
      const arriving = async (): Promise<readonly string[]> => {
        for (const { send } of flows) send();
        await pause(250);
        return flows.filter(({ server }) => server.receive().kind === "data").map(({ name }) => name);
      };
      try {
        const world = namedPods(lab, PODS);
        await lab.apply(world);
        assert.deepEqual(await arriving(), ["silent", "answered"]);
        answered.server.sendTo(Uint8Array.of(2), answered.from);
        await until(() => answered.client.receive().kind === "data", "the pod has the answer");
        await lab.apply([...world, networkPolicy("x", { podSelector: {}, policyTypes: ["Egress"], egress: [] })]);
        for (let left = 40; (await arriving()).length > 0; left--) assert.ok(left > 0, "the policy stops neither");
        const numbers = node.inside(() => {
          const socket = openConntrackSocket(lab.lab.calls);
          try {
            return listEntries(socket, { family, protocol: "udp" })
              .filter(({ original }) => flows.some(({ from }) => from.port === original.sourcePort))
              .map(({ id }) => id);
          } finally {
            socket.close();
          }
        });
        assert.equal(numbers.length, 2);
        const elements = `{ ${numbers.join(", ")} }`;
        const change = (what: "add" | "delete"): string =>
          node.exec("nft", [what, "element", "inet", POLICY_TABLE.name, POLICY_SETS.settled, elements]);
        const daemon = lab.daemon("node1").process;
        // A running daemon would remove the IDs.
        await daemon.pause();
        try {
          change("add");
          assert.deepEqual(await arriving(), ["answered"]);
          change("delete");
        } finally {
          daemon.child.kill("SIGCONT");
        }
      } finally {
        for (const { client, server } of flows) for (const socket of [client, server]) socket.close();
      }
    });
  }
});
