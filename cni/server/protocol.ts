/** What shim and server have in common. It never changes: a shim may meet the server of another release. */

/** In the run directory: what is locked as long as a server lives, and where it listens. */
export const LOCK_FILE = "lock";
export const SOCKET_FILE = "socket";

/**
 * The token of a call. Standard input is a file in memory that shim and server share; the seal against further seals can be set on it
 * once (fcntl(2), F_SEAL_SEAL; a second time it is EPERM, decided under the inode's lock). The one that sets it has the call: the server
 * before it does anything of it, or the shim when it has waited in vain and does the call by itself. So it is never done twice,
 * whenever either of them is stopped and goes on.
 */
export const F_ADD_SEALS = 1033;
export const F_SEAL_SEAL = 1;

/** How long a shim waits for a server to take its call. */
export const SHIM_PATIENCE_SECONDS = 2;

/** What the server tells a shim, a byte each; smaller ones are exit codes. With the first, only the server does the call. */
export const BEGUN = 254;
/** The shim does it by itself. */
export const DECLINED = 255;

/**
 * In the run directory: the plugin's last answer to STATUS, where all was well (cni/status/kept_answer.ts). Bytes before argv 0,
 * seconds that it lives, and bytes that a shim reads of it.
 */
export const KEPT_ANSWER_FILE = "status";
export const KEPT_ANSWER_HEADER = 8;
export const KEPT_ANSWER_LIFE = 60;
export const LONGEST_KEPT_ANSWER = 64 * 1024;
