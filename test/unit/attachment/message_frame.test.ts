import assert from "node:assert/strict";
import fc from "fast-check";
import { frame, FrameReader, LONGEST_MESSAGE } from "../../../attachment/message_frame.ts";

describe("ipam/message_frame", () => {
  it("DAEMON-05: messages are read as they were written, however the stream is split", () => {
    const messages = fc.array(fc.dictionary(fc.string(), fc.oneof(fc.string({ unit: "binary" }), fc.integer())));
    fc.assert(
      fc.property(messages, fc.array(fc.integer({ min: 1, max: 7 }), { minLength: 1 }), (sent, cuts) => {
        const bytes = Uint8Array.from(sent.flatMap((message) => [...frame(message)]));
        const reader = new FrameReader();
        const received: string[] = [];
        // One buffer holds all chunks in turn, as a caller may do it.
        const buffer = new Uint8Array(8);
        for (let start = 0, i = 0; start < bytes.length; i++) {
          const piece = bytes.subarray(start, start + (cuts[i % cuts.length] ?? 1));
          buffer.set(piece);
          received.push(...reader.push(buffer.subarray(0, piece.length)));
          start += piece.length;
        }
        assert.deepEqual(
          received.map((text) => JSON.parse(text) as unknown),
          JSON.parse(JSON.stringify(sent)),
        );
      }),
    );
  });

  it("DAEMON-05: a message longer than the limit is refused, and one of exactly that length is not", () => {
    const reader = new FrameReader();
    const line = new Uint8Array(LONGEST_MESSAGE + 1).fill(120);
    line[LONGEST_MESSAGE] = 10;
    assert.equal(reader.push(line)[0]?.length, LONGEST_MESSAGE);
    reader.push(line.subarray(0, LONGEST_MESSAGE));
    assert.throws(() => reader.push(Uint8Array.of(120)), { code: "ERR_PROTOCOL", message: /longer than 65536 bytes/ });
    assert.throws(() => frame({ text: "x".repeat(LONGEST_MESSAGE) }), { code: "ERR_PROTOCOL" });
  });
});
