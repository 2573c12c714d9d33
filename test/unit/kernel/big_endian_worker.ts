import { parentPort } from "node:worker_threads";

/** Simulates a machine that stores the high byte first: the codec only checks how a 16-bit 1 is stored. */
Object.defineProperty(Uint16Array, "of", { value: () => ({ buffer: Uint8Array.of(0, 1).buffer }) });

const { parseCidr } = await import("../../../kernel/ip/cidr.ts");
const { parseMac } = await import("../../../kernel/ip/mac.ts");
const { outcomeOf } = await import("../../../kernel/netlink/error.ts");
const { decodeMessages, encodeRequest } = await import("../../../kernel/netlink/message.ts");
const { Writer } = await import("../../../kernel/netlink/writer.ts");
const { requestsOf } = await import("../../../kernel/nftables/encode/change.ts");
const { setMarkBit } = await import("../../../kernel/nftables/model/statement.ts");
const { newAddress, parseInterfaceAddress } = await import("../../../kernel/route/interface_address.ts");
const { createVeth } = await import("../../../kernel/route/link.ts");

const table = { family: "inet", name: "t" } as const;
const marks = { name: "m", key: ["ct_label"], data: ["mark"] } as const;
const [element, rule] = requestsOf([
  { kind: "add elements", table, set: marks, elements: [{ key: [100], data: [0x20] }] },
  { kind: "add rule", table, chain: "c", rule: { statements: [setMarkBit(0x4000)] } },
]);

function hexOf(message: ReturnType<typeof newAddress>): string {
  const writer = new Writer();
  encodeRequest(writer, message, 4, 0x01020304);
  return Buffer.from(writer.view()).toString("hex");
}

const address = newAddress(2, parseCidr("fd00::7/64"));
const mac = parseMac("0a:58:0a:f4:01:07");
const received = [...decodeMessages(Buffer.from(hexOf(address), "hex"))];
const [first] = received;
const refusal = Buffer.from("ffffffef00000010001000050102030400000000", "hex");

const seen = {
  address: hexOf(address),
  veth: hexOf(createVeth({ host: { name: "a", mac }, peer: { name: "b", mac, netnsFd: 5 }, mtu: 1400, master: 3 })),
  element: element === undefined ? "" : hexOf(element),
  rule: rule === undefined ? "" : hexOf(rule),
  header: received.map(({ type, flags, sequence }) => ({ type, flags, sequence })),
  index: first === undefined ? undefined : parseInterfaceAddress(first)?.index,
  errno: outcomeOf(address, 0x100, refusal)?.errnoName,
};
// A thread has no origin.
// oxlint-disable-next-line unicorn/require-post-message-target-origin
parentPort?.postMessage(seen);
