import assert from "node:assert/strict";
import { once } from "node:events";
import { chmodSync, mkdirSync, statSync, writeFileSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import type { AttachmentRecord } from "../../../../attachment/attachment.ts";
import { systemFileSystem } from "../../../../ipam/file_system.ts";
import { LONGEST_MESSAGE } from "../../../../attachment/message_frame.ts";
import { parseReply, type PolicydReply, requestToJson } from "../../../../attachment/policyd_messages.ts";
import { DrawbridgeError } from "../../../../kernel/error.ts";
import { nodeSyscalls } from "../../../../kernel/syscall/koffi.ts";
import { recordingLogger } from "../../../support/recording_logger.ts";
import { serveConnection } from "../../../../policyd/socket/connection.ts";
import type { RequestHandlers } from "../../../../policyd/socket/handlers.ts";
import { type ServedSocket, serveSocket } from "../../../../policyd/socket/server.ts";
import { useTemporaryDirectory } from "../../../support/ipam/address_store.ts";
import { attachmentRecord } from "../../../support/cni/attachment_record.ts";
import { until } from "../../../support/until.ts";

const STATUS = '{"version":1,"type":"status"}\n';
const syscalls = nodeSyscalls();
const machine = { syscalls, files: systemFileSystem(syscalls) };

/** Handlers whose registrations are answered when the test says so. */
class SlowHandlers implements RequestHandlers {
  readonly registered: AttachmentRecord[] = [];
  readonly settle: ((error?: Error) => void)[] = [];
  statuses = 0;

  register(attachment: AttachmentRecord): Promise<void> {
    this.registered.push(attachment);
    return new Promise((resolve, reject) => {
      this.settle.push((error) => {
        if (error === undefined) resolve();
        else reject(error);
      });
    });
  }

  async writeFlows(): Promise<void> {}

  async policies() {
    return { lines: "", next: undefined };
  }

  async unregister(): Promise<boolean> {
    throw new DrawbridgeError("ERR_NETLINK", "the kernel is busy");
  }

  status() {
    this.statuses++;
    return {
      version: "1",
      nodeName: "n",
      uptimeSeconds: 0,
      isSynced: true,
      objects: {},
      attachments: this.registered.length,
      problemCount: 0,
      problems: ["x".repeat(5000)],
    };
  }
}

describe("policyd/socket", () => {
  const base = useTemporaryDirectory();
  let handlers: SlowHandlers;
  let served: ServedSocket | undefined;
  let clients: Socket[];
  let logger: ReturnType<typeof recordingLogger>;
  const socketPath = () => `${base()}/run/policyd.sock`;

  beforeEach(async () => {
    handlers = new SlowHandlers();
    logger = recordingLogger();
    clients = [];
    served = await serveSocket(socketPath(), handlers, logger, machine);
  });
  afterEach(async () => {
    for (const socket of clients) socket.destroy();
    await served?.close();
  });

  async function client(path: string = socketPath()): Promise<Socket> {
    const socket = connect({ path, allowHalfOpen: true });
    socket.on("error", () => undefined);
    clients.push(socket);
    await once(socket, "connect");
    return socket;
  }

  /** The first `count` replies, or fewer when the connection ends before. */
  async function replies(socket: Socket, count: number): Promise<readonly PolicydReply[]> {
    let text = "";
    socket.setEncoding("utf8");
    socket.on("data", (piece: string) => (text += piece));
    await until(() => text.split("\n").length > count || socket.readableEnded || socket.destroyed, `${count} replies`);
    return text.split("\n").slice(0, -1).map(parseReply);
  }

  it("DAEMON-05: only the daemon's user can reach the socket, which has its own directory", () => {
    const { mode } = statSync(socketPath());
    assert.equal((mode & 0o7777).toString(8), "600");
    assert.equal((statSync(`${base()}/run`).mode & 0o7777).toString(8), "700");
  });

  it("requests of one connection are answered in their order", async () => {
    const socket = await client();
    const register = `${JSON.stringify(requestToJson({ type: "register", attachment: attachmentRecord() }))}\n`;
    socket.end(`${register}${STATUS}{"version":1,"type":"stop"}\n${STATUS}`);
    await until(() => handlers.registered.length === 1, "registered");
    assert.deepEqual(handlers.registered, [attachmentRecord()]);
    assert.equal(handlers.statuses, 0, "the status waits for its turn");
    handlers.settle[0]?.();
    const types = (await replies(socket, 4)).map(({ type }) => type);
    assert.deepEqual(types, ["done", "status", "refused", "status"]);
  });

  it("a refusal says whether trying again may help", async () => {
    const socket = await client();
    const name = { network: "drawbridge", containerId: "c0ffee", ifname: "eth0" };
    socket.write(`${JSON.stringify(requestToJson({ type: "unregister", attachment: name }))}\nnonsense\n`);
    assert.deepEqual(await replies(socket, 2), [
      { type: "refused", isTemporary: true, message: "the kernel is busy" },
      {
        type: "refused",
        isTemporary: false,
        message: "message: no JSON in 8 characters; expected one object on a line",
      },
    ]);
  });

  it("DAEMON-05: garbage, half a message, a message that is too long and a client that never reads block no other client", async () => {
    const [garbage, half, long, deaf] = [await client(), await client(), await client(), await client()];
    garbage.write(Uint8Array.from({ length: 5000 }, (_, i) => (i * 37) & 255));
    half.write('{"version":1,');
    long.write("x".repeat(2 * LONGEST_MESSAGE));
    deaf.pause();
    // A megabyte of replies to ten kilobytes of requests is more than the kernel takes for a client that does not read.
    deaf.write(STATUS.repeat(400));
    const socket = await client();
    socket.write(STATUS);
    assert.equal((await replies(socket, 1))[0]?.type, "status");
    const [refusal] = await replies(long, 1);
    assert.match(refusal?.type === "refused" ? refusal.message : "", /longer than 65536 bytes/);
    await until(() => long.readableEnded || long.destroyed, "the connection of the long message ends");
    for (let i = 0; i < 500; i++) await turn();
    assert.ok(handlers.statuses < 400, `${handlers.statuses} replies are held for a client that does not read`);
  });

  it("DAEMON-05: a client that sends an endless message is disconnected", async () => {
    const endless = await client();
    endless.resume();
    const piece = "x".repeat(LONGEST_MESSAGE);
    const more = (error?: Error | null): void => {
      if (error === undefined || error === null) endless.write(piece, more);
    };
    more();
    await until(() => endless.destroyed, "it is disconnected");
  });

  it("DAEMON-05: a connection that stays silent in the middle of a message is ended", async () => {
    const path = `${base()}/run/short.sock`;
    const server = createServer({ allowHalfOpen: true }, (socket) => {
      serveConnection(socket, handlers, logger, 20);
    });
    server.listen(path);
    await once(server, "listening");
    const half = await client(path);
    half.write('{"version":1');
    half.resume();
    await once(half, "end");
    server.close();
  });

  it("DAEMON-05: closing the server removes the socket, ends connections and lets the next daemon in", async () => {
    const socket = await client();
    socket.resume();
    await served?.close();
    served = undefined;
    await until(() => socket.destroyed || socket.readableEnded, "the connection has ended");
    assert.equal(statSync(socketPath(), { throwIfNoEntry: false }), undefined);
    served = await serveSocket(socketPath(), handlers, logger, machine);
  });

  it("DAEMON-05: a directory that others can write to and a file that is not a socket are refused", async () => {
    mkdirSync(`${base()}/open`);
    chmodSync(`${base()}/open`, 0o777);
    await assert.rejects(serveSocket(`${base()}/open/x.sock`, handlers, logger, machine), {
      code: "ERR_CONFIGURATION",
      message: /mode 777; expected one that only the daemon's user can write to/,
    });
    writeFileSync(`${base()}/run/file`, "precious");
    await assert.rejects(serveSocket(`${base()}/run/file`, handlers, logger, machine), /is not a socket/);
    assert.ok(statSync(`${base()}/run/file`).size > 0);
  });
});
