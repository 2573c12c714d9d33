import assert from "node:assert/strict";
import { VERSION } from "../../../policyd/version.ts";
import { memoryFiles, runCli } from "../../support/cli/cli.ts";

const run = (args: readonly string[], files: Readonly<Record<string, string>> = {}) => runCli(args, memoryFiles(files));
const pod = (name: string): string =>
  `{ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "${name}", "namespace": "a" }, "spec": { "containers": [] } }\n`;

describe("cli/program", () => {
  it("CLI-33: `version` prints the same version as --version, as text and as JSON", async () => {
    assert.deepEqual(await run(["version"]), { code: 0, out: `drawbridge ${VERSION}\n`, err: "" });
    assert.deepEqual(JSON.parse((await run(["version", "-o", "json"])).out), { version: VERSION });
    assert.equal((await run(["--version"])).out, `${VERSION}\n`);
  });

  it("CLI-33: a command without its group is an error that names the whole command", async () => {
    const words = async (...args: readonly string[]): Promise<string> => {
      const { code, out, err } = await run(args);
      assert.deepEqual([code, out], [2, ""]);
      return err;
    };
    assert.equal(
      await words("matrix", "-f", "x"),
      "error: unknown command 'matrix': it is `drawbridge policy matrix`\n",
    );
    assert.equal(
      await words("explain"),
      "error: unknown command 'explain': it is `drawbridge policy explain` or `drawbridge service explain`\n",
    );
    assert.match(await words("polcy", "matrix"), /Did you mean policy\?/);
  });

  it("CLI-05: the sides of policy diff are arguments, values of -f, or an old argument and new values of -f", async () => {
    const files = { "a.yaml": pod("x"), "b.yaml": pod("x"), "c.yaml": pod("y") };
    const codeOf = async (...args: readonly string[]): Promise<number> =>
      (await run(["policy", "diff", ...args], files)).code;
    assert.equal(await codeOf("a.yaml", "b.yaml"), 0);
    assert.equal(await codeOf("-f", "a.yaml", "-f", "b.yaml"), 0);
    assert.equal(await codeOf("-f", "a.yaml", "b.yaml"), 0);
    assert.equal(await codeOf("a.yaml", "-f", "b.yaml"), 0);
    assert.equal(await codeOf("a.yaml", "-f", "b.yaml", "-f", "c.yaml"), 1, "a pod more");
  });

  for (const words of [
    ["policy", "matrix"],
    ["policy", "dry-run"],
    ["node", "doctor"],
    ["service", "explain"],
  ]) {
    it(`CLI-33: help ${words.join(" ")} prints what --help of that command prints`, async () => {
      const [help, option] = [
        await runCli(["help", ...words], memoryFiles({})),
        await runCli([...words, "--help"], memoryFiles({})),
      ];
      assert.deepEqual(help, option);
      assert.match(help.out, new RegExp(`^Usage: drawbridge ${words.join(" ")} `));
    });
  }
});
