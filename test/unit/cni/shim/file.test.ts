import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { emitArguments } from "../../../../cni/shim/emit.ts";
import { shimExecutable } from "../../../../cni/shim/executable.ts";
import { addressesOf, place } from "../../../../cni/shim/image.ts";
import { listing } from "../../../../cni/shim/listing.ts";
import { shimProgram } from "../../../../cni/shim/program.ts";
import { parameters } from "./parameters.ts";

/** Returns the fields of each Elf64_Phdr that the tests check. */
function programHeaders(file: Uint8Array): readonly (readonly number[])[] {
  const view = new DataView(file.buffer, file.byteOffset, file.length);
  const long = (at: number): number => Number(view.getBigUint64(at, true));
  const start = long(32);
  return Array.from({ length: view.getUint16(56, true) }, (_, index) => {
    const at = start + index * view.getUint16(54, true);
    return [
      view.getUint32(at, true),
      view.getUint32(at + 4, true),
      ...[8, 16, 32, 40, 48].map((field) => long(at + field)),
    ];
  });
}

const PT_LOAD = 1;
const PT_GNU_STACK = 0x6474e551;
const READ_EXECUTE = 5;
const READ_WRITE = 6;

describe("cni/shim: the program and its file", () => {
  it("the program is the one in program.txt", () => {
    const expected = readFileSync(new URL("./program.txt", import.meta.url), "utf8");
    assert.equal(listing(shimProgram(parameters)), expected);
  });

  for (const [machine, number] of [
    ["x64", 62],
    ["arm64", 183],
  ] as const) {
    const file = shimExecutable({ ...parameters, machine });
    const view = new DataView(file.buffer, file.byteOffset, file.length);

    it(`is a static executable of ${machine} without memory both writable and executable`, () => {
      assert.equal(Buffer.from(file.subarray(0, 8)).toString("hex"), "7f454c4602010100");
      assert.deepEqual([view.getUint16(16, true), view.getUint16(18, true)], [2, number]);
      assert.deepEqual(
        programHeaders(file).map(([type, flags]) => [type, flags]),
        [
          [PT_LOAD, READ_EXECUTE],
          [PT_LOAD, READ_WRITE],
          [PT_GNU_STACK, READ_WRITE],
        ],
      );
    });

    it(`has both segments of ${machine} in the file, in pages of their own up to 64 KiB, and begins in the first`, () => {
      const entry = Number(view.getBigUint64(24, true));
      const [first = [], second = []] = programHeaders(file);
      const [, , offset = 0, address = 0, size = 0, memorySize = 0, alignment = 0] = first;
      const [, , dataOffset = 0, dataAddress = 0, dataSize = 0, dataMemory = 0] = second;
      assert.deepEqual([offset, address % alignment, memorySize, alignment], [0, 0, size, 65536]);
      assert.ok(entry > address && entry < address + size);
      assert.equal(dataOffset, size);
      assert.equal(dataOffset + dataSize, file.length);
      assert.equal(dataAddress % alignment, dataOffset % alignment);
      assert.ok(Math.floor(dataAddress / alignment) > Math.floor((address + size - 1) / alignment));
      assert.ok(dataMemory > dataSize + 64 * 1024);
    });

    it(`has code and constants of ${machine} in one page`, () => {
      assert.ok(file.length <= 4096, `${file.length} bytes`);
    });
  }

  it("parameters that no shim can have are refused by their names", () => {
    for (const runDirectory of ["run", "/", "/run/", "", "/a\0b", `/${"d".repeat(100)}`])
      assert.throws(() => shimExecutable({ ...parameters, runDirectory }), {
        code: "ERR_CONFIGURATION",
        message: /^run directory: /,
      });
    for (const pluginName of ["", "a/b", "a\0", "ä".repeat(128)])
      assert.throws(() => shimExecutable({ ...parameters, pluginName }), {
        code: "ERR_CONFIGURATION",
        message: /^plugin name: /,
      });
    for (const entry of ["A", "=1", "A=\0"])
      assert.throws(() => shimExecutable({ ...parameters, serverEnvironment: [entry] }), {
        code: "ERR_CONFIGURATION",
        message: /^server environment: /,
      });
    assert.ok(shimExecutable({ ...parameters, runDirectory: `/${"d".repeat(99)}` }).length > 0);
  });

  it("the error names a symbol that is in no section", () => {
    const addressOf = addressesOf(place([{ section: "buffers", name: "there", size: 1 }], "buffers", 4));
    assert.equal(addressOf("there"), 8);
    assert.throws(() => addressOf("nowhere"), { code: "ERR_INPUT", message: /"nowhere" is not in the image/ });
  });

  it("the parameters are read from a command line", () => {
    const line = "out --run-directory /r --machine arm64 --server-environment A=1 --server-environment B=2";
    assert.deepEqual(emitArguments(line.split(" ")), {
      output: "out",
      parameters: {
        machine: "arm64",
        runDirectory: "/r",
        pluginName: "drawbridge-plugin",
        serverEnvironment: ["A=1", "B=2"],
      },
    });
    for (const wrong of [
      "--run-directory /r",
      "out",
      "out more --run-directory /r",
      "out --run-directory /r --machine mips",
    ])
      assert.throws(() => emitArguments(wrong.split(" ")), { code: "ERR_CONFIGURATION" });
  });
});
