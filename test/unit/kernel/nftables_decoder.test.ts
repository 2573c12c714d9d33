import assert from "node:assert/strict";
import * as fc from "fast-check";
import { messageType, Subsystem } from "../../../kernel/netlink/netfilter_message.ts";
import { NetlinkSocket } from "../../../kernel/netlink/socket.ts";
import { type Change, requestsOf, tableChanges } from "../../../kernel/nftables/encode/change.ts";
import { generationLayout, Message, nftablesRequest } from "../../../kernel/nftables/encode/message.ts";
import { parseNotification } from "../../../kernel/nftables/decode/notification.ts";
import { parseTrace } from "../../../kernel/nftables/decode/trace.ts";
import type { SetDefinition } from "../../../kernel/nftables/model/object.ts";
import { readElements } from "../../../kernel/nftables/decode/element_list.ts";
import { NftablesSocket } from "../../../kernel/nftables/socket.ts";
import { readChains, readRules, readSets, readTableHead } from "../../../kernel/nftables/decode/state.ts";
import { commentOf, commentUserdata } from "../../../kernel/nftables/encode/userdata.ts";
import { Errno } from "../../../kernel/syscall/errno.ts";
import { everythingElements, everythingTable } from "../../support/nftables/example.ts";
import { assertDecodersHold } from "./hostile_bytes.ts";
import { dumpEnd, kernelAnswer, kernelMessage, ScriptedSyscalls } from "./scripted_syscalls.ts";
import { roundsFor } from "../../support/long_form.ts";

const BODIES = roundsFor("random messages of nftables", 100, 3000);

const table = { family: "inet", name: "t" } as const;
const requests = requestsOf(tableChanges(everythingTable, everythingElements));

const definitions: readonly SetDefinition[] = [
  { name: "s", key: ["ipv4_addr", "ifname", "ether_addr"], data: ["ipv6_addr", "inet_service"] },
  { name: "s", key: ["inet_service"], isInterval: true, data: "verdict" },
  { name: "s", key: ["ipv4_addr", "inet_proto"], isInterval: true },
];

/** Reads a set whose dump is one message of these bytes. */
function elementsFrom(definition: SetDefinition, body: Uint8Array): unknown {
  const steps = [kernelMessage(messageType(Subsystem.NFTABLES, Message.NEW_ELEMENTS), 1, body, 2), dumpEnd(1)];
  const again = Array.from({ length: 20 }, (_, index) => [
    kernelMessage(messageType(Subsystem.NFTABLES, Message.NEW_ELEMENTS), index + 1, body, 2),
    dumpEnd(index + 1),
  ]).flat();
  const syscalls = new ScriptedSyscalls([...steps, ...again.slice(2)].map((datagram) => ({ datagram })));
  try {
    return readElements(new NetlinkSocket(syscalls, 12), table, definition);
  } catch (error) {
    if (error instanceof Error && /grew or shrank/.test(error.message)) return "told twice";
    throw error;
  }
}

/** Reads a table of which every part is one message of these bytes. */
function tableFrom(body: Uint8Array): unknown {
  const message = (sequence: number): Uint8Array =>
    kernelMessage(messageType(Subsystem.NFTABLES, Message.NEW_TABLE), sequence, body, 2);
  const dumps = [2, 3, 4].flatMap((sequence) => [message(sequence), dumpEnd(sequence)]);
  const syscalls = new ScriptedSyscalls([message(1), kernelAnswer(1), ...dumps].map((datagram) => ({ datagram })));
  const socket = new NetlinkSocket(syscalls, 12);
  return [
    readTableHead(socket, table),
    readChains(socket, table),
    readRules(socket, table, "c"),
    readSets(socket, table),
  ];
}

const decoders = {
  notification: (body: Uint8Array) => parseNotification({ type: messageType(Subsystem.NFTABLES, 6), body }),
  generation: (body: Uint8Array) => parseNotification({ type: messageType(Subsystem.NFTABLES, 15), body }),
  trace: (body: Uint8Array) => parseTrace({ type: messageType(Subsystem.NFTABLES, 17), body }),
  comment: (body: Uint8Array) => commentOf(body),
  table: tableFrom,
  ...Object.fromEntries(
    definitions.map((definition, index) => [`elements ${index}`, (body: Uint8Array) => elementsFrom(definition, body)]),
  ),
};

function notified(changes: readonly Change[]): readonly unknown[] {
  return requestsOf(changes).map(({ type, body }) => parseNotification({ type, body }));
}

describe("kernel/nftables: messages of the kernel", () => {
  it("a notification of every kind of change names its table", () => {
    const set = { name: "s", key: ["mark"] } as const;
    const reported = notified([
      { kind: "add table", table },
      { kind: "add chain", table, chain: { name: "c" } },
      { kind: "add rule", table, chain: "c", rule: { statements: [] } },
      { kind: "add set", table, set },
      { kind: "add elements", table, set, elements: [{ key: [1] }] },
      { kind: "delete table", table },
    ]);
    assert.deepEqual(
      reported,
      Array.from({ length: 6 }, () => ({ kind: "change", table })),
    );
    assert.deepEqual(notified([{ kind: "delete table", table: { family: "bridge", name: "b" } }]), [
      { kind: "change", table: { family: "bridge", name: "b" } },
    ]);
  });

  it("a new generation has the ID and name of the process that made it", () => {
    const values = { id: 7, processId: 4711, processName: "nft" };
    const kind = { message: Message.NEW_GENERATION, family: undefined, layout: generationLayout };
    const { type, body } = nftablesRequest("generation", kind, values);
    assert.deepEqual(parseNotification({ type, body }), { kind: "generation", ...values });
    assert.deepEqual(parseNotification({ type, body: body.subarray(0, 4) }), {
      kind: "generation",
      id: 0,
      processId: 0,
      processName: "",
    });
  });

  it("a message that is not of nftables, of a trace or of another family is ignored", () => {
    const [{ type, body }] = requestsOf([{ kind: "delete table", table }]) as [ReturnType<typeof requestsOf>[number]];
    assert.equal(parseNotification({ type: 0x0102, body }), undefined);
    assert.equal(parseNotification({ type: messageType(Subsystem.NFTABLES, 17), body }), undefined);
    assert.equal(parseNotification({ type, body: Uint8Array.of(5, ...body.subarray(1)) }), undefined);
  });

  it("a comment is read as it was written, and user data that is cut anywhere gives its beginning or nothing", () => {
    const userdata = commentUserdata("pod/web 1");
    assert.equal(commentOf(userdata), "pod/web 1");
    for (let length = 0; length < userdata.length; length++) {
      assert.ok("pod/web 1".startsWith(commentOf(userdata.subarray(0, length)) ?? ""));
    }
  });

  it("a list in which an element comes twice is read again", () => {
    const set: SetDefinition = { name: "s", key: ["inet_service"] };
    const bodyOf = (...ports: readonly number[]): Uint8Array => {
      const elements = ports.map((port) => ({ key: [port] }));
      return requestsOf([{ kind: "add elements", table, set, elements }])[0]?.body ?? new Uint8Array();
    };
    const list = (sequence: number, body: Uint8Array): readonly Uint8Array[] => [
      kernelMessage(messageType(Subsystem.NFTABLES, Message.NEW_ELEMENTS), sequence, body, 2),
      dumpEnd(sequence),
    ];
    const steps = [...list(1, bodyOf(1, 2, 1)), ...list(2, bodyOf(3, 2, 1))];
    const syscalls = new ScriptedSyscalls(steps.map((datagram) => ({ datagram })));
    const elements = readElements(new NetlinkSocket(syscalls, 12), table, set);
    assert.deepEqual(elements, [{ key: [3] }, { key: [2] }, { key: [1] }]);
  });

  it("the next list can be read after one that was abandoned, also one whose set was deleted meanwhile", () => {
    const set: SetDefinition = { name: "s", key: ["inet_service"] };
    const piece = (sequence: number, port: number): Uint8Array => {
      const [request] = requestsOf([{ kind: "add elements", table, set, elements: [{ key: [port] }] }]);
      const body = request?.body ?? new Uint8Array();
      return kernelMessage(messageType(Subsystem.NFTABLES, Message.NEW_ELEMENTS), sequence, body, 2);
    };
    for (const end of [dumpEnd(1), kernelAnswer(1, Errno.ENOENT)]) {
      const steps = [piece(1, 1), piece(1, 2), end, piece(2, 3), dumpEnd(2)];
      const syscalls = new ScriptedSyscalls(steps.map((datagram) => ({ datagram })));
      const nft = new NftablesSocket(syscalls);
      const first = nft.elementsInPieces(table, set);
      assert.deepEqual(first.next().value, [{ key: [1] }]);
      const next = nft.elementsInPieces(table, set);
      assert.equal(syscalls.unread, 2);
      assert.equal(first.next().done, true);
      assert.deepEqual([...next], [[{ key: [3] }]]);
      assert.equal(syscalls.unread, 0);
    }
  });

  it("random bytes, and our own messages cut or changed, end in a value or a DrawbridgeError", function () {
    this.timeout(60_000);
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => assertDecodersHold(decoders, bytes)),
      { numRuns: BODIES },
    );
    const bodies = requests.map(({ body }) => body.subarray(0, 600));
    fc.assert(
      fc.property(
        fc.constantFrom(...bodies),
        fc.nat(600),
        fc.array(fc.tuple(fc.nat(599), fc.nat(255)), { maxLength: 4 }),
        (body, length, changes) => {
          const bytes = body.slice(0, Math.max(4, length));
          for (const [offset, value] of changes) if (offset < bytes.length) bytes[offset] = value;
          assertDecodersHold(decoders, bytes);
        },
      ),
      { numRuns: 3 * BODIES },
    );
  });
});
