import assert from "node:assert/strict";
import { once } from "node:events";
import { type IncomingMessage, request, type RequestOptions } from "node:http";
import { connect, createServer, type Socket } from "node:net";
import { text } from "node:stream/consumers";
import { parseAddress } from "../../../../kernel/ip/address.ts";
import { FakeClock } from "../../../support/fake_clock.ts";
import { recordingLogger } from "../../../../policyd/log/recording_logger.ts";
import { MetricsServer } from "../../../../policyd/metrics/http_server.ts";

const LOOPBACK = "127.0.0.1";
const LONGEST_MILLISECONDS = 10_000;
const RETRY_MILLISECONDS = 5000;

describe("policyd/metrics/http_server", () => {
  let clock: FakeClock;
  let logger: ReturnType<typeof recordingLogger>;
  let server: MetricsServer;
  const sockets: Socket[] = [];

  /** A server at a port, by default a free one. */
  function create(port = 0, page: () => AsyncIterable<string> = pages): MetricsServer {
    clock = new FakeClock();
    logger = recordingLogger();
    const listen = { address: parseAddress(LOOPBACK), port };
    server = new MetricsServer({ listen, contentType: "text/plain; version=0.0.4", page, logger, clock });
    server.start();
    return server;
  }

  async function* pages(): AsyncGenerator<string> {
    yield "a 1\n";
    yield "b 2\n";
  }

  async function until(holds: () => boolean, what: string): Promise<void> {
    for (let left = 2000; !holds(); left--) {
      assert.ok(left > 0, what);
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
  }

  async function reached(): Promise<number> {
    await until(() => server.port !== undefined, "it listens");
    return server.port ?? 0;
  }

  async function ask(options: RequestOptions): Promise<IncomingMessage & { readonly body: string }> {
    const asked = request({ host: LOOPBACK, port: await reached(), ...options }).end();
    const [response] = (await once(asked, "response")) as [IncomingMessage];
    return Object.assign(response, { body: await text(response) });
  }

  async function open(): Promise<Socket> {
    const socket = connect({ host: LOOPBACK, port: await reached() });
    sockets.push(socket);
    socket.on("error", () => {});
    await once(socket, "connect");
    return socket;
  }

  afterEach(() => {
    for (const socket of sockets.splice(0)) socket.destroy();
    server.stop();
  });

  it("METRIC-05: the page is served only at /metrics by GET, one request per connection", async () => {
    create();
    const good = await ask({ path: "/metrics?name=x" });
    assert.deepEqual([good.statusCode, good.body], [200, "a 1\nb 2\n"]);
    assert.equal(good.headers["content-type"], "text/plain; version=0.0.4");
    assert.equal(good.headers.connection, "close");
    for (const path of ["/", "/metrics/", "/metricsx", "/healthz"]) {
      assert.equal((await ask({ path })).statusCode, 404, path);
    }
    for (const method of ["POST", "PUT", "DELETE", "HEAD", "OPTIONS"]) {
      const { statusCode, headers } = await ask({ path: "/metrics", method });
      assert.deepEqual([statusCode, headers.allow], [405, "GET"], method);
    }
  });

  it("a request head that is not HTTP or is too large is refused", async () => {
    create();
    for (const head of ["nonsense\r\n\r\n", `GET /metrics HTTP/1.1\r\nx: ${"y".repeat(10_000)}\r\n\r\n`]) {
      const socket = await open();
      socket.write(head);
      assert.match(await text(socket), /^HTTP\/1\.1 4\d\d /);
    }
    assert.equal((await ask({ path: "/metrics" })).statusCode, 200);
  });

  it("METRIC-05: a connection that sends or reads too slowly is ended", async () => {
    let hasEnded = false;
    async function* endless(): AsyncGenerator<string> {
      try {
        for (;;) yield "x".repeat(65_536);
      } finally {
        hasEnded = true;
      }
    }
    create(0, endless);
    const silent = await open();
    const reader = await open();
    reader.write("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    await once(reader, "readable");
    await until(() => clock.pending >= 2, "both connections have a timer");
    clock.pass(LONGEST_MILLISECONDS);
    silent.resume();
    reader.resume();
    await until(() => silent.destroyed && reader.destroyed, "both are ended");
    await until(() => hasEnded, "the page stops");
  });

  it("METRIC-05: of pipelined requests only the first is served", async () => {
    let begun = 0;
    create(0, () => {
      begun++;
      return pages();
    });
    const hasty = await open();
    hasty.resume();
    hasty.write("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".repeat(1000));
    await once(hasty, "close");
    assert.equal(begun, 1);
    assert.equal((await ask({ path: "/metrics" })).statusCode, 200);
  });

  it("METRIC-05: a seventeenth connection is closed", async () => {
    create();
    for (let i = 0; i < 16; i++) await open();
    const further = await open();
    further.resume();
    await once(further, "close");
  });

  it("METRIC-03: a port that is taken is warned of once, and metrics are served when it is free", async () => {
    const other = createServer();
    other.listen(0, LOOPBACK);
    await once(other, "listening");
    const bound = other.address();
    assert.ok(bound !== null && typeof bound === "object");
    create(bound.port);
    const warnings = () => logger.lines.filter(({ level }) => level === "warn");
    await until(() => warnings().length === 1, "it warns");
    assert.match(String(warnings()[0]?.fields["error"]), /EADDRINUSE/);
    clock.pass(RETRY_MILLISECONDS);
    await until(() => clock.pending === 1, "it was refused again");
    assert.equal(warnings().length, 1);
    other.close();
    await once(other, "close");
    clock.pass(RETRY_MILLISECONDS);
    assert.equal((await ask({ path: "/metrics" })).statusCode, 200);
    assert.equal(logger.lines.at(-1)?.message, "metrics are served after all");
  });
});
