/** Calls that may take long, made on a thread of their own while the event loop goes on. For the daemon alone. */
export interface BackgroundCalls {
  /** send(2) without flags; as in {@link ./syscalls.ts}, negative is minus the errno. `data` must not change meanwhile. */
  sendInBackground(fd: number, data: Uint8Array): Promise<number>;
}
