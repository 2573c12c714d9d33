/** What shim and server have in common. It never changes: a shim may meet the server of another release. */

/** In the run directory: what is locked as long as a server lives, and where it listens. */
export const LOCK_FILE = "lock";
export const SOCKET_FILE = "socket";

/** What the server tells a shim, a byte each; smaller ones are exit codes. With the first, only the server does the call. */
export const BEGUN = 254;
/** The shim does it by itself. */
export const DECLINED = 255;
