import assert from "node:assert/strict";
import { once } from "node:events";
import { Worker } from "node:worker_threads";

describe("kernel/netlink on a big-endian machine", () => {
  it("writes and reads every field in the machine's byte order, addresses in network order", async () => {
    const worker = new Worker(new URL("big_endian_worker.ts", import.meta.url));
    const seen: unknown[] = await once(worker, "message");
    assert.deepEqual(seen[0], {
      address: [
        "00000048" + "0014" + "0605" + "01020304" + "00000000",
        "0a400000" + "00000002",
        "00140001" + "fd000000000000000000000000000007",
        "00140002" + "fd000000000000000000000000000007",
        "00080008" + "00000002",
      ].join(""),
      veth: [
        "00000090" + "0010" + "0605" + "01020304" + "00000000",
        "00000000" + "00000000" + "00000000" + "00000000",
        "000a0001" + "0a580af40107" + "0000",
        "00060003" + "6100" + "0000",
        "00080004" + "00000578",
        "0008000a" + "00000003",
        "004c8012" + "00090001" + "7665746800" + "000000",
        "003c0002" + "00380001" + "00000000000000000000000000000000",
        "000a0001" + "0a580af40107" + "0000",
        "00060003" + "6200" + "0000",
        "00080004" + "00000578",
        "0008001c" + "00000005",
      ].join(""),
      header: [{ type: 20, flags: 0x605, sequence: 0x01020304 }],
      index: 2,
      errno: "EEXIST",
    });
  });
});
