import assert from "node:assert/strict";
import { GROUPINGS } from "../../../../cli/cluster/group.ts";
import { MATRIX_FORMATS } from "../../../../cli/policy/matrix/command.ts";
import { memoryFiles, runCli } from "../../../support/cli/cli.ts";

/** Returns the completions of a line's last word, and the directive: `files` or `words`. */
async function completions(
  ...words: readonly string[]
): Promise<{ readonly values: readonly string[]; readonly takes: string }> {
  const { code, out, err } = await runCli(["__complete", ...words], memoryFiles({}));
  assert.equal(code, 0, err);
  const lines = out.trimEnd().split("\n");
  const values = lines.slice(0, -1).map((line) => line.split("\t", 1)[0] ?? "");
  return { values, takes: lines.at(-1) === ":0" ? "files" : "words" };
}

describe("cli/completion: candidates", () => {
  it("CLI-06: the candidates for a command are the commands with their descriptions", async () => {
    const { values } = await completions("");
    for (const name of ["policy", "rules", "service", "completion"]) assert.ok(values.includes(name), name);
    assert.deepEqual((await completions("policy", "m")).values, ["matrix"]);
    const { out } = await runCli(["__complete", "policy", "ma"], memoryFiles({}));
    assert.equal(out, "matrix\twho may send what to whom\n:4\n");
  });

  it("CLI-06: the candidates for an option are those of the called command, also after other options", async () => {
    for (const before of [[], ["-f", "x"], ["--by", "pod"], ["-R"]]) {
      const { values } = await completions("policy", "matrix", ...before, "--");
      const input = ["--filename", "--recursive", "--cluster", "--kubeconfig", "--context", "--request-timeout"];
      const expected = [...input, "--by", "--port", "--output", "--help"];
      assert.deepEqual(
        values.filter((value) => expected.includes(value)),
        expected,
      );
      assert.ok(!values.includes("--against"), "an option of another command is not a candidate");
    }
    assert.deepEqual((await completions("policy", "matrix", "--", "--")).values, [], "after -- there are none");
  });

  it("CLI-06: the candidates for an option's value or an argument are its choices", async () => {
    assert.deepEqual((await completions("policy", "matrix", "--by", "")).values, GROUPINGS);
    assert.deepEqual((await completions("policy", "matrix", "-o", "")).values, MATRIX_FORMATS);
    assert.deepEqual((await completions("policy", "matrix", "--by=w")).values, ["--by=workload"]);
    assert.deepEqual((await completions("completion", "")).values, ["bash", "zsh", "fish"]);
  });

  it("CLI-06: files are candidates only where a path is expected", async () => {
    for (const words of [["-f"], ["--filename"], ["-f", "x.yaml"], ["--by", "pod", "-f"]]) {
      assert.equal((await completions("policy", "matrix", ...words, "")).takes, "files", words.join(" "));
    }
    assert.equal((await completions("policy", "matrix", "--filename=a")).takes, "files");
    assert.equal((await completions("policy", "diff", "")).takes, "files");
    assert.equal((await completions("policy", "diff", "a", "")).takes, "files");
    assert.equal((await completions("policy", "diff", "a", "b", "")).takes, "words");
    assert.equal((await completions("policy", "matrix", "")).takes, "words");
    assert.equal((await completions("policy", "matrix", "-f", "x", "--by", "")).takes, "words");
  });

  it("CLI-06: the candidates after a port are the protocols", async () => {
    assert.deepEqual((await completions("policy", "matrix", "--port", "80")).values, ["80/TCP", "80/UDP", "80/SCTP"]);
    assert.deepEqual((await completions("policy", "matrix", "--port", "80/TCP,53/U")).values, ["80/TCP,53/UDP"]);
    assert.deepEqual((await completions("policy", "matrix", "--port", "")).values, []);
  });

  it("CLI-06: completion answers any words", async () => {
    for (const words of [
      [],
      ["-"],
      ["--"],
      ["="],
      ["--=x"],
      ["nothing", ""],
      ["policy", "-h", ""],
      ["-V", "--version", ""],
      ["help", ""],
    ]) {
      assert.match((await runCli(["__complete", ...words], memoryFiles({}))).out, /:[04]\n$/);
    }
  });
});
