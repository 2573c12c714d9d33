import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { LAYERS, neededBy } from "../../setup/image_files.mjs";
import { TASKS } from "../../setup/tasks.mjs";

const READELF = `
  INTERP         0x000318 0x0000000000000318 0x0000000000000318 0x00001b 0x00001b R   0x1
      [Requesting program interpreter: /lib/ld-linux-aarch64.so.1]
 0x0000000000000001 (NEEDED)             Shared library: [libdl.so.2]
 0x0000000000000001 (NEEDED)             Shared library: [libstdc++.so.6]
 0x000000000000000e (SONAME)             Library soname: [libnone.so.1]
`;

describe("setup: the container image", () => {
  it("has the libraries that readelf names, and the program that loads them", () => {
    const libraries = ["libdl.so.2", "libstdc++.so.6"];
    assert.deepEqual(neededBy(READELF), { loader: "/lib/ld-linux-aarch64.so.1", libraries });
    assert.deepEqual(neededBy(""), { loader: undefined, libraries: [] });
  });

  it("has the layers of its Containerfile, which pulls nothing", () => {
    const lines = readFileSync("manifests/image/Containerfile", "utf8").split("\n");
    const of = (instruction: string): readonly string[] =>
      lines.filter((line) => line.startsWith(`${instruction} `)).map((line) => line.slice(instruction.length + 1));
    assert.deepEqual(of("FROM"), ["scratch"]);
    assert.deepEqual(
      of("COPY"),
      LAYERS.map((layer) => `${layer}/ /`),
    );
    assert.deepEqual(of("RUN"), []);
  });

  it("is made by buildah, only for those tasks that need it, and not by each `npm test`", () => {
    const tasks = [...TASKS].filter(([, { tools }]) => tools.some(({ command }) => command === "buildah"));
    assert.deepEqual(tasks.map(([name]) => name).sort(), [
      "image",
      "release",
      "test:cluster",
      "test:full",
      "test:kernels",
    ]);
  });
});
