import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import process from "node:process";
import { requireKernel } from "../../support/privilege.ts";

const MAIN = path.resolve(import.meta.dirname, "../../../cli/main.ts");

/**
 * A kubectl whose cluster is a network namespace: it runs the programs of the pods and those that are executed in them.
 * A policy that closes the servers ends them. `exec` waits where the file `wait` exists.
 */
const KUBECTL = `
const { spawn, execFileSync } = require("node:child_process");
const fs = require("node:fs"), os = require("node:os"), path = require("node:path");
const directory = process.env.DIRECTORY, args = process.argv.slice(2).filter((one) => !one.startsWith("--namespace=")), file = (name) => path.join(directory, name);
fs.appendFileSync(file("calls"), args.slice(0, 3).join(" ") + "\\n");
const node = (words, options) => spawn(process.execPath, words, options);
const serve = () => {
  const { command } = JSON.parse(fs.readFileSync(file("pods"), "utf8")).items.find(({ kind }) => kind === "Pod").spec.containers[0];
  const child = node(command.slice(1), { detached: true, stdio: "ignore" });
  fs.writeFileSync(file("server"), String(child.pid));
  child.unref();
};
const end = () => { try { process.kill(Number(fs.readFileSync(file("server"), "utf8")), "SIGKILL"); } catch {} };
if (args[0] === "create") {
  const text = fs.readFileSync(0, "utf8");
  if (text.includes('"kind":"List"')) { fs.writeFileSync(file("pods"), text); serve(); }
  else if (text.includes('"ingress":[]')) end();
  else serve();
} else if (args[0] === "delete") end();
else if (args[0] === "exec") {
  const words = args.slice(args.indexOf("--") + 2).map((word) => word.replaceAll(/server\\.[a-z0-9-]+\\.svc/g, "localhost"));
  if (fs.existsSync(file("wait"))) { fs.writeFileSync(file("waiting"), ""); setTimeout(() => {}, 2000); }
  else if (words[0] === "-e") node(words, { stdio: "inherit" }).on("exit", (code) => (process.exitCode = code));
  else console.log("{}");
} else if (args.some((word) => word.includes("image"))) console.log("d n1 Running image");
else if (args.some((word) => word.includes("linux"))) console.log("n1");
else if (args.includes("pods,services")) {
  const pod = (name) => ({ kind: "Pod", metadata: { name }, status: { podIPs: [{ ip: "127.0.0.1" }, { ip: "::1" }], hostIPs: [{ ip: "127.0.0.1" }] } });
  const service = { kind: "Service", metadata: { name: "server", namespace: "n" }, spec: { clusterIPs: [], ports: [{ nodePort: 8080 }] } };
  console.log(JSON.stringify({ items: [pod("client"), pod("server-same-node"), service] }));
} else console.log("{}");
`;

describe("check and bundle with a kubectl that runs their programs", function () {
  this.timeout(120_000);
  let directory = "";

  before(function () {
    requireKernel(this);
    directory = mkdtempSync(path.join(os.tmpdir(), "drawbridge-check-"));
    writeFileSync(path.join(directory, "kubectl.js"), KUBECTL);
    writeFileSync(
      path.join(directory, "kubectl"),
      `#!/bin/sh\nexec ${process.execPath} ${directory}/kubectl.js "$@"\n`,
    );
    chmodSync(path.join(directory, "kubectl"), 0o755);
  });
  after(() => {
    if (directory !== "") rmSync(directory, { recursive: true });
  });

  /** Runs a command in a network namespace of its own, with an empty /run. @param act gets the process while it runs */
  const run = async (args: readonly string[], act: (pid: number) => void = () => {}) => {
    writeFileSync(path.join(directory, "calls"), "");
    const script = `mount -t tmpfs none /run && ip link set lo up && exec ${process.execPath} --no-warnings ${MAIN} ${args.join(" ")}`;
    const env = { ...process.env, DIRECTORY: directory, PATH: `${directory}:${process.env["PATH"]}` };
    const child = spawn("unshare", ["--net", "--mount", "sh", "-c", script], {
      env,
      stdio: ["ignore", "pipe", "pipe"],
    });
    const texts = { out: "", err: "" };
    child.stdout.setEncoding("utf8").on("data", (text: string) => (texts.out += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (texts.err += text));
    const ended = new Promise<number | null>((resolve) => child.on("close", resolve));
    act(child.pid ?? assert.fail("it has not started"));
    const code = await ended;
    return { code, ...texts, calls: readFileSync(path.join(directory, "calls"), "utf8") };
  };

  it("CHECK-01: the pods' programs serve and connect in both families, a policy that denies is seen, and all is removed", async () => {
    const { code, out, err, calls } = await run(["check", "--outside", "127.0.0.1:8080"]);
    assert.equal(code, 0, `${out}${err}`);
    for (const family of [4, 6])
      for (const what of ["", " that a policy denies", " that a policy allows"])
        assert.match(out, new RegExp(`^pod on the same node${what} +IPv${family} .* ok$`, "m"));
    assert.match(out, /^outside +IPv4 +127\.0\.0\.1 8080 +ok$/m);
    assert.match(calls, /\ndelete namespace drawbridge-check-[0-9a-f]{8}\n$/);
  });

  it("CHECK-01: a port on which nobody listens is reported with the kernel's reason, with exit code 1", async () => {
    const { code, out } = await run(["check", "--outside", "[::1]:9"]);
    assert.equal(code, 1);
    assert.match(out, /^outside +IPv6 +::1 9 +ECONNREFUSED$/m);
  });

  it("CHECK-01: SIGINT and SIGTERM while a pod is asked end with exit code 3, after the namespace is deleted", async () => {
    for (const signal of ["SIGINT", "SIGTERM"] as const) {
      writeFileSync(path.join(directory, "wait"), "");
      const { code, out, calls } = await run(["check"], (pid) => {
        const timer = setInterval(() => {
          if (!existsSync(path.join(directory, "waiting"))) return;
          clearInterval(timer);
          process.kill(pid, signal);
        }, 20);
      });
      for (const file of ["wait", "waiting"]) rmSync(path.join(directory, file));
      assert.deepEqual([code, out], [3, ""]);
      assert.match(calls, /\nexec .*\ndelete namespace drawbridge-check-[0-9a-f]{8}\n$/);
    }
  });

  it("BUNDLE-01: the program in the daemon's container reads links, routes and records, and says what is not there", async () => {
    const { code, out } = await run(["bundle"]);
    assert.equal(code, 1, "no metrics here");
    const file = (name: string): unknown =>
      JSON.parse(
        execFileSync("tar", ["-xOf", "-", `drawbridge-bundle/n1/${name}.json`], { input: out, encoding: "utf8" }),
      );
    const { links } = file("links") as { readonly links: Record<string, Record<string, string>> };
    assert.equal(links["lo"]?.["mtu"], "65536");
    assert.match((file("routes") as { readonly fib_trie: string }).fib_trie, /127\.0\.0\.1/);
    assert.match(String(file("status")), /ENOENT/);
    assert.match(
      execFileSync("tar", ["-xOf", "-", "drawbridge-bundle/missing.txt"], { input: out, encoding: "utf8" }),
      /metrics/,
    );
  });
});
