import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { spawn } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import https, { type Server } from "node:https";
import type { AddressInfo } from "node:net";
import os from "node:os";
import path from "node:path";
import process from "node:process";
import { parse } from "acorn";
import packageJson from "../../../package.json" with { type: "json" };
import { type Certificate, makeCertificate } from "../../support/certificate.ts";
import { CLI_DIRECTORY } from "../../support/cli/program.ts";
import { FakeCluster, objectsIn } from "../../support/daemon/fake_cluster.ts";
import { OLDER_NODES, olderNode } from "../../support/programs/older_node.ts";

const FIXTURE = path.resolve("test/fixtures/cli/shop");
const TOKEN = "s3cret-t0ken";

interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

describe("the built program and a running cluster", function () {
  this.timeout(120_000);
  let directory = "";
  let program = "";
  let authority: Certificate;
  let server: Server;

  before(async () => {
    directory = mkdtempSync(path.join(os.tmpdir(), "drawbridge-cli-"));
    program = path.join(directory, "cli", "drawbridge.js");
    cpSync(CLI_DIRECTORY, path.dirname(program), { recursive: true, verbatimSymlinks: true });
    authority = makeCertificate("authority");
    const { certificate: cert, key } = makeCertificate("server", authority, "127.0.0.1");
    const fake = new FakeCluster(objectsIn(FIXTURE));
    server = https.createServer({ cert, key }, ({ headers, url = "" }, response) => {
      if (headers.authorization !== `Bearer ${TOKEN}`) return void response.writeHead(401).end("{}");
      void fake.get(url).then(({ status, body }) => response.writeHead(status).end(Buffer.concat(body)));
    });
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  });

  after(() => {
    server.closeAllConnections();
    server.close();
    rmSync(directory, { recursive: true, force: true });
  });

  /** Runs the program in a directory without node_modules. */
  function run(
    args: readonly string[],
    environment: Readonly<Record<string, string>> = {},
    node: readonly [string, ...string[]] = [process.execPath],
  ): Promise<Ended> {
    const env = { ...process.env, KUBECONFIG: path.join(directory, "config"), ...environment };
    const [file, ...options] = node;
    const child = spawn(file, [...options, program, ...args], {
      cwd: directory,
      env,
      stdio: ["ignore", "pipe", "pipe"],
    });
    const written = { out: "", err: "" };
    child.stdout.on("data", (text: Buffer) => void (written.out += text.toString()));
    child.stderr.on("data", (text: Buffer) => void (written.err += text.toString()));
    return new Promise((resolve, reject) => {
      child.on("error", reject).on("close", (code) => resolve({ code, ...written }));
    });
  }

  function writeKubeconfig(token: string): void {
    const { port } = server.address() as AddressInfo;
    const cluster = {
      server: `https://127.0.0.1:${port}`,
      "certificate-authority-data": Buffer.from(authority.certificate).toString("base64"),
    };
    const config = {
      "current-context": "here",
      clusters: [{ name: "one", cluster }],
      contexts: [{ name: "here", context: { cluster: "one", user: "me" } }],
      users: [{ name: "me", user: { token } }],
    };
    writeFileSync(path.join(directory, "config"), JSON.stringify(config));
  }

  it("DOCTOR-09: a copy of the program reads the cluster by the kubeconfig that kubectl takes", async () => {
    writeKubeconfig(TOKEN);
    const matrix = ["policy", "matrix", "--quiet", "--by", "pod", "--port", "8080/TCP", "-o", "json"];
    const ofCluster = await run([...matrix, "--cluster"]);
    const ofFiles = await run([...matrix, "-f", FIXTURE]);
    assert.deepEqual([ofFiles.code, ofFiles.err], [0, ""]);
    assert.deepEqual(ofCluster, ofFiles);
  });

  it("CLI-12: Node 20.18 and 22.14 answer as this Node does, about files and a cluster", async () => {
    writeKubeconfig(TOKEN);
    assert.equal(packageJson.engines.node, `>=${OLDER_NODES[0]?.replace(/\.\d+$/, "")}`);
    for (const args of [
      ["policy", "matrix", "--cluster", "--by", "pod"],
      ["policy", "dry-run", "-f", FIXTURE, "--against", "cluster"],
    ]) {
      const [expected, ...answers] = await Promise.all([
        run(args),
        ...OLDER_NODES.map((version) => run(args, {}, [olderNode(version)])),
      ]);
      assert.notEqual(expected.code, 3, expected.err);
      for (const [at, answer] of answers.entries())
        assert.deepEqual(answer, expected, `${OLDER_NODES[at]}: ${args.join(" ")}`);
    }
  });

  it("CLI-12: Node 23.7, which lacks zstd as 22.14 does, reads a cluster", async () => {
    writeKubeconfig(TOKEN);
    const older =
      'import zlib from "node:zlib"; delete zlib.createZstdDecompress; ' +
      'Object.defineProperty(process, "versions", { value: { ...process.versions, node: "23.7.0" } })';
    const args = ["policy", "matrix", "--cluster", "--by", "pod"];
    const node = [process.execPath, `--import=data:text/javascript,${older}`] as const;
    assert.deepEqual(await run(args, {}, node), await run(args));
  });

  it("CLI-12: a Node that is too old says so in one sentence, in a file that each Node since 14.8 can read", async () => {
    for (const version of ["14.21.3", "18.20.8", "20.17.0"]) {
      const older = `Object.defineProperty(process, "versions", { value: { ...process.versions, node: "${version}" } })`;
      const { code, out, err } = await run(["--version"], {}, [
        process.execPath,
        `--import=data:text/javascript,${older}`,
      ]);
      const words = "the command line needs Node 20.18 or later; the executable of a release needs none";
      assert.deepEqual([code, out, err], [3, "", `drawbridge: this is Node ${version}; ${words}\n`]);
    }
    const names = ["drawbridge.js"];
    for (const name of names) {
      const { body } = parse(readFileSync(path.join(path.dirname(program), name), "utf8"), {
        ecmaVersion: 2020,
        sourceType: "module",
        allowHashBang: true,
      });
      const sources = body.flatMap((node) => (node.type === "ImportDeclaration" ? [String(node.source.value)] : []));
      names.push(...sources.filter((source) => source.startsWith("./")).map((source) => source.slice(2)));
    }
    assert.ok(names.length > 1, "it imports chunks");
  });

  it("DOCTOR-09: the program does not load the Kubernetes client for help and for files", async () => {
    // V8 records which scripts it has read.
    const environment = { NODE_V8_COVERAGE: path.join(directory, "coverage") };
    for (const args of [
      ["policy", "matrix", "--help"],
      ["policy", "matrix", "-f", FIXTURE],
      ["rules", "--help"],
    ]) {
      assert.equal((await run(args, environment)).code, 0);
    }
    const scripts = readdirSync(environment.NODE_V8_COVERAGE).flatMap((name) => {
      const text = readFileSync(path.join(environment.NODE_V8_COVERAGE, name), "utf8");
      return (JSON.parse(text) as { result: readonly { url: string }[] }).result.map(({ url }) => url);
    });
    const own = scripts.filter((url) => url.includes(path.basename(directory))).map((url) => new URL(url).pathname);
    assert.ok(
      own.some((file) => file.endsWith("drawbridge.js")),
      scripts.join("\n"),
    );
    for (const file of own) assert.doesNotMatch(readFileSync(file, "utf8"), /kubernetes-client-javascript/, file);
    const all = readdirSync(path.dirname(program)).filter((name) => name.endsWith(".js"));
    const speaking = all.filter((name) =>
      readFileSync(path.join(path.dirname(program), name), "utf8").includes("kubernetes-client-javascript"),
    );
    assert.equal(speaking.length, 1, "the client is in a chunk of its own");
  });
});
