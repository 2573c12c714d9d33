import assert from "node:assert/strict";
import { parseAddress } from "../../../kernel/ip/address.ts";
import { parseCidr } from "../../../kernel/ip/cidr.ts";
import { parseMac } from "../../../kernel/ip/mac.ts";
import { eachAttribute } from "../../../kernel/netlink/attribute_decoder.ts";
import { decodeMessages, encodeRequest, type ReceivedMessage, type Request } from "../../../kernel/netlink/message.ts";
import { outcomeOf } from "../../../kernel/netlink/error.ts";
import { littleEndian } from "../../../kernel/byte_order.ts";
import { Writer } from "../../../kernel/byte_writer.ts";
import { parseForwardingEntry, setForwardingEntry } from "../../../kernel/route/forwarding_entry.ts";
import { newAddress, parseInterfaceAddress } from "../../../kernel/route/interface_address.ts";
import {
  changeLink,
  createBridge,
  createVeth,
  dumpLinks,
  linkIdentity,
  parseLink,
} from "../../../kernel/route/link.ts";
import { neighbourLink, parseNeighbour, setNeighbour } from "../../../kernel/route/neighbour.ts";
import {
  isLocalRoute,
  newRoute,
  parseRoute,
  parseRouteOfAnyTable,
  parseRouteOrDiscard,
} from "../../../kernel/route/route.ts";
import { newRule, parseRule } from "../../../kernel/route/rule.ts";
import { createVxlan, parseVxlan } from "../../../kernel/route/vxlan.ts";
import { parsePortFilter, redirectReceived } from "../../../kernel/traffic_control/redirect.ts";
import { type Decoders, itHolds, outcome } from "./hostile_bytes.ts";
import { roundsFor } from "../../support/long_form.ts";

const BODIES = roundsFor("random bodies of netlink messages", 100, 5000);

const mac = parseMac("0a:58:0a:f4:01:07");
const veth = createVeth({ host: { name: "dbv0", mac }, peer: { name: "eth0", mac, netnsFd: 5 }, mtu: 1400, master: 3 });
const onLink = { destination: undefined, outputInterface: 2, onLink: true };

/** Bodies that the kernel might send, made from our own requests, which have the same layouts. */
const wellFormed: readonly Request[] = [
  veth,
  createBridge({ name: "cni0", mac }),
  changeLink({ index: 4 }, { up: true, alias: "default/web", bridgePort: { hairpin: true } }),
  newAddress(2, parseCidr("10.244.1.7/24")),
  newAddress(2, parseCidr("fd00:244::7/64")),
  newRoute({ family: 6, gateway: parseAddress("fe80::1"), ...onLink }),
  newRoute({ family: 4, gateway: parseAddress("10.244.1.1"), ...onLink }),
  setNeighbour(2, parseAddress("10.244.1.1"), mac),
  setForwardingEntry(7, { mac, remote: parseAddress("192.0.2.2") }),
  newRule({ family: 4, inputInterface: "uplink", table: 100, priority: 9 }),
  createVxlan({ name: "vx0", mac, mtu: 1430, vni: 107, port: 4789, local: parseAddress("192.0.2.1") }),
  redirectReceived(2, 3),
];

function received(body: Uint8Array): ReceivedMessage {
  return { type: 16, flags: 0, sequence: 1, body };
}

/** All functions through which bytes enter the codec. */
const decoders: Decoders = {
  messages: (bytes) =>
    bounded(decodeMessages(bytes), bytes.length / 16).map(({ body, ...rest }) => ({ ...rest, body: [...body] })),
  attributes: (bytes) =>
    bounded(eachAttribute(bytes), bytes.length / 4).map(([number, payload]) => [number, ...payload]),
  link: (bytes) => parseLink(received(bytes)),
  address: (bytes) => parseInterfaceAddress(received(bytes)),
  "link's identity": (bytes) => linkIdentity(received(bytes)),
  route: (bytes) => parseRoute(received(bytes)),
  "route of any table": (bytes) => parseRouteOfAnyTable(received(bytes)),
  "route or discard": (bytes) => parseRouteOrDiscard(received(bytes)),
  "local route": (bytes) => isLocalRoute(received(bytes)),
  neighbour: (bytes) => parseNeighbour(received(bytes)),
  "neighbour's link": (bytes) => neighbourLink(received(bytes)),
  "forwarding entry": (bytes) => parseForwardingEntry(received(bytes)),
  rule: (bytes) => parseRule(received(bytes)),
  vxlan: (bytes) => parseVxlan(received(bytes)),
  "port filter": (bytes) => parsePortFilter(received(bytes)),
  "error with echo": (bytes) => outcomeOf(veth, 0x200, bytes)?.message,
  "capped error": (bytes) => outcomeOf(veth, 0x300, bytes)?.message,
};

/** Returns all that an iteration yields; fails when it takes more steps than the input has room for. */
function bounded<T>(iteration: Iterable<T>, steps: number): readonly T[] {
  const seen: T[] = [];
  for (const item of iteration) {
    seen.push(item);
    assert.ok(seen.length <= steps, `more than ${steps} steps`);
  }
  return seen;
}

function datagramOf(requests: readonly Request[]): Uint8Array {
  const writer = new Writer();
  for (const [i, message] of requests.entries()) encodeRequest(writer, message, 0, i);
  return writer.view();
}

/** Returns an NLMSG_ERROR body: errno, echoed header, extended ACK attributes. */
function errorBody(echoed: number, attributes: Uint8Array): Uint8Array {
  const body = new Uint8Array(20 + attributes.length);
  const view = new DataView(body.buffer);
  view.setInt32(0, -22, littleEndian);
  view.setUint32(4, echoed, littleEndian);
  body.set(attributes, 20);
  return body;
}

const bodies = [...wellFormed.map((message) => message.body), datagramOf(wellFormed), datagramOf([dumpLinks()])];
describe("kernel/netlink decoder", () => {
  itHolds(decoders, bodies, BODIES, 16);

  it("holds on attributes nested as deeply as a length field allows", () => {
    const deep = new Uint8Array(16 + 0xfffc);
    const view = new DataView(deep.buffer);
    for (let offset = 16; offset < deep.length; offset += 4) {
      view.setUint16(offset, deep.length - offset, littleEndian);
      view.setUint16(offset + 2, 18 | 0x8000, littleEndian);
    }
    for (const decode of Object.values(decoders)) outcome(decode, deep);
    assert.equal(parseLink(received(deep)).kind, undefined);
  });

  it("refuses an error that echoes more, or less, than the body holds", () => {
    for (const echoed of [0, 15, 17, 0x7fff_ffff, 0x8000_0000, 0xffff_fff0, 0xffff_ffff]) {
      assert.throws(() => outcomeOf(veth, 0x200, errorBody(echoed, new Uint8Array(0))), {
        code: "ERR_NETLINK_MALFORMED",
      });
    }
    assert.equal(outcomeOf(veth, 0x200, errorBody(16, new Uint8Array(0)))?.errnoName, "EINVAL");
  });
});
