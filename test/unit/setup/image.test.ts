import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { LAYERS, linkedLibraries } from "../../setup/image_files.mjs";
import { TASKS } from "../../setup/tasks.mjs";

const LDD = `/work/node:
	linux-vdso.so.1 (0x00007f52fd91d000)
	libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f52fd3fe000)
	libgone.so.1 => not found
	/lib64/ld-linux-x86-64.so.2 (0x00007f52fd91f000)
`;

describe("setup: the container image", () => {
  it("has the libraries that are found, and the program that loads them", () => {
    assert.deepEqual(linkedLibraries(LDD), ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"]);
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
    assert.deepEqual(tasks.map(([name]) => name).sort(), ["image", "test:cluster", "test:full"]);
  });
});
