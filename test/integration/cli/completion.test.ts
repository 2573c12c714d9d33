import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import process from "node:process";
import { CLI_DIRECTORY } from "../../support/cli/program.ts";
import { requireProgram } from "../../support/privilege.ts";

/** Typed lines, each with the words to which the shell completes the last word, or which it offers. */
const CASES: readonly (readonly [typed: string, offered: readonly string[]])[] = [
  ["drawbridge policy matr", ["matrix"]],
  ["drawbridge policy matrix --by name", ["namespace"]],
  ["drawbridge policy matrix --by=name", ["--by=namespace"]],
  ["drawbridge policy matrix -o htm", ["html"]],
  ["drawbridge policy matrix --port 53/U", ["53/UDP"]],
  ["drawbridge policy matrix -f some_man", ["some_manifest.yaml"]],
  ["drawbridge policy matrix --rec", ["--recursive"]],
  ["drawbridge node audit --rep", ["--repair"]],
];

describe("completion in real shells", function () {
  this.timeout(120_000);
  let directory = "";

  before(() => {
    directory = mkdtempSync(path.join(os.tmpdir(), "drawbridge-completion-"));
    symlinkSync(path.join(CLI_DIRECTORY, "drawbridge.js"), path.join(directory, "drawbridge"));
    writeFileSync(path.join(directory, "some_manifest.yaml"), "");
  });

  after(() => rmSync(directory, { recursive: true, force: true }));

  /** Runs a shell with a script. @returns what it prints, in lines */
  function run(shell: string, args: readonly string[], script: string): readonly string[] {
    const env = { ...process.env, PATH: `${directory}:${process.env["PATH"]}`, HOME: directory, TERM: "xterm" };
    const { status, stdout, stderr, error } = spawnSync(shell, [...args, script], {
      cwd: directory,
      env,
      encoding: "utf8",
    });
    assert.equal(status, 0, `${error?.message ?? ""}${stderr}${stdout}`);
    assert.equal(stderr, "");
    return stdout.split("\n").filter((line) => line !== "");
  }

  /** Returns what a shell offers in each case, by a script for all of them in which a line `==` ends each case. */
  function offers(shell: string, args: readonly string[], script: readonly string[]): readonly (readonly string[])[] {
    return run(shell, args, script.join("\n"))
      .join("\n")
      .split(/^==\n?/m)
      .slice(0, -1)
      .map((lines) => lines.split("\n").filter((line) => line !== ""));
  }

  it("CLI-06: bash completes subcommands, options, values and file names", function () {
    requireProgram(this, "bash");
    const script = CASES.map(([typed]) => {
      // bash splits words like this.
      const words = typed.split(/ |(=)/).filter((word) => word !== undefined);
      return `COMP_WORDS=(${words.map(quoted).join(" ")}); COMP_CWORD=${words.length - 1}
        _drawbridge; printf '%s\n' "\${COMPREPLY[@]}" ==`;
    });
    const offered = offers("bash", ["--norc", "-c"], ["source <(drawbridge completion bash)", ...script]);
    for (const [place, [typed, expected]] of CASES.entries()) {
      const begun = typed.includes("=") ? `${typed.split(" ").at(-1)?.split("=", 1)[0]}=` : "";
      assert.deepEqual(
        offered[place]?.map((word) => begun + word),
        expected,
        typed,
      );
    }
  });

  it("CLI-06: zsh completes subcommands, options, values and file names", function () {
    requireProgram(this, "zsh");
    for (const [typed, offered] of CASES) {
      const [shown = ""] = run("zsh", ["-f", "-c"], typedInZsh(typed));
      const before = typed.slice(0, typed.lastIndexOf(" ") + 1);
      assert.equal(shown.trim(), `[${before}${offered.join(" ")}]`.replace("]", " ]"), typed);
    }
  });

  it("CLI-06: fish completes subcommands, options, values and file names", function () {
    requireProgram(this, "fish");
    const script = CASES.map(([typed]) => `complete -C ${quoted(typed)}; echo ==`);
    const offered = offers("fish", ["--no-config", "-c"], ["drawbridge completion fish | source", ...script]);
    assert.deepEqual(
      offered.map((lines) => lines.map((line) => line.split("\t", 1)[0])),
      CASES.map(([, expected]) => expected),
    );
  });

  it("CLI-06: kubectl finds the plugin and its completions under their names", () => {
    const plugin = run("/bin/sh", ["-c"], `${path.join(CLI_DIRECTORY, "kubectl_complete-drawbridge")} policy matr`);
    assert.deepEqual(plugin, ["matrix\twho may send what to whom", ":4"]);
    const [usage = ""] = run("/bin/sh", ["-c"], `${path.join(CLI_DIRECTORY, "kubectl-drawbridge")} policy --help`);
    assert.match(usage, /^Usage: kubectl drawbridge policy/);
  });
});

/** Returns a script that types a line into an interactive zsh, then a Tab, then a key that shows the line. */
function typedInZsh(typed: string): string {
  return `
    zmodload zsh/zpty
    zpty -b shell zsh -f -i
    zpty -w shell 'autoload -Uz compinit; compinit -u -D; source <(drawbridge completion zsh)'
    zpty -w shell 'show() { print -r -- "[$BUFFER]" > shown.part; mv shown.part shown }; zle -N show; bindkey "^X" show'
    zpty -w shell 'rm -f shown; touch ready'
    until [[ -e ready ]]; do sleep 0.05; done
    zpty -w -n shell ${quoted(typed)}$'\\t\\030'
    until [[ -e shown ]]; do sleep 0.05; done
    cat shown; rm -f shown ready
    zpty -d shell`;
}

function quoted(word: string): string {
  return `'${word}'`;
}
