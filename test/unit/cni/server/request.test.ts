import assert from "node:assert/strict";
import fc from "fast-check";
import { meansTheSameAnywhere, parseRequest } from "../../../../cni/server/request.ts";
import { littleEndian } from "../../../../kernel/netlink/writer.ts";
import { requestBytes } from "./fake_shims.ts";

/** Generates texts that execve(2) can hand over: without NUL and without half of a surrogate pair. */
const text = fc.string({ unit: "binary", maxLength: 30 }).filter((value) => !value.includes("\0"));
const variable = text.filter((value) => value !== "" && !value.includes("="));

describe("cni/server/request", () => {
  it("SERVER-09: the server sees any argv and environment of a call as the plugin itself would", () => {
    const argv = fc.array(text, { minLength: 1, maxLength: 4 });
    const environment = fc.dictionary(variable, text, { maxKeys: 8 });
    fc.assert(
      fc.property(argv, environment, (args, variables) => {
        const request = parseRequest(requestBytes(args, variables));
        assert.equal(request?.argv0, args[0]);
        assert.deepEqual(Object.entries(request?.environment ?? {}), Object.entries(variables));
      }),
    );
  });

  it("SERVER-09: bytes that are not a request give undefined, and never an exception", () => {
    const count = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n });
    fc.assert(
      fc.property(count, fc.uint8Array({ maxLength: 100 }), fc.nat({ max: 120 }), (argc, strings, length) => {
        const message = new Uint8Array(8 + strings.length);
        new DataView(message.buffer).setBigUint64(0, argc, littleEndian);
        message.set(strings, 8);
        const request = parseRequest(message.subarray(0, length));
        if (request === undefined) return;
        assert.ok(length > 8 && strings[Math.min(length, message.length) - 9] === 0 && argc >= 1n);
      }),
    );
  });

  const refused: readonly (readonly [what: string, message: Uint8Array])[] = [
    ["nothing", new Uint8Array()],
    ["only a count", new Uint8Array(8)],
    ["no argument", countOf(requestBytes(["drawbridge"], { A: "b" }), 0n)],
    ["more arguments than strings", countOf(requestBytes(["drawbridge"], { A: "b" }), 3n)],
    ["a count of 64 bits", countOf(requestBytes(["drawbridge"], {}), 2n ** 63n)],
    ["no NUL at its end", requestBytes(["drawbridge"], { A: "b" }).subarray(0, -1)],
  ];
  for (const [what, message] of refused) {
    it(`refuses ${what}`, () => assert.equal(parseRequest(message), undefined));
  }

  it("the first of a repeated variable counts, and entries that are not variables are ignored", () => {
    const message = requestBytes(["drawbridge", "A=0", "A=1", "A=2", "B", "=C", "D="], {});
    const request = parseRequest(countOf(message, 2n));
    assert.deepEqual(request, { argv0: "drawbridge", environment: { A: "1", D: "" } });
  });

  it("only the message is read from a larger buffer", () => {
    const message = requestBytes(["a"], { B: "c" });
    const buffer = new Uint8Array(message.length + 20).fill(65);
    buffer.set(message, 7);
    const request = parseRequest(buffer.subarray(7, 7 + message.length));
    assert.deepEqual(request, { argv0: "a", environment: { B: "c" } });
  });

  it("SERVER-01: a path that may mean another network namespace in another process is recognized", () => {
    const isSame = (netns?: string): boolean =>
      meansTheSameAnywhere({ argv0: "drawbridge", environment: netns === undefined ? {} : { CNI_NETNS: netns } });
    for (const path of [undefined, "", "/run/netns/a", "/proc/12/ns/net", "/var/run/netns/cni-1.2"]) {
      assert.ok(isSame(path), path);
    }
    const others = [
      "run/netns/a",
      "./a",
      "/proc/self/ns/net",
      "/proc/thread-self/fd/3",
      "/proc/self/fd/9",
      "/dev/fd/9",
    ];
    for (const path of [
      ...others,
      "/run/../proc/self/fd/9",
      "/run/./a",
      "/run/..",
      "//proc/self/fd/9",
      "/run/netns/",
    ]) {
      assert.ok(!isSame(path), path);
    }
  });
});

function countOf(message: Uint8Array, argc: bigint): Uint8Array {
  const changed = message.slice();
  new DataView(changed.buffer).setBigUint64(0, argc, littleEndian);
  return changed;
}
