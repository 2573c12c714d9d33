import { enterNamespace, openNamespace } from "../../../kernel/network_namespace.ts";
import { nodeSyscalls } from "../../../kernel/syscall/koffi.ts";
import type { NodeMachine } from "./machine.ts";
import { systemMachine } from "./system_machine.ts";

/** Opens this machine; the thread stays in the named namespace. @throws SyscallError ERR_NAMESPACE */
export function openMachine(networkNamespace: string | undefined): NodeMachine {
  const syscalls = nodeSyscalls();
  if (networkNamespace !== undefined) enterNamespace(syscalls, openNamespace(syscalls, networkNamespace));
  return systemMachine(syscalls);
}
