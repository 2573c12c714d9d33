import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import nock from "nock";
import { DrawbridgeError } from "../../../../../kernel/error.ts";
import { HttpConnection } from "../../../../../policyd/sources/api/connection/http_connection.ts";
import { until } from "../../../../support/until.ts";

// nock replaces Node's HTTP client on import; this gives other tests their own client back.
nock.restore();

const SERVER = "https://cluster.test:6443";

/** Records everything that is reported about one request. */
class Heard {
  readonly lines: string[] = [];
  isOver = false;

  answered(status: number, retryAfter: number | undefined): void {
    this.lines.push(`${status} ${retryAfter}`);
  }

  data(chunk: Uint8Array): void {
    this.lines.push(new TextDecoder().decode(chunk));
  }

  ended(): void {
    this.lines.push("ended");
    this.isOver = true;
  }

  failed(reason: string): void {
    this.lines.push(`failed: ${reason}`);
    this.isOver = true;
  }
}

describe("policyd/sources/api/http_connection", () => {
  beforeEach(() => nock.activate());
  afterEach(() => {
    nock.cleanAll();
    nock.restore();
  });

  const connection = (token = "t0ken", base = SERVER): HttpConnection =>
    new HttpConnection(() =>
      Promise.resolve({ server: new URL(base), options: { headers: { Authorization: `Bearer ${token}` } } }),
    );

  async function ask(asked: HttpConnection, path = "/api/v1/pods?limit=500"): Promise<readonly string[]> {
    const heard = new Heard();
    asked.get(path, heard);
    await until(() => heard.isOver, "the answer is over");
    return heard.lines;
  }

  it("API-01: a request carries the credentials, goes below the server's path, and its answer is reported in order", async () => {
    nock(`${SERVER}/k8s/`, { reqheaders: { authorization: "Bearer t0ken", accept: "application/json" } })
      .get("/api/v1/pods?limit=500")
      .reply(200, "body");
    const asked = connection("t0ken", `${SERVER}/k8s/`);
    assert.deepEqual(await ask(asked), ["200 undefined", "body", "ended"]);
    assert.equal(asked.name, `${SERVER}/k8s`);
  });

  it("API-05: Retry-After is read as seconds, and a date is ignored", async () => {
    for (const [text, seconds] of [
      ["7", 7],
      ["Wed, 21 Oct 2026 07:28:00 GMT", undefined],
      ["-1", undefined],
    ] as const) {
      nock(SERVER).get("/api/v1/pods?limit=500").reply(429, "", { "Retry-After": text });
      assert.equal((await ask(connection()))[0], `429 ${seconds}`);
    }
  });

  it("API-11: a redirect is not followed, since the token would be sent with it", async () => {
    nock(SERVER).get("/api/v1/pods?limit=500").reply(302, "", { Location: "https://elsewhere.test/" });
    assert.deepEqual(await ask(connection()), ["302 undefined", "ended"]);
  });

  it("API-04: a request that cannot be made is a failure whose reason does not contain the token", async () => {
    nock(SERVER).get("/api/v1/pods?limit=500").replyWithError("connect ECONNREFUSED 192.0.2.1:6443");
    assert.deepEqual(await ask(connection()), ["failed: connect ECONNREFUSED 192.0.2.1:6443"]);
    const [torn = ""] = await ask(connection("s3cret\nx"));
    assert.match(torn, /^failed: /);
    assert.doesNotMatch(torn, /s3cret/);
    const none = new HttpConnection(() => Promise.reject(new DrawbridgeError("ERR_CONFIGURATION", "no token")));
    assert.deepEqual(await ask(none), ["failed: no token"]);
  });

  it("API-15: the connection to a peer that accepts it and never answers TLS is closed when the request is given up", async () => {
    nock.restore();
    const sockets: Socket[] = [];
    const peer = createServer((socket) => sockets.push(socket)).listen(0, "127.0.0.1");
    await once(peer, "listening");
    const heard = new Heard();
    const cancel = connection("t", `https://127.0.0.1:${(peer.address() as AddressInfo).port}`).get("/api", heard);
    await until(() => sockets.length > 0, "a connection");
    cancel();
    for (const socket of sockets) await once(socket.resume(), "close");
    peer.close();
    assert.deepEqual(heard.lines, []);
  });

  it("API-02: a cancelled request reports nothing more", async () => {
    nock(SERVER).get("/api/v1/pods?limit=500").reply(200, "late");
    nock(SERVER).get("/other").reply(200, "");
    const heard = new Heard();
    const cancel = connection().get("/api/v1/pods?limit=500", {
      answered: (status) => {
        heard.answered(status, undefined);
        cancel();
      },
      data: (chunk) => heard.data(chunk),
      ended: () => heard.ended(),
      failed: (reason) => heard.failed(reason),
    });
    await until(() => heard.lines.length > 0, "an answer");
    await ask(connection(), "/other");
    assert.deepEqual(heard.lines, ["200 undefined"]);
    const unheard = new Heard();
    connection().get("/api/v1/pods?limit=500", unheard)();
    await ask(connection(), "/nowhere");
    assert.deepEqual(unheard.lines, []);
  });
});
