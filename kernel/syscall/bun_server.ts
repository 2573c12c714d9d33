import { addressOf, openLibc, type Signature } from "./bun_ffi.ts";
import { Errno } from "./errno.ts";
import { POLLFD_SIZE } from "./poll_calls.ts";
import { isCut, messageHeader, MSGHDR_SIZE, type ServerCalls } from "./server_calls.ts";

const MSG_CMSG_CLOEXEC = 0x40000000;
const MSG_DONTWAIT = 0x40;
const F_ADD_SEALS = 1033;

const signatures = {
  listen: { args: ["i32", "i32"], returns: "i32" },
  accept4: { args: ["i32", "ptr", "ptr", "i32"], returns: "i32" },
  recvmsg: { args: ["i32", "ptr", "i32"], returns: "i64" },
  poll: { args: ["ptr", "u64", "i32"], returns: "i32" },
  fcntl: { args: ["i32", "i32", "i32"], returns: "i32" },
  alarm: { args: ["u32"], returns: "i32" },
} as const satisfies Readonly<Record<string, Signature>>;

const NULL = 0;

/**
 * Returns the plugin server's calls by Bun's FFI. They are not in `bun.ts`, where each symbol slows down each start.
 *
 * @throws Error when libc cannot be opened, or this Bun is not the pinned version
 */
export function bunServerCalls(): ServerCalls {
  const { calls: c, outcome } = openLibc(signatures);
  const header = new Uint8Array(MSGHDR_SIZE);
  const headerView = new DataView(header.buffer);
  const vector = new Uint8Array(16);
  const vectorView = new DataView(vector.buffer);
  return {
    listen: (fd, backlog) => outcome(c.listen(fd, backlog)),
    accept: (fd, flags) => outcome(c.accept4(fd, NULL, NULL, flags)),
    receiveMessage: (fd, buffer, control) => {
      control.fill(0);
      // The collector does not move an array whose address was taken, and all arrays are in use until the call is over.
      messageHeader(
        headerView,
        { view: vectorView, address: addressOf(vector) },
        { address: addressOf(buffer), length: buffer.length },
        { address: addressOf(control), length: control.length },
      );
      const length = outcome(c.recvmsg(fd, header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT));
      return length >= 0 && isCut(headerView) ? -Errno.EMSGSIZE : length;
    },
    addSeals: (fd, seals) => outcome(c.fcntl(fd, F_ADD_SEALS, seals)),
    alarm: (seconds) => outcome(c.alarm(seconds)),
    poll: (entries, milliseconds) => outcome(c.poll(entries, entries.length / POLLFD_SIZE, milliseconds)),
  };
}
