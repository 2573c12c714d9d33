import { Errno } from "../../kernel/syscall/errno.ts";
import { BEGUN, F_ADD_SEALS, F_SEAL_SEAL } from "../server/protocol.ts";
import { LONGEST_STDIN } from "../standard_input.ts";
import { BUFFER_SIZE, RIGHTS_DESCRIPTORS, STRINGS_BASE, STRINGS_LENGTH, serverAddressLength } from "./data.ts";
import {
  add,
  address,
  at,
  initialStack,
  jump,
  jumpIf,
  label,
  load,
  type Operation,
  set,
  store,
  subtract,
  system,
} from "./operation.ts";
import type { ShimParameters } from "./parameters.ts";
import { endings } from "./program_end.ts";
import { AT_FDCWD, STDIN, STDOUT, environmentPointer, readByte, retried, writeAll } from "./program_part.ts";
import { plugin, serverStart } from "./program_plugin.ts";
import { keptStatus } from "./program_status.ts";

const HIGHEST_EXIT_CODE = 127;

const MFD_CLOEXEC = 1;
const MFD_ALLOW_SEALING = 2;
/** Allows seals, too. Linux has it from 6.3 on; with vm.memfd_noexec 2 it makes no other file. */
const MFD_NOEXEC_SEAL = 8;
const SEEK_SET = 0;
const AF_UNIX = 1;
const SOCK_SEQPACKET = 5;
const SOCK_CLOEXEC = 0o2000000;
const O_CLOEXEC = 0o2000000;
const MSG_NOSIGNAL = 0x4000;
const SOL_SOCKET = 1;
const SO_RCVTIMEO = 20;
const SO_SNDTIMEO = 21;
const TIMEVAL_SIZE = 16;
const AT_EXECFN = 31;

/**
 * Returns the program of the shim. It answers STATUS if the plugin has stored an answer. Otherwise it hands the call to
 * the plugin server. If no server runs, it starts one for the next calls and executes the plugin.
 *
 * Exactly one of server and plugin carries out a call. Until the server reports that it has begun, each failure leads
 * to the plugin ("cold"), with standard input unchanged; afterwards none does. A server that does not take the call in
 * time loses it (cni/server/protocol.ts).
 *
 * @throws DrawbridgeError ERR_CONFIGURATION for parameters that no shim can have
 */
export function shimProgram(parameters: ShimParameters): readonly Operation[] {
  return [
    initialStack("stack"),
    ...standardInput,
    label("connect"),
    ...keptStatus(parameters.machine),
    ...connection(serverAddressLength(parameters)),
    ...request,
    ...reply,
    ...output,
    ...serverStart(parameters.machine),
    ...plugin,
    ...endings(parameters.pluginName),
  ];
}

/** Copies standard input to a file in memory, which server or plugin reads, and which can be read twice. */
const standardInput: readonly Operation[] = [
  system("memfd_create", address("memory name"), MFD_CLOEXEC + MFD_NOEXEC_SEAL),
  jumpIf("result", "!=", -Errno.EINVAL, "memory made"),
  system("memfd_create", address("memory name"), MFD_CLOEXEC + MFD_ALLOW_SEALING),
  label("memory made"),
  jumpIf("result", "<", 0, "cold"),
  set("file", "result"),
  set("total", 0),
  label("read input"),
  ...retried("read input", system("read", STDIN, address("buffer"), BUFFER_SIZE)),
  jumpIf("result", ">", 0, "keep input"),
  jumpIf("result", "==", 0, "input complete"),
  // Nothing was read yet, so the plugin can find the error itself; a later error counts as the end.
  jumpIf("total", "==", 0, "cold"),
  jump("input complete"),
  label("keep input"),
  set("left", "result"),
  system("write", "file", address("buffer"), "left"),
  jumpIf("result", "!=", "left", "no memory"),
  add("total", "left"),
  // An input beyond the plugin's limit is handed on incompletely: the plugin reports its length.
  jumpIf("total", "<=", LONGEST_STDIN, "read input"),
  label("input complete"),
  system("lseek", "file", 0, SEEK_SET),
  jumpIf("result", "<", 0, "no memory"),
  // If standard input was closed, the file has its number already.
  jumpIf("file", "==", STDIN, "connect"),
  system("dup3", "file", STDIN, 0),
  jumpIf("result", "<", 0, "no memory"),
  system("close", "file"),
];

function connection(addressLength: number): readonly Operation[] {
  return [
    label("ask"),
    system("socket", AF_UNIX, SOCK_SEQPACKET + SOCK_CLOEXEC, 0),
    jumpIf("result", "<", 0, "cold"),
    set("socket", "result"),
    // connect(2) waits, too, if very many others do; without a timeout, as long as the server is stopped.
    set("cursor", SO_RCVTIMEO),
    label("next timeout"),
    system("setsockopt", "socket", SOL_SOCKET, "cursor", address("patience"), TIMEVAL_SIZE),
    add("cursor", SO_SNDTIMEO - SO_RCVTIMEO),
    jumpIf("cursor", "<=", SO_SNDTIMEO, "next timeout"),
    system("connect", "socket", address("server address"), addressLength),
    jumpIf("result", "==", -Errno.EINTR, "cold"),
    jumpIf("result", "<", 0, "start server"),
  ];
}

/**
 * Sends argc and the strings of argv and envp, which are consecutive on the stack (fs/exec.c copies the name of the
 * file, the environment and the arguments downwards), with the three descriptors of the call.
 */
const request: readonly Operation[] = [
  // The stack, from its top: argc, argv, NULL, envp, NULL, pairs of the auxiliary vector (psABI, "Initial Stack and Register State").
  store(8, address("vectors"), "stack"),
  ...environmentPointer(),
  label("skip environment"),
  load(8, "cursor", at("left")),
  add("left", 8),
  jumpIf("cursor", "!=", 0, "skip environment"),
  label("next auxiliary"),
  load(8, "cursor", at("left")),
  jumpIf("cursor", "==", AT_EXECFN, "name of the file"),
  jumpIf("cursor", "==", 0, "cold"),
  add("left", 16),
  jump("next auxiliary"),
  label("name of the file"),
  load(8, "cursor", at("left", 8)),
  load(8, "left", at("stack", 8)),
  // Kernels before 5.18 execute a program without any argument, whose argv[0] is then NULL.
  jumpIf("left", "==", 0, "cold"),
  subtract("cursor", "left"),
  jumpIf("cursor", "<=", 0, "cold"),
  store(8, address("vectors", STRINGS_BASE), "left"),
  store(8, address("vectors", STRINGS_LENGTH), "cursor"),
  system("openat", AT_FDCWD, address("network namespace"), O_CLOEXEC, 0),
  jumpIf("result", "<", 0, "cold"),
  store(4, address("rights", RIGHTS_DESCRIPTORS + 4), "result"),
  system("openat", AT_FDCWD, address("mount namespace"), O_CLOEXEC, 0),
  jumpIf("result", "<", 0, "cold"),
  store(4, address("rights", RIGHTS_DESCRIPTORS + 8), "result"),
  system("sendmsg", "socket", address("message"), MSG_NOSIGNAL),
  jumpIf("result", "<", 0, "cold"),
];

const reply: readonly Operation[] = [
  ...readByte("hear whether it has begun", "declined", "take it back"),
  jumpIf("cursor", "==", BEGUN, "hear the exit code"),
  jump("declined"),
  label("take it back"),
  system("fcntl", STDIN, F_ADD_SEALS, F_SEAL_SEAL),
  // The server has taken the call, which may have to wait for another one of the container.
  jumpIf("result", "!=", 0, "hear whether it has begun"),
  label("declined"),
  // The server may have read the input before it declined, and shares the offset.
  system("lseek", STDIN, 0, SEEK_SET),
  jumpIf("result", "<", 0, "no memory"),
  jump("cold"),
  ...readByte("hear the exit code", "died in the middle", "hear the exit code"),
  jumpIf("cursor", ">", HIGHEST_EXIT_CODE, "died in the middle"),
];

/** Prints the output, which the server has appended to the file in memory. */
const output: readonly Operation[] = [
  system("lseek", STDIN, "total", SEEK_SET),
  jumpIf("result", "<", 0, "fail"),
  label("read output"),
  ...retried("read output", system("read", STDIN, address("buffer"), BUFFER_SIZE)),
  jumpIf("result", "<", 0, "fail"),
  jumpIf("result", "==", 0, "end"),
  set("cursor", address("buffer")),
  set("left", "result"),
  ...writeAll("write output", STDOUT, "fail"),
  jump("read output"),
  label("end"),
  load(1, "cursor", address("answer")),
  system("exit_group", "cursor"),
];
