import assert from "node:assert/strict";
import { parseAddress } from "../../../../kernel/ip/address.ts";
import { parseCidr } from "../../../../kernel/ip/cidr.ts";
import { parseMac } from "../../../../kernel/ip/mac.ts";
import { littleEndian } from "../../../../kernel/byte_order.ts";
import type { ReceivedMessage, Request } from "../../../../kernel/netlink/message.ts";
import { setForwardingEntry } from "../../../../kernel/route/forwarding_entry.ts";
import { newAddress } from "../../../../kernel/route/interface_address.ts";
import { changeLink } from "../../../../kernel/route/link.ts";
import { setNeighbour } from "../../../../kernel/route/neighbour.ts";
import { newRoute } from "../../../../kernel/route/route.ts";
import { newRule } from "../../../../kernel/route/rule.ts";
import type { KernelState } from "../../../../policyd/routes/route_kernel/kernel_state.ts";
import { isRelevant } from "../../../../policyd/routes/relevance.ts";
import { machine, UPLINK } from "../../../support/routes/machine.ts";

const DELLINK = 17;
const TUNNEL_INDEX = 9;
const POD_INDEX = 7;
const MAC = parseMac("02:00:00:00:00:01");
const FAR = parseAddress("198.51.100.3");

const STATE: KernelState = machine({
  tunnel: {
    index: TUNNEL_INDEX,
    name: "drawbridge.vx",
    mtu: 1450,
    up: true,
    hasLinkLayer: true,
    mac: MAC,
    parameters: undefined,
    checksumOffload: false,
    hasStrictSourceCheck: false,
    isWithoutIpv6: false,
    forwarding: [],
    neighbours: [],
  },
});

/** A notification, which has the body of the request for the same change. */
function reported(request: Request, type = request.type): ReceivedMessage {
  return { type, flags: 0, sequence: 0, body: request.body };
}

/** An Ethernet link (ARPHRD_ETHER in struct ifinfomsg) as the kernel describes it; a request leaves the type out. */
function described(index: number, mtu = 1500, hardware = 1): Request {
  const made = changeLink({ index }, { up: true, mtu });
  const body = made.body.slice();
  new DataView(body.buffer).setUint16(2, hardware, littleEndian);
  return { ...made, body };
}

const link = (index: number, mtu = 1500): Request => described(index, mtu);
/** ARPHRD_NONE */
const NO_HARDWARE = 0xfffe;
const route = (destination: string, changes: { readonly table?: number } = {}): Request =>
  newRoute({
    family: destination.includes(":") ? 6 : 4,
    destination: parseCidr(destination),
    gateway: undefined,
    outputInterface: POD_INDEX,
    onLink: false,
    ...changes,
  });

describe("policyd/routes/relevance", () => {
  const cases: readonly (readonly [string, boolean, ReceivedMessage])[] = [
    ["a pod's link that comes", false, reported(link(POD_INDEX))],
    ["a pod's link that goes", false, reported(link(POD_INDEX), DELLINK)],
    ["the uplink as it was", false, reported(link(UPLINK))],
    ["the uplink with another MTU", true, reported(link(UPLINK, 1400))],
    ["the uplink with another link layer", true, reported(described(UPLINK, 1500, NO_HARDWARE))],
    ["the uplink that goes down", true, reported(changeLink({ index: UPLINK }, { up: false, mtu: 1500 }))],
    ["the uplink that goes", true, reported(link(UPLINK), DELLINK)],
    ["anything about the tunnel", true, reported(link(TUNNEL_INDEX))],
    ["a link that has the tunnel's name", true, reported(changeLink({ name: "drawbridge.vx" }, { up: true }))],
    ["an address", true, reported(newAddress(UPLINK, parseCidr("192.0.2.9/24")))],
    ["a neighbour of the tunnel", true, reported(setNeighbour(TUNNEL_INDEX, FAR, MAC))],
    [
      "where a MAC address of the tunnel is",
      true,
      reported(setForwardingEntry(TUNNEL_INDEX, { mac: MAC, remote: FAR })),
    ],
    ["a neighbour of another link", false, reported(setNeighbour(POD_INDEX, FAR, MAC))],
    ["a route of the main table", true, reported(route("10.244.3.0/24"))],
    ["a route of the table for pods", true, reported(route("198.51.100.3/32", { table: 107 }))],
    ["a route of another table", false, reported(route("10.244.3.0/24", { table: 99 }))],
    ["the link-local route that every link has", false, reported(route("fe80::/64"))],
    ["a rule", true, reported(newRule({ family: 4, inputInterface: "drawbridge0", table: 107, priority: 107 }))],
    ["anything else", false, { type: 99, flags: 0, sequence: 0, body: new Uint8Array() }],
  ];
  for (const [what, expected, message] of cases) {
    it(`STATE-01: a notification of ${what} is ${expected ? "relevant" : "irrelevant"}`, () => {
      assert.equal(isRelevant(message, STATE), expected);
    });
  }

  it("STATE-01: a notification that cannot be read is an error, so that the kernel is read", () => {
    for (const type of [16, 20, 24, 28]) {
      assert.throws(() => isRelevant({ type, flags: 0, sequence: 0, body: Uint8Array.of(1, 2) }, STATE), {
        code: "ERR_NETLINK_MALFORMED",
      });
    }
  });
});
