import { withSocket } from "../../../kernel/netlink/socket.ts";
import { randomBytes } from "node:crypto";
import { readFileSync, renameSync, rmSync, statSync, unlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { removeOwnProgram } from "../../../kernel/bpf/own_program.ts";
import { NetlinkError } from "../../../kernel/netlink/error.ts";
import { NftablesSocket } from "../../../kernel/nftables/socket.ts";
import { changeLink, deleteLink } from "../../../kernel/route/link.ts";
import { deleteProxyNeighbour } from "../../../kernel/route/neighbour.ts";
import { deleteRoute } from "../../../kernel/route/route.ts";
import { deleteRule } from "../../../kernel/route/rule.ts";
import type { Request } from "../../../kernel/netlink/message.ts";
import { SyscallError } from "../../../kernel/syscall/syscalls.ts";
import { bytesOf, readList } from "../../../policyd/installation/list_text.ts";
import { withoutOwnPart } from "../../../policyd/installation/merged_list.ts";
import type { Removal } from "../cleanup/removal.ts";
import { procSysctl } from "../../../kernel/sysctl.ts";
import type { MachineCalls } from "../../../kernel/syscall/machine_calls.ts";
import { withRouteSocket } from "../../../kernel/route/socket.ts";

/** The kernel's errors for a thing that is gone already. */
const GONE = ["ENOENT", "ESRCH", "ENODEV"];

/** Removes one thing, which may be gone already. @throws NetlinkError, SyscallError, or an error of node:fs */
export function remove(syscalls: MachineCalls, removal: Removal): void {
  switch (removal.kind) {
    case "file":
      return unlessGone(() => unlinkSync(removal.path));
    case "directory":
      return rmSync(removal.path, { recursive: true, force: true });
    case "entry":
      return unlessGone(() => removeEntry(removal.path));
    case "list":
      return replaceList(removal);
    case "table":
      return removeTable(syscalls, removal);
    case "route":
      return ask(syscalls, deleteRoute(removal.route));
    case "rule":
      return ask(syscalls, deleteRule(removal.rule));
    case "proxy":
      return ask(syscalls, deleteProxyNeighbour(removal.proxy.index, removal.proxy.address));
    case "link":
      return ask(syscalls, deleteLink({ name: removal.name }));
    case "connection":
      return ask(syscalls, changeLink({ name: removal.name }, { up: false }));
    case "setting":
      procSysctl(syscalls).write(removal.key, removal.value);
      return unlessGone(() => unlinkSync(removal.record));
    case "program":
      return withRouteSocket(syscalls, (socket) =>
        unlessGone(() => removeOwnProgram({ socket }, removal.program, removal.index)),
      );
  }
}

/** Removes our part from a network configuration list, or the file where no main plugin remains. */
function removeEntry(file: string): void {
  const list = readList(readFileSync(file));
  const rest = "unreadable" in list ? undefined : withoutOwnPart(list);
  if (rest === undefined) return unlinkSync(file);
  writeWhole(file, bytesOf(rest), statSync(file).mode & 0o777);
}

/** Writes the new list before it removes the old one: without any, containerd could not stop a pod. */
function replaceList({ path: file, replacement, text }: Extract<Removal, { readonly kind: "list" }>): void {
  writeWhole(replacement, Buffer.from(text, "utf8"), 0o600);
  unlessGone(() => unlinkSync(file));
}

function writeWhole(file: string, content: Uint8Array, mode: number): void {
  // A later cleanup removes a file of this name, should this one be killed.
  const beside = `${path.dirname(file)}/.drawbridge.${randomBytes(8).toString("hex")}.tmp`;
  writeFileSync(beside, content, { mode, flag: "wx", flush: true });
  renameSync(beside, file);
}

/** Deletes a table. One with the owner flag is taken over first, which succeeds once its owner is gone. */
function removeTable(syscalls: MachineCalls, { table, isOwned }: Extract<Removal, { readonly kind: "table" }>): void {
  withSocket(new NftablesSocket(syscalls), (socket) => {
    if (isOwned) socket.commit([{ kind: "add table", table: { ...table, isOwned } }]);
    unlessGone(() => socket.commit([{ kind: "delete table", table }]));
  });
}

function ask(syscalls: MachineCalls, request: Request): void {
  withRouteSocket(syscalls, (socket) => unlessGone(() => void socket.request(request)));
}

function unlessGone(action: () => void): void {
  try {
    action();
  } catch (error) {
    const isRefusal = error instanceof NetlinkError || error instanceof SyscallError;
    if (isRefusal && GONE.includes(error.errnoName)) return;
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return;
    throw error;
  }
}
