// What the files of this folder share: how a function of the host reads its arguments and returns its result.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "quickjs.h"

/** Bytes of a Uint8Array; `at` is NULL, with a pending exception, if the value is none. */
typedef struct {
  uint8_t *at;
  size_t size;
} Bytes;

/** Declares a function that JavaScript calls. A missing argument is undefined, since each has its number of arguments. */
#define HOST(name) \
  JSValue name([[maybe_unused]] JSContext *context, [[maybe_unused]] JSValueConst self, [[maybe_unused]] int count, \
               [[maybe_unused]] JSValueConst *arguments)

/** Reads an argument into a new variable, or returns with the exception. */
#define INT(variable, i) \
  int32_t variable; \
  if (JS_ToInt32(context, &variable, arguments[i]) < 0) return JS_EXCEPTION
#define BYTES(variable, i) \
  Bytes variable = bytes_of(context, arguments[i]); \
  if (variable.at == NULL) return JS_EXCEPTION

Bytes bytes_of(JSContext *context, JSValueConst value);
/** Returns a text as C reads it, to be freed by JS_FreeCString; NULL, with an exception, if a NUL would truncate it. */
const char *text_of(JSContext *context, JSValueConst value);
/** Returns a system call's result: zero or more, or minus the errno. */
JSValue outcome(JSContext *context, long result);

HOST(host_bind);
HOST(host_bpf);
HOST(host_close);
HOST(host_connect);
HOST(host_exit);
HOST(host_flock);
HOST(host_getdents64);
HOST(host_link);
HOST(host_lock);
HOST(host_mkdir);
HOST(host_now);
HOST(host_open);
HOST(host_pause);
HOST(host_pread);
HOST(host_read);
HOST(host_receive_from);
HOST(host_rename);
HOST(host_send);
HOST(host_setns);
HOST(host_setsockopt);
HOST(host_socket);
HOST(host_statx);
HOST(host_unlink);
HOST(host_write);

HOST(host_kill_group);
HOST(host_memory_file);
HOST(host_pipe);
HOST(host_poll);
HOST(host_spawn);
HOST(host_wait);

/** The engine's memory. */
extern const JSMallocFunctions memory_functions;

HOST(host_decode);
HOST(host_encode);
HOST(host_sha256);
