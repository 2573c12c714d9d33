import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import process from "node:process";
import { imageStart } from "../../bench/daemon/image_start.ts";

describe("test/bench/daemon/image_start", () => {
  it("the daemon starts with the image's options, which this Node accepts", () => {
    const { nodeOptions, environment } = imageStart();
    assert.ok(nodeOptions.includes("--optimize-for-size"), nodeOptions.join(" "));
    assert.deepEqual(Object.keys(environment), ["MALLOC_ARENA_MAX"]);
    const { status, stderr } = spawnSync(process.execPath, [...nodeOptions, "--eval", ""], { encoding: "utf8" });
    assert.deepEqual([status, stderr], [0, ""]);
  });

  it("an image without an ENTRYPOINT is refused", () => {
    assert.throws(() => imageStart("FROM scratch\n"), /no ENTRYPOINT/);
  });
});
