import { CniErrorCode } from "../error.ts";
import { SERVER } from "../executables.ts";
import { SHIM_PATIENCE_SECONDS } from "../server/protocol.ts";
import { supportedVersions } from "../version.ts";
import { cString, type Item, type Part, pointer, sizeOf, text, u32, u64 } from "./image.ts";
import { type ShimParameters, shimPaths } from "./parameters.ts";

/** The bytes that are read and written at once. */
export const BUFFER_SIZE = 64 * 1024;

const VERB_NAME = "CNI_COMMAND=";
export const VERB_NAME_LENGTH = VERB_NAME.length;

/** PATH_MAX: the longest path of the shim itself. */
export const LONGEST_OWN_PATH = 4096;

/** Returns an error for standard output, in the form of the CNI specification. */
function failure(code: CniErrorCode, msg: string, details?: string): readonly Part[] {
  return [text(`${JSON.stringify({ cniVersion: supportedVersions.at(-1), code, msg, details })}\n`)];
}

/** Returns the shim's own messages, by their symbols in the image. */
export function messages(pluginName: string): Readonly<Record<Message, readonly Part[]>> {
  return {
    "no plugin": failure(
      CniErrorCode.IO_FAILURE,
      `${pluginName}: cannot be executed; expected it beside this executable: install both`,
      "missing, or no memory to start it",
    ),
    "no memory": failure(
      CniErrorCode.TRY_AGAIN_LATER,
      "standard input: cannot be kept; expected free memory on this node: try again",
    ),
    "died in the middle": failure(
      CniErrorCode.TRY_AGAIN_LATER,
      "the plugin server ended in the middle of this call: call DEL, which clears what it left, and try again",
      "some of the call may be done",
    ),
  };
}

export type Message = "no plugin" | "no memory" | "died in the middle";

const AF_UNIX = 1;
const SOL_SOCKET = 1;
const SCM_RIGHTS = 1;

/** Bytes of struct sockaddr_un before its path. */
const SUN_PATH_OFFSET = 2;

/** struct cmsghdr (cmsg(3)) and three descriptors: CMSG_LEN, CMSG_SPACE, and where the descriptors are. */
const RIGHTS_LENGTH = 16 + 3 * 4;
const RIGHTS_SPACE = 32;
export const RIGHTS_DESCRIPTORS = 16;

/** The offsets of the strings' address and length in the two struct iovec. */
export const STRINGS_BASE = 16;
export const STRINGS_LENGTH = 24;

/** Returns the length of the server's address for connect(2). */
export function serverAddressLength(parameters: ShimParameters): number {
  return SUN_PATH_OFFSET + sizeOf([cString(shimPaths(parameters).socket)]);
}

/**
 * Returns everything that the shim has in memory besides its code. The structures are those of both machines, LP64:
 * sendmsg(2), unix(7), cmsg(3).
 *
 * @throws DrawbridgeError ERR_CONFIGURATION as {@link shimPaths}
 */
export function shimItems(parameters: ShimParameters): readonly Item[] {
  const { pluginName, serverEnvironment } = parameters;
  const paths = shimPaths(parameters);
  const strings: Readonly<Record<string, string>> = {
    "memory name": "stdin",
    "network namespace": "/proc/self/ns/net",
    "mount namespace": "/proc/self/ns/mnt",
    "parent directory": paths.parent,
    "run directory": paths.runDirectory,
    "lock file": paths.lock,
    "null device": "/dev/null",
    "root directory": "/",
    "status file": paths.status,
    "status variable": `${VERB_NAME}STATUS`,
    "own executable": "/proc/self/exe",
    "plugin name": pluginName,
    "server name": SERVER,
  };
  const environment = serverEnvironment.map((entry, index) => ({ name: `server environment ${index}`, entry }));
  const constants: readonly Item[] = [
    ...Object.entries(strings).map(([name, value]) => constant(name, [cString(value)])),
    ...environment.map(({ name, entry }) => constant(name, [cString(entry)])),
    ...Object.entries(messages(pluginName)).map(([name, parts]) => constant(name, parts)),
    constant("server address", [{ kind: "bytes", bytes: Uint8Array.of(AF_UNIX, 0) }, cString(paths.socket)]),
    constant("server arguments", [pointer("server name"), pointer("run directory"), u64(0)]),
    constant("server environment", [...environment.map(({ name }) => pointer(name)), u64(0)]),
  ];
  return [
    ...constants,
    // Two struct iovec: argc, as the kernel left it on the stack, and the strings.
    datum("vectors", [u64(0), u64(8), u64(0), u64(0)]),
    // struct timeval
    datum("patience", [u64(SHIM_PATIENCE_SECONDS), u64(0)]),
    // struct cmsghdr: length, level, type; then the descriptors: 0 and two that are filled in; then padding.
    datum("rights", [u64(RIGHTS_LENGTH), u32(SOL_SOCKET), u32(SCM_RIGHTS), u32(0), u32(0), u32(0), u32(0)]),
    // struct msghdr: no name, the two vectors, the rights, no flags.
    datum("message", [u64(0), u64(0), pointer("vectors"), u64(2), pointer("rights"), u64(RIGHTS_SPACE), u64(0)]),
    // The plugin's arguments for a STATUS: argv 0 and the directory for its answer.
    datum("status arguments", [u64(0), pointer("run directory"), u64(0)]),
    { section: "buffers", name: "answer", size: 1 },
    { section: "buffers", name: "is status", size: 8 },
    // struct timespec
    { section: "buffers", name: "time", size: 16 },
    // Next to the data: a short input, as nearly all are, then uses no further page.
    { section: "buffers", name: "buffer", size: BUFFER_SIZE },
    { section: "buffers", name: "kept answer", size: BUFFER_SIZE },
    { section: "buffers", name: "plugin path", size: LONGEST_OWN_PATH + sizeOf([cString(pluginName)]) },
  ];
}

function constant(name: string, parts: readonly Part[]): Item {
  return { section: "constants", name, parts };
}

function datum(name: string, parts: readonly Part[]): Item {
  return { section: "data", name, parts };
}
