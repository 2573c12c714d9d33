import type { LabNamespace } from "../../lab/namespace.ts";
import { bindToNew } from "../../lab/probe/new_port.ts";
import type { Endpoint } from "../../lab/probe/endpoint.ts";
import type { Poller } from "../../lab/probe/poller.ts";
import { ProbeSocket, SocketType } from "../../lab/probe/socket.ts";
import { errnoText } from "../../../kernel/syscall/errno.ts";
import { familyOf } from "../../../kernel/ip/address.ts";

const PATIENCE_MILLISECONDS = 10_000;

/** The outcome of a request: a page, or the reason why there is none. */
export interface Page {
  /** 0 where no answer came. */
  readonly status: number;
  readonly text: string;
}

/** Differences of a request from one for `/`. */
export interface PageOptions {
  readonly path?: string;
  /** The longest time for the whole request, in milliseconds. */
  readonly patience?: number;
}

/** Requests a page from an address by HTTP, on a connection of its own. */
export async function getPage(
  poller: Poller,
  from: LabNamespace,
  to: Endpoint,
  { path = "/", patience = PATIENCE_MILLISECONDS }: PageOptions = {},
): Promise<Page> {
  const family = familyOf(to.address);
  const socket = ProbeSocket.open(from, family, SocketType.STREAM);
  bindToNew(socket, family, undefined);
  let received = "";
  let end: string | undefined;
  const onReadable = (): void => {
    for (const next of socket.drain()) {
      if (next.kind === "data") received += Buffer.from(next.data).toString("latin1");
      else end = next.kind === "end" ? "end" : errnoText(next.errno);
    }
  };
  poller.watch(socket, {
    onReadable,
    onWritable: () => {
      const errno = socket.takeError();
      if (errno !== 0) return void (end = errnoText(errno));
      poller.watch(socket, { onReadable });
      socket.send(Buffer.from(`GET ${path} HTTP/1.0\r\nHost: shop.example\r\n\r\n`));
    },
  });
  socket.connect(to);
  const deadline = performance.now() + patience;
  await poller.runUntil(() => end !== undefined || performance.now() > deadline);
  poller.drop(socket);
  const [head = "", text = ""] = received.split("\r\n\r\n");
  const status = Number(/^HTTP\/1\.[01] (?<status>\d{3})/.exec(head)?.groups?.["status"] ?? 0);
  return status === 0 ? { status, text: end ?? "no answer" } : { status, text: text.trim() };
}
