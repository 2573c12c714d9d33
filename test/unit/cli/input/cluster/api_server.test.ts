import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import https, { type Server } from "node:https";
import type { AddressInfo } from "node:net";
import os from "node:os";
import path from "node:path";
import process from "node:process";
import type { TLSSocket } from "node:tls";
import nock from "nock";
import { connect } from "../../../../../cli/input/cluster/api_server.ts";
import { readCluster } from "../../../../../cli/input/cluster/read_cluster.ts";
import type { Manifests } from "../../../../../cli/input/manifests.ts";
import { type Certificate, makeCertificate } from "../../../../support/certificate.ts";
import { FakeCluster, listOf, objectsIn, SERVER } from "../../../../support/daemon/fake_cluster.ts";

// Importing nock replaces Node's HTTP client; other tests need the original one.
nock.restore();

const SHOP = objectsIn("test/fixtures/cli/shop");
const TOKEN = "s3cret-t0ken";
const PODS = "/api/v1/pods?limit=500";

describe("the API server of a kubeconfig", function () {
  // Loading client-node takes half a second.
  this.timeout(60_000);
  let directory = "";

  before(() => {
    directory = mkdtempSync(path.join(os.tmpdir(), "drawbridge-kubeconfig-"));
  });

  after(() => rmSync(directory, { recursive: true, force: true }));

  afterEach(() => {
    nock.abortPendingRequests();
    nock.cleanAll();
  });

  /** Writes a kubeconfig with the contexts `current` and `other`. @returns its path */
  function kubeconfig(cluster: object, user: object, name = "config"): string {
    const file = path.join(directory, name);
    const clusters = [
      { name: "one", cluster },
      { name: "two", cluster: { server: "https://other.test" } },
    ];
    const contexts = [
      { name: "current", context: { cluster: "one", user: "me" } },
      { name: "other", context: { cluster: "two", user: "me" } },
      { name: "nobody", context: { cluster: "one" } },
      { name: "stranger", context: { cluster: "one", user: "gone" } },
      { name: "nowhere", context: { cluster: "gone", user: "me" } },
    ];
    const users = [{ name: "me", user }];
    const config = { apiVersion: "v1", kind: "Config", clusters, contexts, users, "current-context": "current" };
    writeFileSync(file, JSON.stringify(config));
    return file;
  }

  const read = (file: string, context?: string, requestTimeout = 20_000): Promise<Manifests> =>
    readCluster({ connect, sleep: () => Promise.resolve() }, { kubeconfig: file, context, requestTimeout });

  const failing = async (file: string, context?: string, requestTimeout?: number): Promise<string> => {
    try {
      await read(file, context, requestTimeout);
    } catch (error) {
      assert.ok(error instanceof Error && "code" in error && error.code === "ERR_INPUT", String(error));
      assert.doesNotMatch(error.message, new RegExp(TOKEN));
      return error.message;
    }
    assert.fail("the cluster was read");
  };

  for (const host of ["localhost", "127.0.0.1", "[::1]"]) {
    it(`CLI-37: a server of this machine without TLS at ${host}, as kubectl proxy is, gets the request`, async () => {
      const paths: string[] = [];
      const server = http.createServer(({ url = "" }, response) => {
        paths.push(url);
        response.writeHead(403).end();
      });
      await new Promise<void>((resolve) => void server.listen(0, host.replace(/[[\]]/g, ""), resolve));
      try {
        const address = server.address();
        assert.ok(typeof address === "object" && address !== null);
        const file = kubeconfig({ server: `http://${host}:${address.port}` }, {}, `proxy-${host}`);
        assert.match(await failing(file), /403, this user may not do it/);
        assert.equal(paths.length, 1);
      } finally {
        server.close();
      }
    });
  }

  describe("over a fake network", () => {
    before(() => {
      nock.activate();
      nock.disableNetConnect();
    });
    after(() => {
      nock.enableNetConnect();
      nock.restore();
    });

    const withToken = (): string => kubeconfig({ server: `${SERVER}/k8s/c-1/` }, { token: TOKEN });

    /** Answers every request to the shop's API server, below a path as Rancher has it. */
    async function serveShop(requestHeaders: Record<string, string>): Promise<void> {
      const fake = new FakeCluster(SHOP);
      const answers = nock(SERVER, { reqheaders: requestHeaders })
        .persist()
        .get(/^\/k8s\/c-1\/apis?(\/|$)/);
      answers.reply(async ({ url }: Request) => {
        const { status, body } = await fake.get(url.slice(`${SERVER}/k8s/c-1`.length));
        return [status, Buffer.concat(body).toString()];
      });
    }

    it("CLUSTER-07: requests go to the server's path with the current context's token, and ask for JSON", async () => {
      await serveShop({ authorization: `Bearer ${TOKEN}`, accept: "application/json" });
      const { manifests, problems, omitted } = await read(withToken());
      const known = await readCluster(new FakeCluster(SHOP), { kubeconfig: "", context: "", requestTimeout: 1 });
      assert.deepEqual(
        manifests.map(({ object }) => object),
        known.manifests.map(({ object }) => object),
      );
      assert.ok(manifests.length > 20);
      assert.deepEqual([problems, omitted], [[], []]);
    });

    it("CLUSTER-07: a redirection is not followed, since the token would go with the request", async () => {
      const scope = nock("https://evil.test").get(/.*/).reply(200, {});
      nock(SERVER).get(/.*/).reply(302, "", { Location: "https://evil.test/" });
      assert.match(await failing(withToken()), /list namespaces: status 302; expected 200/);
      assert.ok(!scope.isDone());
    });

    it("CLUSTER-02: Retry-After is obeyed", async () => {
      const slept: number[] = [];
      const list = listOf("Namespace", "v1", []);
      nock(SERVER)
        .get(/namespaces/)
        .reply(429, {}, { "Retry-After": "4" })
        .get(/namespaces/)
        .reply(200, list);
      nock(SERVER).get(/.*/).reply(403, { message: "no" });
      const sleep = (time: number): Promise<void> => Promise.resolve(void slept.push(time));
      const access = { kubeconfig: withToken(), context: undefined, requestTimeout: undefined };
      await assert.rejects(readCluster({ connect, sleep }, access), /list nodes: 403, this user may not do it \(no\)/);
      assert.deepEqual(slept, [4000]);
    });

    it("CLUSTER-05: an answer that does not come in time is an error", async () => {
      nock(SERVER).get(/.*/).delay(60_000).reply(200, {});
      assert.match(
        await failing(withToken(), undefined, 20),
        /list namespaces: no whole answer within 0\.02 s; see whether kubectl works, or raise --request-timeout$/,
      );
    });

    const program = (script: string): object => ({
      exec: { apiVersion: "client.authentication.k8s.io/v1", command: process.execPath, args: ["-e", script] },
    });

    it("CLUSTER-07: the token of a credentials program is used", async () => {
      await serveShop({ authorization: `Bearer ${TOKEN}` });
      const credential = { kind: "ExecCredential", status: { token: TOKEN } };
      const user = program(`console.log(${JSON.stringify(JSON.stringify(credential))})`);
      const { manifests } = await read(kubeconfig({ server: `${SERVER}/k8s/c-1/` }, user));
      assert.ok(manifests.length > 20);
    });

    for (const [context, words] of [
      ["gone", /: no context "gone"; expected one of current, other, nobody, stranger, nowhere$/],
      ["stranger", /: context "stranger": no user "gone"$/],
      ["nowhere", /: context "nowhere": no cluster "gone"$/],
    ] as const) {
      it(`CLUSTER-07: the context ${context} of a kubeconfig is an error`, async () => {
        assert.match(await failing(withToken(), context), words);
      });
    }

    for (const [what, text, words] of [
      ["is missing", undefined, /ENOENT: no such file/],
      ["is not YAML", `users:\n- user: { token: ${TOKEN}\n  - [`, /^\/.*config: \S/],
      ["is empty", "", /the input is empty/],
      ["has no contexts", "{}", /no contexts; expected a kubeconfig with one/],
      ["names an invalid server address", "server: nonsense", /Invalid URL/],
      ["names a server without TLS", "server: http://cluster.test", /HTTP protocol is not allowed/],
      ["names a missing key", "client", /ENOENT: no such file/],
    ] as const) {
      it(`CLUSTER-07: a kubeconfig that ${what} is an error without its secrets`, async () => {
        let file = path.join(directory, `${what}-config`);
        if (text?.startsWith("server: ") === true) file = kubeconfig({ server: text.slice(8) }, { token: TOKEN });
        else if (text === "client") file = kubeconfig({ server: SERVER }, { "client-key": "gone.pem", token: TOKEN });
        else if (text !== undefined) writeFileSync(file, text);
        assert.match(await failing(file), words);
      });
    }
  });

  describe("over TLS on 127.0.0.1", () => {
    let authority: Certificate;
    let server: Server;
    let address = "";
    let isCutting = false;

    before(async () => {
      authority = makeCertificate("authority");
      const { certificate: cert, key } = makeCertificate("server", authority, "127.0.0.1");
      const fake = new FakeCluster(SHOP);
      const ca = authority.certificate;
      server = https.createServer(
        { cert, key, ca, requestCert: true, rejectUnauthorized: false },
        (request, response) => {
          const isKnown = (request.socket as TLSSocket).authorized;
          if (!isKnown) return void response.writeHead(401).end("{}");
          void fake.get(request.url ?? "").then(({ status, body }) => {
            const text = Buffer.concat(body);
            response.writeHead(status, { "Content-Length": text.length });
            if (!isCutting || request.url !== PODS) return response.end(text);
            return response.write(text.subarray(0, -10), () => response.destroy());
          });
        },
      );
      await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
      address = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
    });

    beforeEach(() => void (isCutting = false));

    after(() => {
      server.closeAllConnections();
      server.close();
    });

    const base64 = (text: string): string => Buffer.from(text).toString("base64");
    const trusted = (): object => ({ server: address, "certificate-authority-data": base64(authority.certificate) });
    const userOf = ({ certificate, key }: Certificate): object => ({
      "client-certificate-data": base64(certificate),
      "client-key-data": base64(key),
    });

    it("CLUSTER-07: the user authenticates by certificate, and the server by the authority", async () => {
      const { manifests } = await read(kubeconfig(trusted(), userOf(makeCertificate("me", authority))));
      assert.ok(manifests.length > 20);
    });

    it("CLUSTER-07: relative file names in a kubeconfig are found beside it", async () => {
      const { certificate, key } = makeCertificate("me", authority);
      for (const [name, text] of Object.entries({
        "ca.pem": authority.certificate,
        "me.pem": certificate,
        "me.key": key,
      })) {
        writeFileSync(path.join(directory, name), text);
      }
      const user = { "client-certificate": "me.pem", "client-key": "me.key" };
      const { manifests } = await read(kubeconfig({ server: address, "certificate-authority": "ca.pem" }, user));
      assert.ok(manifests.length > 20);
    });

    it("CLUSTER-07: a server of another authority gets no request, and a user of another authority is refused", async () => {
      const other = makeCertificate("authority");
      const certificate = base64(other.certificate);
      const foreign = { server: address, "certificate-authority-data": certificate };
      assert.match(
        await failing(kubeconfig(foreign, userOf(makeCertificate("me", authority)))),
        /list namespaces: .*(CERT|SIGNATURE).*; expected a server and a user by the certificates of the kubeconfig/,
      );
      assert.match(await failing(kubeconfig(trusted(), userOf(makeCertificate("me", other)))), /401|CERT|TLS|SSL/);
    });

    it("CLUSTER-02: an answer whose connection ends early is an error", async () => {
      isCutting = true;
      const file = kubeconfig(trusted(), userOf(makeCertificate("me", authority)));
      assert.match(await failing(file), /list pods: \S+/);
    });
  });
});
