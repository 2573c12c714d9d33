/** The call that makes a namespace, only for the command line and the tests; negative results are as in syscalls.ts. */
export interface NamespaceCalls {
  /** unshare(2): moves the calling thread into new namespaces. */
  unshare(flags: number): number;
}
