/** What the C library does with memory, of the daemon alone. */
export interface MemoryCalls {
  /**
   * malloc_trim(3): gives the kernel back what was freed, also from the middle. malloc by itself only gives back what is at the end.
   *
   * @returns whether there was anything
   */
  trimMemory(): boolean;
}
