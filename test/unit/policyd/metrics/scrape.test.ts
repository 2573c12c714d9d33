import assert from "node:assert/strict";
import { once } from "node:events";
import { type IncomingMessage, request, type RequestOptions } from "node:http";
import { connect, createServer, type Socket } from "node:net";
import { text } from "node:stream/consumers";
import { parseAddress } from "../../../../kernel/ip/address.ts";
import { recordingLogger } from "../../../support/recording_logger.ts";
import { metricsAnswer } from "../../../../policyd/metrics/page.ts";
import { nodeHttpListener } from "../../../../policyd/http/http_listener.ts";
import { type ReportedServers, reportedServers } from "../../../../policyd/http/reported_servers.ts";
import { FakeClock } from "../../../support/fake_clock.ts";
import { until } from "../../../support/until.ts";

const LOOPBACK = "127.0.0.1";
const RETRY_MILLISECONDS = 5000;

describe("scrapes over HTTP", () => {
  let clock: FakeClock;
  let logger: ReturnType<typeof recordingLogger>;
  let servers: ReportedServers;
  let port: number;
  const sockets: Socket[] = [];

  async function* pages(): AsyncGenerator<string> {
    yield "a 1\n";
    yield "b 2\n";
  }

  async function freePort(): Promise<number> {
    const server = createServer().listen(0, LOOPBACK);
    await once(server, "listening");
    const address = server.address();
    server.close();
    return typeof address === "object" && address !== null ? address.port : assert.fail();
  }

  /** Serves a page, by default at a free port. @param slowest milliseconds */
  function serve(page: () => AsyncIterable<string> = pages, slowest = 60_000): void {
    servers = reportedServers({
      listener: nodeHttpListener(slowest),
      clock,
      onRefused: (fields) => logger.warn("refused", fields),
      onOpen: () => logger.info("open"),
      addresses: [parseAddress(LOOPBACK)],
      port,
      answer: metricsAnswer(page, "text/plain; version=0.0.4"),
      retryMilliseconds: RETRY_MILLISECONDS,
    });
  }

  async function ask(options: RequestOptions): Promise<IncomingMessage & { readonly body: string }> {
    const asked = request({ host: LOOPBACK, port, agent: false, ...options }).end();
    const [response] = (await once(asked, "response")) as [IncomingMessage];
    return Object.assign(response, { body: await text(response) });
  }

  async function open(): Promise<Socket> {
    const socket = connect({ host: LOOPBACK, port });
    sockets.push(socket);
    socket.on("error", () => {});
    await once(socket, "connect");
    return socket;
  }

  beforeEach(async () => {
    clock = new FakeClock();
    logger = recordingLogger();
    port = await freePort();
  });
  afterEach(() => {
    for (const socket of sockets.splice(0)) socket.destroy();
    servers.stop();
  });

  it("METRIC-05: the page is served only at /metrics by GET, one request per connection", async () => {
    serve();
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

  it("METRIC-05: a connection that sends or reads too slowly is ended", async () => {
    let hasEnded = false;
    async function* endless(): AsyncGenerator<string> {
      try {
        for (;;) yield "x".repeat(65_536);
      } finally {
        hasEnded = true;
      }
    }
    serve(endless, 200);
    const silent = await open();
    const reader = await open();
    reader.write("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    silent.resume();
    // It reads on and on, so that only the time of the whole answer ends it.
    reader.resume();
    await until(() => silent.destroyed && reader.destroyed, "both are ended");
    await until(() => hasEnded, "the page stops");
  });

  it("METRIC-05: of pipelined requests only the first is served", async () => {
    let begun = 0;
    serve(() => {
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

  it("METRIC-05: with more than 64 connections at once the oldest is closed", async () => {
    serve();
    const oldest = await open();
    oldest.resume();
    for (let i = 0; i < 63; i++) await open();
    assert.equal(oldest.destroyed, false);
    await open();
    await until(() => oldest.destroyed, "the oldest is closed");
    assert.equal((await ask({ path: "/metrics" })).statusCode, 200);
  });

  it("METRIC-05, HEALTH-02: a port that is taken is warned of once, and served when it is free", async () => {
    const other = createServer();
    other.listen(port, LOOPBACK);
    await once(other, "listening");
    serve();
    const warnings = () => logger.lines.filter(({ level }) => level === "warn");
    await until(() => warnings().length === 1 && clock.pending === 1, "it warns");
    assert.match(String(warnings()[0]?.fields["error"]), /EADDRINUSE/);
    assert.deepEqual(servers.problems().length, 1);
    assert.match(servers.problems()[0] ?? "", new RegExp(`^127\\.0\\.0\\.1 ${port}: .*EADDRINUSE`));
    clock.pass(RETRY_MILLISECONDS);
    await until(() => clock.pending === 1, "it was refused again");
    assert.equal(warnings().length, 1);
    other.close();
    await once(other, "close");
    clock.pass(RETRY_MILLISECONDS);
    await until(() => logger.lines.at(-1)?.message === "open", "it is served");
    assert.deepEqual(servers.problems(), []);
    assert.equal((await ask({ path: "/metrics" })).statusCode, 200);
  });
});
