// The files of this folder share this: how a function reads its arguments from JavaScript and returns its result.
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

/** The engine's memory. */
extern const JSMallocFunctions memory_functions;

/** All functions of kernel/syscall/native.ts: the name there, the number of arguments, and the function here. */
#define HOST_FUNCTIONS(EACH) \
  EACH("addressOf", 1, host_address_of) \
  EACH("bind", 2, host_bind) \
  EACH("bpf", 2, host_bpf) \
  EACH("close", 1, host_close) \
  EACH("connect", 2, host_connect) \
  EACH("decode", 3, host_decode) \
  EACH("encode", 1, host_encode) \
  EACH("exit", 1, host_exit) \
  EACH("flock", 2, host_flock) \
  EACH("getdents64", 2, host_getdents64) \
  EACH("killGroup", 1, host_kill_group) \
  EACH("link", 2, host_link) \
  EACH("load", 1, host_load) \
  EACH("lock", 2, host_lock) \
  EACH("memoryFile", 1, host_memory_file) \
  EACH("mkdir", 2, host_mkdir) \
  EACH("now", 0, host_now) \
  EACH("open", 3, host_open) \
  EACH("pause", 1, host_pause) \
  EACH("pipe", 0, host_pipe) \
  EACH("poll", 2, host_poll) \
  EACH("pread", 3, host_pread) \
  EACH("printStack", 1, host_print_stack) \
  EACH("read", 2, host_read) \
  EACH("receiveFrom", 4, host_receive_from) \
  EACH("rename", 2, host_rename) \
  EACH("send", 3, host_send) \
  EACH("setns", 2, host_setns) \
  EACH("setsockopt", 4, host_setsockopt) \
  EACH("sha256", 1, host_sha256) \
  EACH("socket", 3, host_socket) \
  EACH("spawn", 1, host_spawn) \
  EACH("statx", 5, host_statx) \
  EACH("unlink", 1, host_unlink) \
  EACH("wait", 1, host_wait) \
  EACH("write", 2, host_write)

#define DECLARE(name, count, function) HOST(function);
HOST_FUNCTIONS(DECLARE)
