import { familyOf } from "../../../kernel/ip/address.ts";
import { Errno, errnoText } from "../../../kernel/syscall/errno.ts";
import { check } from "../../../kernel/syscall/syscalls.ts";
import { bindToNew } from "./new_port.ts";
import { isSameToken, type Protocol, TOKEN_SIZE } from "./protocol.ts";
import { ProbeSocket, SocketType } from "./socket.ts";

/** TCP: connects, sends the token and reads it back, as often as requested. */
export const tcp: Protocol = {
  respond(poller, at, sighting) {
    const listener = ProbeSocket.open(at.namespace, familyOf(at.address), SocketType.STREAM);
    listener.bind(at);
    listener.listen();
    poller.watch(listener, {
      onReadable: () => {
        const accepted = listener.accept();
        if (accepted === undefined) return;
        const { socket, peer } = accepted;
        let received: Uint8Array = new Uint8Array();
        poller.watch(socket, {
          onReadable: () => {
            const next = socket.receive();
            if (next.kind === "nothing") return;
            if (next.kind !== "data") return poller.drop(socket);
            received = Buffer.concat([received, next.data]);
            if (received.length < TOKEN_SIZE) return;
            sighting(received, peer);
            socket.send(received);
            received = new Uint8Array();
          },
        });
      },
    });
  },

  attempt(poller, { from, to, source, hasNewPort = false, exchanges = 1 }, token, verdict) {
    const socket = ProbeSocket.open(from, familyOf(to.address), SocketType.STREAM);
    if (hasNewPort) bindToNew(socket, familyOf(to.address), source);
    else if (source !== undefined) check(socket.bindOwn(familyOf(to.address), 0, source), "bind a sender of TCP");
    const fail = (errno: number): void => verdict.failed(errnoText(errno));
    let remaining = exchanges;
    let received: Uint8Array = new Uint8Array();
    const watcher = {
      onReadable: () => {
        const next = socket.receive();
        if (next.kind === "refused") return fail(next.errno);
        if (next.kind === "end") return verdict.failed("connection closed by the other side");
        if (next.kind !== "data") return;
        received = Buffer.concat([received, next.data]);
        if (!isSameToken(received, token)) return;
        if (--remaining === 0) return verdict.reached();
        received = new Uint8Array();
        socket.send(token);
      },
    };
    poller.watch(socket, {
      ...watcher,
      onWritable: () => {
        const errno = socket.takeError();
        if (errno !== 0) return fail(errno);
        poller.watch(socket, watcher);
        socket.send(token);
      },
    });
    const result = socket.connect(to);
    if (result < 0 && result !== -Errno.EINPROGRESS) fail(-result);
    return { repeat: () => {}, close: () => poller.drop(socket) };
  },
};
