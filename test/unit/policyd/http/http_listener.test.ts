import assert from "node:assert/strict";
import { once } from "node:events";
import { type IncomingMessage, request, type RequestOptions } from "node:http";
import { connect, createServer, type Socket } from "node:net";
import { text } from "node:stream/consumers";
import { parseAddress } from "../../../../kernel/ip/address.ts";
import { type HealthAnswer, healthAnswer } from "../../../../policyd/services/health_check/health_check.ts";
import {
  type HttpListener,
  type Listening,
  type ListeningAddress,
  nodeHttpListener,
} from "../../../../policyd/http/http_listener.ts";
import { metricsAnswer } from "../../../../policyd/metrics/page.ts";
import { until } from "../../../support/until.ts";

const listener = nodeHttpListener(500);
const LOOPBACK = parseAddress("127.0.0.1");

/** A free port. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  return typeof address === "object" && address !== null ? address.port : assert.fail();
}

describe("http_listener", function () {
  this.timeout(20_000);
  let place: ListeningAddress;
  let listening: Listening | undefined;

  beforeEach(async () => {
    place = { family: 4, address: LOOPBACK, port: await freePort() };
    listening = await listener.listen(place, () => healthAnswer({ namespace: "n", name: "s" }, 1, true));
  });
  afterEach(() => {
    listening?.close();
  });

  async function* pages(): AsyncGenerator<string> {
    yield "a 1\n";
    yield "b 2\n";
  }

  /** Serves a page of metrics instead. */
  async function replaceBy(by: HttpListener, page: () => AsyncIterable<string>): Promise<void> {
    listening?.close();
    listening = await by.listen(place, metricsAnswer(page, "text/plain; version=0.0.4"));
  }

  async function ask(options: RequestOptions): Promise<IncomingMessage & { readonly body: string }> {
    const asked = request({ port: place.port, host: "127.0.0.1", agent: false, ...options }).end();
    const [response] = (await once(asked, "response")) as [IncomingMessage];
    return Object.assign(response, { body: await text(response) });
  }

  async function client(port = place.port): Promise<Socket> {
    const socket = connect(port, "127.0.0.1");
    socket.on("error", () => {});
    await once(socket, "connect");
    return socket;
  }

  /** Everything that a connection receives until it ends. */
  async function rest(socket: Socket): Promise<string> {
    let received = "";
    socket.on("data", (piece: Buffer) => (received += piece.toString()));
    if (!socket.closed) await once(socket, "close");
    return received;
  }

  it("HEALTH-06: the answering function learns whether the client is on this machine", async () => {
    const seen: boolean[] = [];
    const hosts = ["127.0.0.1", "127.8.9.10", "::1"];
    for (const host of hosts) {
      listening?.close();
      const family = host === "::1" ? 6 : 4;
      const anywhere = { family, address: parseAddress(family === 6 ? "::" : "0.0.0.0"), port: place.port } as const;
      listening = await listener.listen(anywhere, (_, isLoopback) => {
        seen.push(isLoopback);
        return healthAnswer({ namespace: "n", name: "s" }, 1, true);
      });
      await ask({ host, localAddress: host });
    }
    assert.deepEqual(
      seen,
      hosts.map(() => true),
    );
  });

  it("a client that sends nothing, half a request or too much is disconnected", async () => {
    const silent = await client();
    const half = await client();
    half.write("GET / HTTP/1.1\r\nHost:");
    const long = await client();
    long.write(`GET / HTTP/1.1\r\nHost: n\r\nX-Long: ${"x".repeat(10_000)}\r\n\r\n`);
    assert.match(await rest(long), /^HTTP\/1\.1 431 /);
    const garbage = await client();
    garbage.write("\u0000\u0001\r\n\r\n");
    assert.match(await rest(garbage), /^HTTP\/1\.1 400 /);
    await Promise.all([rest(silent), rest(half)]);
  });

  it("METRIC-05: of pipelined requests only the first is served, and the next client is answered", async () => {
    let begun = 0;
    await replaceBy(listener, () => {
      begun++;
      return pages();
    });
    const hasty = await client();
    hasty.write("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".repeat(1000));
    await rest(hasty);
    assert.equal(begun, 1);
    assert.equal((await ask({ path: "/metrics" })).statusCode, 200);
  });

  it("METRIC-05: the page is served only at /metrics by GET, one request per connection", async () => {
    await replaceBy(listener, pages);
    const good = await ask({ path: "/metrics?name=x" });
    assert.deepEqual([good.statusCode, good.body], [200, "a 1\nb 2\n"]);
    assert.equal(good.headers["content-type"], "text/plain; version=0.0.4");
    assert.equal(good.headers.connection, "close");
    for (const path of ["/", "/metrics/", "/metricsx", "/healthz"]) {
      const { statusCode, headers } = await ask({ path });
      assert.deepEqual([statusCode, headers.connection], [404, "close"], path);
    }
    for (const method of ["POST", "PUT", "DELETE", "HEAD", "OPTIONS"]) {
      const { statusCode, headers } = await ask({ path: "/metrics", method });
      assert.deepEqual([statusCode, headers.allow, headers.connection], [405, "GET", "close"], method);
    }
  });

  it("METRIC-05: a client that reads an endless page slowly is disconnected, and the page stops", async () => {
    let hasEnded = false;
    async function* endless(): AsyncGenerator<string> {
      try {
        for (;;) yield "x".repeat(65_536);
      } finally {
        hasEnded = true;
      }
    }
    await replaceBy(nodeHttpListener(200), endless);
    const reader = await client();
    reader.write("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    // It reads on and on, so that only the time of the whole answer ends it.
    reader.resume();
    await until(() => reader.destroyed && hasEnded, "the connection and the page are ended");
  });

  it("SHARE-03: a connection is ended after sixteen requests", async () => {
    const socket = await client();
    let received = "";
    socket.on("data", (piece: Buffer) => (received += piece.toString()));
    const answers = (): number => received.split("HTTP/1.1 200").length - 1;
    for (let i = 1; i <= 16; i++) {
      socket.write("GET / HTTP/1.1\r\nHost: n\r\n\r\n");
      await until(
        () => answers() >= i,
        () => `${answers()} answers`,
      );
    }
    if (!socket.closed) await once(socket, "close");
    assert.equal(answers(), 16);
  });

  it("many idle connections do not block a probe, since the oldest is ended", async () => {
    listening?.close();
    listening = await nodeHttpListener(60_000).listen(place, () =>
      healthAnswer({ namespace: "n", name: "s" }, 1, true),
    );
    const idle: Socket[] = [];
    for (let i = 0; i < 64; i++) idle.push(await client());
    const probe = await client();
    probe.write("GET / HTTP/1.1\r\nHost: n\r\nConnection: close\r\n\r\n");
    assert.match(await rest(probe), /^HTTP\/1\.1 200 /);
    const [oldest = assert.fail()] = idle;
    await until(() => oldest.closed, "the oldest connection is still there");
    assert.ok(idle.slice(2).every((socket) => !socket.closed));
    for (const socket of idle) socket.destroy();
  });

  it("SHARE-07: idle connections to several servers of a listener together stay within one bound, and a probe is answered", async () => {
    const together = nodeHttpListener(60_000, 8);
    const places: ListeningAddress[] = [];
    for (let i = 0; i < 4; i++) places.push({ family: 4, address: LOOPBACK, port: await freePort() });
    const answer = (): HealthAnswer => healthAnswer({ namespace: "n", name: "s" }, 1, true);
    const servers = await Promise.all(places.map((one) => together.listen(one, answer)));
    const idle: Socket[] = [];
    for (const { port } of places) for (let i = 0; i < 5; i++) idle.push(await client(port));
    const probe = await client(places[0]?.port);
    probe.write("GET / HTTP/1.1\r\nHost: n\r\nConnection: close\r\n\r\n");
    assert.match(await rest(probe), /^HTTP\/1\.1 200 /);
    await until(
      () => !(idle.filter((socket) => !socket.closed).length > 7),
      "more connections than the bound are open",
    );
    assert.ok(idle.slice(-7).every((socket) => !socket.closed));
    for (const one of servers) one.close();
  });

  it("closing ends every connection and frees the port at once, and a taken port is refused with a message", async () => {
    const socket = await client();
    await assert.rejects(
      listener.listen(place, () => assert.fail()),
      { code: "ERR_UNAVAILABLE", message: /EADDRINUSE/ },
    );
    listening?.close();
    await rest(socket);
    listening = await listener.listen(place, () => healthAnswer({ namespace: "n", name: "s" }, 0, true));
    assert.equal((await ask({})).statusCode, 503);
  });
});
