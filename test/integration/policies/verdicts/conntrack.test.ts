import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { openConntrackSocket } from "../../../../kernel/conntrack/table.ts";
import { listEntries } from "../../../support/list_entries.ts";
import { formatAddress, FAMILIES } from "../../../../kernel/ip/address.ts";
import { POLICY_SETS, POLICY_TABLE } from "../../../../policyd/policies/compile/policy_table.ts";
import { ProbeSocket, SocketType } from "../../../lab/probe/socket.ts";
import { namedLab, type NamedPods, namedPods } from "../../../support/policy/lab/named_lab.ts";
import type { PolicyLab } from "../../../support/policy/lab/policy_lab.ts";
import { networkPolicy } from "../../../support/policy/manifest.ts";
import { requireBridgeNetfilter, requireKernel } from "../../../support/privilege.ts";
import { until } from "../../../support/until.ts";

const PODS: NamedPods = { "x/a": { node: "node1" } };
const CONTROL_PORT = 21;
const DATA_PORT = 2021;

/** An administrator's rules that make the kernel read FTP, as firewalls do, and count the announced connections. */
const HELPER = `table inet administrator {
  ct helper ftp { type "ftp" protocol tcp; }
  chain before { type filter hook prerouting priority 0; tcp dport ${CONTROL_PORT} ct helper set "ftp"; }
  chain announced { type filter hook prerouting priority 0; tcp dport ${DATA_PORT} ct state related counter; }
}`;

describe("connections that a conntrack helper expects, or that have the conntrack ID of another one", function () {
  this.timeout(300_000);
  let lab: PolicyLab;
  const sockets: ProbeSocket[] = [];

  before(async function () {
    requireKernel(this);
    requireBridgeNetfilter(this);
    // The kernel would rewrite a masqueraded pod's announcement, and expect a connection to the node.
    lab = await namedLab("conntrack", PODS, [], { masquerade: false });
    lab.wired("node1").node.exec("nft", ["-f", "-"], HELPER);
  });
  afterEach(() => {
    for (const socket of sockets.splice(0)) socket.close();
  });
  after(() => lab?.close());

  function open(...parameters: Parameters<typeof ProbeSocket.open>): ProbeSocket {
    const socket = ProbeSocket.open(...parameters);
    sockets.push(socket);
    return socket;
  }

  /** Returns how many connections the kernel took for announced ones. */
  function announced(): number {
    const text = lab.wired("node1").node.exec("nft", ["list", "chain", "inet", "administrator", "announced"]);
    return Number(/packets (\d+)/.exec(text)?.[1]);
  }

  for (const family of FAMILIES) {
    it(`ENDS-07: policies apply to a connection of IPv${family} that a helper expects (FTP) as to all others`, async () => {
      const [pod, outside] = ["x/a", "outside"].map((name) => lab.place(name));
      assert.ok(pod !== undefined && outside !== undefined);
      const [own, other] = [pod.addresses[family], outside.addresses[family]];
      const listening = (...[namespace, address, port]: [typeof pod.namespace, typeof own, number]): ProbeSocket => {
        const socket = open(namespace, family, SocketType.STREAM);
        socket.bind({ address, port });
        socket.listen();
        return socket;
      };
      const server = listening(outside.namespace, other, CONTROL_PORT);
      const data = listening(pod.namespace, own, DATA_PORT);
      const control = open(pod.namespace, family, SocketType.STREAM);
      control.connect({ address: other, port: CONTROL_PORT });
      let accepted: ReturnType<ProbeSocket["accept"]>;
      await until(() => (accepted ??= server.accept()) !== undefined, "the control connection");
      assert.ok(accepted !== undefined);
      const { socket: session } = accepted;
      sockets.push(session);
      const say = async (line: string): Promise<void> => {
        control.send(new TextEncoder().encode(line));
        await until(() => session.receive().kind === "data", "the server has it");
      };
      // The kernel reads only what follows a line that it has seen.
      await say("NOOP\r\n");
      /** Tells the server where the pod listens, so that the kernel expects one connection. */
      const announce = async (): Promise<void> => {
        const port = [DATA_PORT >> 8, DATA_PORT & 0xff];
        const text =
          family === 4
            ? `PORT ${formatAddress(own).replaceAll(".", ",")},${port.join(",")}\r\n`
            : `EPRT |2|${formatAddress(own)}|${DATA_PORT}|\r\n`;
        await say(text);
      };
      /** Returns whether a connection to the announced port gets through within half a second. */
      const isReached = async (): Promise<boolean> => {
        const before = announced();
        const client = open(outside.namespace, family, SocketType.STREAM);
        client.connect({ address: own, port: DATA_PORT });
        await until(() => announced() > before, "the kernel takes it for an announced one");
        await pause(500);
        return data.accept() !== undefined;
      };

      const world = namedPods(lab, PODS);
      await lab.apply(world);
      await announce();
      assert.ok(await isReached(), "without a policy it gets through");
      const egress = [{ ports: [{ protocol: "TCP", port: CONTROL_PORT }] }];
      await lab.apply([...world, networkPolicy("x", { podSelector: {}, policyTypes: ["Ingress", "Egress"], egress })]);
      await announce();
      assert.ok(!(await isReached()), "the policy lets nothing in");
    });
  }

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
        await until(async () => (await arriving()).length === 0, "the policy stops both");
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
