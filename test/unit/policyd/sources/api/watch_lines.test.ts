import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import fc from "fast-check";
import { DrawbridgeError } from "../../../../../kernel/error.ts";
import { PageReader } from "../../../../../policyd/sources/api/page.ts";
import { type WatchEvent, WatchLines } from "../../../../../policyd/sources/api/watch_lines.ts";

const line = (type: string, object: unknown): string => `${JSON.stringify({ type, object })}\n`;
const pod = (name: string, resourceVersion: string): object => ({ kind: "Pod", metadata: { name, resourceVersion } });

function eventsOf(bytes: Uint8Array, sizes: readonly number[]): readonly WatchEvent[] {
  const lines = new WatchLines();
  const events: WatchEvent[] = [];
  for (let at = 0, i = 0; at < bytes.length; i++) {
    const size = sizes[i % sizes.length] ?? 1;
    events.push(...lines.push(bytes.subarray(at, at + size)));
    at += size;
  }
  return events;
}

const isRefused = (action: () => unknown): boolean => {
  try {
    action();
    return false;
  } catch (error) {
    assert.ok(error instanceof DrawbridgeError && error.code === "ERR_OBJECT", String(error));
    return true;
  }
};

describe("policyd/sources/api/watch_lines", () => {
  it("API-16: every sort of event is read, wherever the chunks are cut, also inside a character", () => {
    const text =
      line("ADDED", pod("zürich-€", "1")) +
      line("MODIFIED", pod("a", "2")) +
      "\r\n" +
      line("DELETED", pod("a", "3")) +
      line("BOOKMARK", { metadata: { resourceVersion: "4" } }) +
      line("BOOKMARK", { metadata: { resourceVersion: "5", annotations: { "k8s.io/initial-events-end": "true" } } }) +
      line("ERROR", { code: 410, message: "too old", details: { retryAfterSeconds: 3 } });
    const bytes = Buffer.from(text);
    const whole = eventsOf(bytes, [bytes.length]);
    assert.deepEqual(whole, [
      { type: "set", object: pod("zürich-€", "1"), resourceVersion: "1" },
      { type: "set", object: pod("a", "2"), resourceVersion: "2" },
      { type: "delete", object: pod("a", "3"), resourceVersion: "3" },
      { type: "bookmark", resourceVersion: "4", endsList: false },
      { type: "bookmark", resourceVersion: "5", endsList: true },
      { type: "error", status: 410, words: "too old", retryAfter: 3 },
    ]);
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 90 }), { minLength: 1 }), (sizes) => {
        assert.deepEqual(eventsOf(bytes, sizes), whole);
      }),
    );
  });

  it("API-16: a line that is not an event, has no version or does not end is refused", () => {
    for (const bad of [
      "}{\n",
      '"x"\n',
      "null\n",
      line("SOMETHING", pod("a", "1")),
      line("ADDED", {}),
      line("ADDED", pod("a", "")),
      line("BOOKMARK", null),
      '{"type":"ADDED","object":{"metadata":{"resourceVersion":7}}}\n',
    ]) {
      assert.ok(
        isRefused(() => eventsOf(Buffer.from(bad), [7])),
        bad,
      );
    }
    const endless = new WatchLines();
    const chunk = Buffer.alloc(1024 * 1024, "x");
    assert.ok(
      isRefused(() => {
        for (let i = 0; i < 20; i++) assert.deepEqual([...endless.push(chunk)], []);
      }),
    );
    assert.ok(endless.pending < 18 * 1024 * 1024, "an endless line is not kept");
  });

  it("API-16: any bytes of a page or a watch are read or refused", () => {
    const resource = { kind: "Pod", apiVersion: "v1" } as const;
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), fc.json(), (bytes, json) => {
        for (const body of [bytes, Buffer.from(`${json}\n`), Buffer.from(line("ADDED", JSON.parse(json)))]) {
          isRefused(() => [...new WatchLines().push(body)]);
          isRefused(() => {
            const reader = new PageReader(resource);
            return [...reader.push(body), reader.end()];
          });
        }
      }),
    );
  });
});
