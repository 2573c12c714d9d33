// Memory for the engine, in place of the C library's: a call allocates a megabyte or two and ends, so pieces are cut from
// memory that the kernel has mapped in advance, which saves a hundred calls of mmap and hundreds of page faults.
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include "native.h"

/** VERSION needs one step, DEL two, ADD three. */
enum { STEP = 448 << 10, PAGE = 4096, ALIGNMENT = 16 };

/** Before each piece. */
typedef struct {
  size_t size;
  void *next_free;
} Header;

static uint8_t *unused;
static size_t left;
/** Free pieces of 2^n bytes and more, less than 2^(n+1). */
static void *free_pieces[64];

static int class_of(size_t size) { return 63 - __builtin_clzl(size); }

static Header *header_of(const void *piece) { return (Header *)piece - 1; }

/** Returns new memory of at least this size; NULL if there is none. */
static uint8_t *cut(size_t size) {
  if (size > left) {
    const size_t mapped = size > STEP ? (size + PAGE - 1) / PAGE * PAGE : STEP;
    uint8_t *more = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (more == MAP_FAILED) return NULL;
    unused = more;
    left = mapped;
  }
  uint8_t *piece = unused;
  unused += size;
  left -= size;
  return piece;
}

static void *allocate([[maybe_unused]] void *opaque, size_t size) {
  if (size > PTRDIFF_MAX - PAGE) return NULL;
  size = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  if (size == 0) size = ALIGNMENT;
  // The last freed piece of its class may be large enough, and each of the class above is.
  for (int class = class_of(size), above = class + 1; class <= above; class++) {
    void *piece = free_pieces[class];
    if (piece == NULL || header_of(piece)->size < size) continue;
    free_pieces[class] = header_of(piece)->next_free;
    return piece;
  }
  Header *header = (Header *)cut(sizeof(Header) + size);
  if (header == NULL) return NULL;
  header->size = size;
  return header + 1;
}

static void *allocate_zeros(void *opaque, size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return NULL;
  void *piece = allocate(opaque, bytes);
  return piece == NULL ? NULL : memset(piece, 0, bytes);
}

static void release([[maybe_unused]] void *opaque, void *piece) {
  if (piece == NULL) return;
  Header *header = header_of(piece);
  const int class = class_of(header->size);
  header->next_free = free_pieces[class];
  free_pieces[class] = piece;
}

static void *reallocate(void *opaque, void *piece, size_t size) {
  if (piece == NULL) return allocate(opaque, size);
  const size_t old = header_of(piece)->size;
  if (size <= old) return piece;
  void *larger = allocate(opaque, size);
  if (larger == NULL) return NULL;
  memcpy(larger, piece, old);
  release(opaque, piece);
  return larger;
}

static size_t usable_size(const void *piece) { return piece == NULL ? 0 : header_of(piece)->size; }

const JSMallocFunctions memory_functions = {allocate_zeros, allocate, release, reallocate, usable_size};
