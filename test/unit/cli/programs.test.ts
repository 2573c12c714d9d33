import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import type { ProgramResult, Programs } from "../../../cli/input/programs/programs.ts";
import { systemPrograms } from "../../../cli/input/programs/system_programs.ts";
import { memoryFiles, runCli } from "../../support/cli/cli.ts";
import { isAlive, type Owner, processAt } from "../../lab/owner.ts";
import { printed, ScriptedPrograms } from "../../support/cli/scripted_programs.ts";
import { until } from "../../support/until.ts";
import { useTemporaryDirectory } from "../../support/ipam/address_store.ts";

const POD = (name: string, namespace = ""): string => `apiVersion: v1
kind: Pod
metadata: { name: ${name}${namespace === "" ? "" : `, namespace: ${namespace}`}, labels: { app: ${name} } }
spec: { containers: [{ name: c, ports: [{ containerPort: 80 }] }] }
---
`;

/** A line of `node flows --follow`. */
const NEWS =
  '{"from":{"workload":"shop/deployment/web"},"to":{"node":"n1"},"protocol":"TCP","port":443,"verdict":"allowed","observedAt":"from",' +
  '"firstSeen":"1970-01-01T00:00:00.000Z","lastSeen":"1970-01-01T00:00:00.000Z","count":1,"open":0,"bytes":0,"new":1}';

const CLOSED = `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: { name: closed }
spec: { podSelector: { matchLabels: { app: web } } }
---
`;

const run = (args: readonly string[], programs: Programs, files: Readonly<Record<string, string>> = {}) =>
  runCli(args, memoryFiles(files), undefined, undefined, { programs });
const explain = ["policy", "explain", "--from", "client", "--to", "web", "--port", "80"];

describe("cli/input/programs: manifests from the user's own programs", () => {
  it("CLI-31: --kustomize, and -k as in kubectl, reads the output of kustomize, or of kubectl if kustomize is missing, together with the files of -f", async () => {
    const output = printed(POD("web") + CLOSED);
    const own = new ScriptedPrograms({ kustomize: output, kubectl: printed("") });
    const { code, out } = await run([...explain, "--kustomize", "live", "-f", "a.yaml"], own, {
      "a.yaml": POD("client"),
    });
    assert.equal(code, 1);
    assert.match(out, /isolated by default\/closed \(kustomize live:6\)/);
    assert.deepEqual(own.called, ["kustomize build -- live"]);
    const kubectl = new ScriptedPrograms({ kubectl: output });
    assert.equal((await run([...explain, "-k", "live", "-f", "a.yaml"], kubectl, { "a.yaml": POD("client") })).code, 1);
    assert.deepEqual(kubectl.called, ["kustomize build -- live", "kubectl kustomize -- live"]);
  });

  it("CLI-31: policy diff takes what -f, --kustomize and --helm read in the order of the command line as the old and the new side", async () => {
    const closed = POD("web") + CLOSED;
    const programs = new ScriptedPrograms({ kustomize: printed(closed), helm: printed(closed) });
    for (const [args, word] of [
      [["--kustomize", "a b", "-f", "open.yaml"], "opens"],
      [["--helm", "a b", "-f", "open.yaml"], "opens"],
      [["-f", "open.yaml", "--kustomize", "a b"], "closes"],
      [["open.yaml", "--helm", "a b"], "closes"],
    ] as const) {
      const { code, out, err } = await run(["policy", "diff", ...args], programs, { "open.yaml": POD("web") });
      assert.deepEqual([code, out.split(" ")[0]], [1, word], err);
    }
    const both = new ScriptedPrograms({ kustomize: printed(POD("web")), helm: printed(closed) });
    const { out } = await run(["policy", "diff", "--helm", "c", "--kustomize", "k"], both);
    assert.match(out, /^opens /);
  });

  it("CLI-31: --helm renders a chart without its tests, with the value files and the namespace of -n", async () => {
    const programs = new ScriptedPrograms({ helm: printed(POD("web") + POD("client") + CLOSED) });
    const options = ["--helm", "chart", "--helm-values", "a.yaml", "b.yaml", "-n", "shop"];
    assert.equal((await run([...explain, ...options], programs)).code, 1);
    assert.deepEqual(programs.called, [
      "helm template --skip-tests --namespace=shop --values=a.yaml --values=b.yaml -- chart",
    ]);
    const alone = await run([...explain, "-f", "a.yaml", "--helm-values", "b.yaml"], programs);
    assert.deepEqual([alone.code, /--helm-values' is about a chart/.test(alone.err)], [2, true]);
  });

  it("CLI-31: a program that is missing, fails or exceeds a limit is one clear message, and exit code 3", async () => {
    const words = (result: ProgramResult | undefined) =>
      run(["policy", "matrix", "--helm", "chart"], new ScriptedPrograms(result === undefined ? {} : { helm: result }));
    const cases: readonly (readonly [ProgramResult | undefined, RegExp])[] = [
      [
        undefined,
        /^drawbridge: --helm runs your own helm \(https:\/\/helm\.sh\), which is not in PATH: install it, or give rendered manifests with -f\n$/,
      ],
      [
        { type: "failed", how: "exit code 1", words: "a\nb\nc\nd\ne\nError: no such \u001b[31mvalue\n" },
        /^drawbridge: helm template --skip-tests -- chart: it ended with exit code 1\n {4}b\n {4}c\n {4}d\n {4}e\n {4}Error: no such \S*value\n$/,
      ],
      [{ type: "too long" }, /no end within 60 seconds, so it was stopped/],
      [{ type: "too much" }, /it printed more than 64 MiB; expected manifests/],
    ];
    for (const [result, expected] of cases) {
      const { code, out, err } = await words(result);
      assert.deepEqual([code, out], [3, ""]);
      assert.match(err, expected);
      assert.ok(!err.includes("\u001b"), "no sequence for a terminal comes through");
    }
  });

  describe("real programs", () => {
    const directory = useTemporaryDirectory();
    const before = process.env["PATH"];

    beforeEach(() => {
      process.env["PATH"] = `${directory()}${path.delimiter}${before}`;
    });
    afterEach(() => void (process.env["PATH"] = before));

    const script = (name: string, text: string): void => {
      writeFileSync(path.join(directory(), name), `#!/bin/sh\n${text}\n`);
      chmodSync(path.join(directory(), name), 0o755);
    };
    const bounds = { milliseconds: 20_000, bytes: 1000 };

    it("CLI-31: a program gets its arguments unchanged, without a shell, and the standard input that it is given, if any", async () => {
      script("own", 'for one in "$@"; do echo "[$one]"; done; cat; echo end');
      const result = await systemPrograms.run("own", ["$(touch x)", "a b", "--", "-c"], bounds);
      assert.deepEqual(result, printed("[$(touch x)]\n[a b]\n[--]\n[-c]\nend\n"));
      assert.deepEqual(await systemPrograms.run("own", [], bounds, "{}\n"), printed("{}\nend\n"));
      script("deaf", "exec 0<&-; echo end");
      assert.deepEqual(await systemPrograms.run("deaf", [], bounds, "x".repeat(1_000_000)), printed("end\n"));
    });

    it("CLI-31: a failing program is reported with its exit code and last output, and an unknown one as missing", async () => {
      script("own", "echo half; echo no such chart >&2; exit 7");
      assert.deepEqual(await systemPrograms.run("own", [], bounds), {
        type: "failed",
        how: "exit code 7",
        words: "no such chart\n",
        output: "half\n",
      });
      assert.deepEqual(await systemPrograms.run("nobody-has-this-program", [], bounds), { type: "missing" });
    });

    /** A kubectl of two nodes: one has news all the time, the other none, and its process is in the file `pid`. */
    const kubectl = (): void =>
      script(
        "kubectl",
        `case "$*" in *pods*) printf 'a n1 Running\\nb n2 Running\\n';; *nodes*) printf 'n1\\nn2\\n';;
*\\ b\\ *) sleep 600 & echo $! > ${directory()}/new; mv ${directory()}/new ${directory()}/pid; wait;;
*) while :; do echo '${NEWS}'; sleep 0.1; done;; esac`,
      );
    const child = async (): Promise<Owner> => {
      const file = path.join(directory(), "pid");
      await until(() => existsSync(file), "the program runs");
      return processAt(Number(readFileSync(file, "utf8"))) ?? assert.fail("the program has ended");
    };
    // An ended process may stay as a zombie, and its ID may go to another one.
    const untilGone = (program: Owner): Promise<void> => until(() => !isAlive(program), "the program ends");

    it("CLI-31: flows --follow ends with its reader, and all programs that it has started end, too", async () => {
      kubectl();
      const own = spawn("/bin/sh", ["-c", `${process.execPath} cli/main.ts flows --follow | head -1`], {
        stdio: "pipe",
      });
      const program = await child();
      assert.deepEqual(await once(own, "close"), [0, null]);
      await untilGone(program);
    });

    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
      it(`CLI-31: ${signal} ends the command by this signal, and with it the programs that it has started`, async () => {
        script("kustomize", `sleep 600 & echo $! > ${directory()}/new; mv ${directory()}/new ${directory()}/pid; wait`);
        const own = spawn(process.execPath, ["cli/main.ts", "policy", "matrix", "-k", "."], { stdio: "ignore" });
        const program = await child();
        own.kill(signal);
        assert.deepEqual(await once(own, "exit"), [null, signal]);
        await untilGone(program);
      });
    }

    it("CLI-31: a program that does not end, or prints without end, is stopped with all its children", async () => {
      const survivor = path.join(directory(), "survivor");
      script("own", `(sleep 1; touch ${survivor}) & wait`);
      assert.deepEqual(await systemPrograms.run("own", [], { ...bounds, milliseconds: 200 }), { type: "too long" });
      script("flood", "while :; do echo 0123456789; done");
      assert.deepEqual(await systemPrograms.run("flood", [], bounds), { type: "too much" });
      await sleep(1500);
      assert.equal(existsSync(survivor), false);
    });
  });
});
