/** The protocol between shim and server. It never changes: a shim may meet the server of another release. */

/** Files in the run directory: the one that is locked as long as a server lives, and the server's socket. */
export const LOCK_FILE = "lock";
export const SOCKET_FILE = "socket";

/**
 * The token of a call. Standard input is a file in memory that shim and server share. The seal against further seals
 * can be set on it only once (fcntl(2), F_SEAL_SEAL; a second time it is EPERM, decided under the inode's lock). The
 * side that sets it owns the call: the server before it begins it, or the shim when it has waited in vain and executes
 * the plugin. So a call is never carried out twice, even if one side is stopped and continues later.
 */
export const F_ADD_SEALS = 1033;
export const F_SEAL_SEAL = 1;

/** The time that a shim waits for a server to take its call. */
export const SHIM_PATIENCE_SECONDS = 2;

/** The bytes from server to shim; smaller ones are exit codes. After this one, only the server carries out the call. */
export const BEGUN = 254;
/** Tells the shim to execute the plugin. */
export const DECLINED = 255;

/**
 * The file in the run directory with the plugin's last answer to STATUS, if all was well (cni/status/kept_answer.ts);
 * the bytes before argv 0, the seconds for which it is valid, and the bytes that a shim reads of it.
 */
export const KEPT_ANSWER_FILE = "status";
export const KEPT_ANSWER_HEADER = 8;
export const KEPT_ANSWER_LIFE = 60;
export const LONGEST_KEPT_ANSWER = 64 * 1024;
