/** The C library's memory functions. Only the daemon uses them. */
export interface MemoryCalls {
  /**
   * malloc_trim(3): returns freed memory to the kernel, also from the middle; malloc itself only from the end.
   *
   * @returns whether any memory was returned
   */
  trimMemory(): boolean;
}
