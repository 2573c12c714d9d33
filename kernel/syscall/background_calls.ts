/** Calls that may take long, made on another thread while the event loop goes on. Only the daemon uses them. */
export interface BackgroundCalls {
  /**
   * send(2) without flags; negative is minus the errno, as in syscalls.ts. `data` must not change meanwhile.
   */
  sendInBackground(fd: number, data: Uint8Array): Promise<number>;
}
