import http, { type IncomingMessage, type Server, type ServerResponse } from "node:http";
import https from "node:https";
import type { AddressInfo, Socket } from "node:net";
import process from "node:process";
import { text as textOf } from "node:stream/consumers";
import { realClock } from "../../policyd/lib/clock.ts";
import { Api } from "./api.ts";
import type { Command, Envelope, Reply } from "./command.ts";

/**
 * A Kubernetes API server for tests, in a separate process: it serves the network namespace it was started in, and its
 * parent controls its objects and faults through Node's channel between them.
 */
const api = new Api(realClock);
let server: Server | undefined;
/** The server's sockets, including those whose TLS handshake is not finished, which the HTTP server does not know. */
const sockets = new Set<Socket>();

function serve(request: IncomingMessage, response: ServerResponse): void {
  const { url = "/", method, headers } = request;
  const answer = {
    head: (status: number, extra: Readonly<Record<string, string>>) => {
      response.writeHead(status, extra);
      response.flushHeaders();
    },
    write: (text: string) => void response.write(text),
    end: () => void response.end(),
    reset: () => void request.socket.destroy(),
  };
  if (method === "POST") {
    void textOf(request).then((body) => api.create(url, headers.authorization, body, answer));
    return;
  }
  if (method === "PATCH") {
    void textOf(request).then((body) => api.patch(url, headers, body, answer));
    return;
  }
  if (method !== "GET") return void response.writeHead(405).end();
  response.on("close", api.open(url, headers.authorization, answer));
}

function listen({ address, port, certificate }: Extract<Command, { type: "listen" }>): Promise<number> {
  const made =
    certificate === undefined
      ? http.createServer(serve)
      : https.createServer({ cert: certificate.certificate, key: certificate.key }, serve);
  server = made;
  made.requestTimeout = 0;
  made.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
  });
  return new Promise((resolve, reject) => {
    made.on("error", reject).listen(port, address, () => resolve((made.address() as AddressInfo).port));
  });
}

async function down(): Promise<void> {
  const gone = server;
  server = undefined;
  const closed = new Promise<void>((resolve) => (gone === undefined ? resolve() : gone.close(() => resolve())));
  api.dropAll();
  for (const socket of sockets) socket.destroy();
  await closed;
}

async function obey(command: Command): Promise<Omit<Reply, "id">> {
  switch (command.type) {
    case "listen":
      return { port: await listen(command) };
    case "down":
      await down();
      return {};
    case "features":
      Object.assign(api.features, command.features);
      return {};
    case "apply":
      api.apply(command.objects);
      return {};
    case "plan":
      api.plan(...command.faults);
      return {};
    case "heal":
      api.heal();
      return {};
    case "strike":
      api.strike(command.fault, command.path);
      return {};
    case "bookmark":
      api.bookmark();
      return {};
    case "compact":
      api.compact();
      return {};
    case "serve":
      api.serve(command.path, command.isServed);
      return {};
    case "define":
      api.define(command.definition);
      return {};
    case "read":
      return { objects: api.storage.list(command.path) };
    case "asked":
      return { asked: api.asked };
  }
}

process.on("message", ({ id, command }: Envelope) => {
  void obey(command).then((reply) => process.send?.({ ...reply, id } satisfies Reply));
});
// Ends with its parent.
process.on("disconnect", () => process.exit());
