import { type Address, parseAddress } from "../../../kernel/ip/address.ts";
import type { MacAddress } from "../../../kernel/ip/mac.ts";
import type { WiredNode } from "../../lab/topology.ts";

/** A sender of frames to the node: its MAC address, that of the node's link there, and the sender's own addresses. */
export interface Sender {
  readonly mac: MacAddress;
  readonly nodeMac: MacAddress;
  readonly addresses: readonly [Address, Address];
}

/** A datagram that must not reach a port of localhost, of the node itself or of a pod. */
export interface LocalhostAttack {
  readonly title: string;
  readonly addresses: (sender: Sender, node: WiredNode) => { readonly from: Address; readonly to: Address };
  /**
   * Whether the kernel delivers it once `route_localnet` is set, by which the test shows that the frame is well-formed.
   */
  readonly isOpenedByRouteLocalnet: boolean;
}

const [localhost4, localhost6, other4] = ["127.0.0.1", "::1", "127.8.9.10"].map((text) => parseAddress(text));
const mapped = parseAddress("::ffff:127.0.0.1");

function attack(
  title: string,
  addresses: (sender: Sender, node: WiredNode) => readonly [from: Address | undefined, to: Address | undefined],
  isOpenedByRouteLocalnet = false,
): LocalhostAttack {
  return {
    title,
    addresses: (sender, node) => {
      const [from, to] = addresses(sender, node);
      if (from === undefined || to === undefined) throw new Error(`${title} lacks an address`);
      return { from, to };
    },
    isOpenedByRouteLocalnet,
  };
}

/** The attacks of CVE-2020-8558 and similar ones. */
export const LOCALHOST_ATTACKS: readonly LocalhostAttack[] = [
  attack("to 127.0.0.1", ({ addresses: [own] }) => [own, localhost4], true),
  attack("to 127.8.9.10", ({ addresses: [own] }) => [own, other4], true),
  attack("to ::1", ({ addresses: [, own] }) => [own, localhost6]),
  attack("to ::ffff:127.0.0.1", ({ addresses: [, own] }) => [own, mapped]),
  attack("from 127.0.0.1 to 127.0.0.1", () => [localhost4, localhost4]),
  attack("from ::1 to ::1", () => [localhost6, localhost6]),
  attack("from 127.0.0.1 to an address of the node", (_, { addresses: [to] }) => [localhost4, to]),
  attack("from 0.0.0.0 to 127.0.0.1", () => [parseAddress("0.0.0.0"), localhost4]),
  attack("from 127.0.0.1 to the bridge's address", (_, { gateways: [to] }) => [localhost4, to]),
  attack("from an address of the node to 127.0.0.1", (_, { gateways: [from] }) => [from, localhost4]),
  attack("from ::1 to an address of the node", (_, { addresses: [, to] }) => [localhost6, to]),
];
