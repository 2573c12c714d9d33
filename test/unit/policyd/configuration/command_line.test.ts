import assert from "node:assert/strict";
import { CommanderError } from "commander";
import { readCommandLine } from "../../../../policyd/configuration/command_line.ts";

describe("policyd/configuration/command_line", () => {
  const read = (...args: readonly string[]) => readCommandLine(args, "1.2.3", () => undefined);

  it("DAEMON-04: the command line gives each field that is set, with the flag that set it", () => {
    const args = [
      "--node-name",
      "n",
      "--objects=/o",
      "--config",
      "c.yaml",
      "--table-owner",
      "--pod-cidrs",
      "10.0.0.0/8,fd00::/8",
    ];
    assert.deepEqual(read(...args), {
      config: "c.yaml",
      networkNamespace: undefined,
      flags: {
        nodeName: { value: "n", where: "--node-name" },
        objectsDirectory: { value: "/o", where: "--objects" },
        tableOwner: { value: true, where: "--table-owner" },
        podCIDRs: { value: ["10.0.0.0/8", "fd00::/8"], where: "--pod-cidrs" },
      },
    });
    assert.deepEqual(read(), { config: undefined, networkNamespace: undefined, flags: {} });
  });

  it("DAEMON-04: a relative path starts at the working directory, and an empty path stays empty", () => {
    const { flags } = read("--objects", "objects", "--socket", "");
    assert.equal(flags["objectsDirectory"]?.value, `${process.cwd()}/objects`);
    assert.equal(flags["socketPath"]?.value, "");
  });

  it("DAEMON-04: unknown flags, arguments and missing values are refused", () => {
    for (const args of [["--node-nam", "n"], ["extra"], ["--objects"]]) {
      assert.throws(
        () => read(...args),
        (error: unknown) => error instanceof CommanderError && error.exitCode === 1,
      );
    }
  });

  it("--help prints the help and --version the version", () => {
    for (const [flag, expected] of [
      ["--help", /--objects <directory>/],
      ["--version", /^1\.2\.3\n$/],
    ] as const) {
      let text = "";
      assert.throws(() => readCommandLine([flag], "1.2.3", (part) => (text += part)), { exitCode: 0 });
      assert.match(text, expected);
    }
  });
});
