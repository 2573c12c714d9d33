import { KEPT_ANSWER_HEADER, KEPT_ANSWER_LIFE } from "../server/protocol.ts";
import { BUFFER_SIZE, VERB_NAME_LENGTH } from "./data.ts";
import {
  add,
  address,
  at,
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
import { AT_FDCWD, STDIN, environmentPointer } from "./program_part.ts";
import { type Machine, noFollow } from "./system_call.ts";

const O_CLOEXEC = 0o2000000;
const CLOCK_BOOTTIME = 7;

/**
 * Returns the part of the shim that answers STATUS. If the plugin has stored the answer "all is well" for exactly this
 * argv 0 and this standard input, and the answer has not expired, the shim exits with 0. In every other case the
 * program continues at "ask", where the call is handed to the server or the plugin.
 *
 * For every other verb this part only looks for CNI_COMMAND. The variable "is status" says later whether the verb is
 * STATUS.
 */
export function keptStatus(machine: Machine): readonly Operation[] {
  return [...verbIsStatus, ...keptAnswer(machine), ...sameName, ...sameInput];
}

/** The first variable of that name counts, as for getenv(3). */
const verbIsStatus: readonly Operation[] = [
  ...environmentPointer(),
  label("next variable"),
  load(8, "cursor", at("left")),
  jumpIf("cursor", "==", 0, "ask"),
  add("left", 8),
  set("file", address("status variable")),
  label("compare variable"),
  load(1, "result", at("cursor")),
  load(1, "socket", at("file")),
  jumpIf("result", "!=", "socket", "variable differs"),
  add("cursor", 1),
  add("file", 1),
  jumpIf("result", "!=", 0, "compare variable"),
  jump("is status"),
  label("variable differs"),
  jumpIf("file", "<", address("status variable", VERB_NAME_LENGTH), "next variable"),
  jump("ask"),
  label("is status"),
  // An address, which is not 0.
  store(8, address("is status"), "file"),
];

/** Reads the answer, and compares its expiry with the clock. `socket` becomes the end of the read bytes. */
function keptAnswer(machine: Machine): readonly Operation[] {
  return [
    system("openat", AT_FDCWD, address("status file"), O_CLOEXEC + noFollow[machine], 0),
    jumpIf("result", "<", 0, "ask"),
    set("file", "result"),
    system("read", "file", address("kept answer"), BUFFER_SIZE),
    // With less than a header, or minus an errno, the end lies before the name.
    set("socket", address("kept answer")),
    add("socket", "result"),
    // If this call fails, the time is 0, and the expiry is further away than an answer is valid.
    system("clock_gettime", CLOCK_BOOTTIME, address("time")),
    load(8, "left", address("time")),
    load(8, "cursor", address("kept answer")),
    subtract("cursor", "left"),
    jumpIf("cursor", "<=", 0, "ask"),
    // The answer was stored in an earlier boot that lasted longer than this one has.
    jumpIf("cursor", ">", KEPT_ANSWER_LIFE, "ask"),
  ];
}

const sameName: readonly Operation[] = [
  load(8, "left", at("stack", 8)),
  // Kernels before 5.18 execute a program without any argument, whose argv[0] is then NULL.
  jumpIf("left", "==", 0, "ask"),
  set("cursor", address("kept answer", KEPT_ANSWER_HEADER)),
  label("compare name"),
  jumpIf("cursor", ">=", "socket", "ask"),
  load(1, "result", at("cursor")),
  load(1, "file", at("left")),
  jumpIf("result", "!=", "file", "ask"),
  add("cursor", 1),
  add("left", 1),
  jumpIf("result", "!=", 0, "compare name"),
];

/** Compares standard input with the rest of the answer, in length and content; leaves its offset unchanged. */
const sameInput: readonly Operation[] = [
  set("left", "socket"),
  subtract("left", "cursor"),
  jumpIf("left", "!=", "total", "ask"),
  system("pread64", STDIN, address("buffer"), BUFFER_SIZE, 0),
  jumpIf("result", "!=", "total", "ask"),
  set("left", address("buffer")),
  label("compare input"),
  jumpIf("cursor", ">=", "socket", "all is well"),
  load(1, "result", at("cursor")),
  load(1, "file", at("left")),
  jumpIf("result", "!=", "file", "ask"),
  add("cursor", 1),
  add("left", 1),
  jump("compare input"),
  label("all is well"),
  system("exit_group", 0),
];
