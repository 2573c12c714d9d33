// The calls of kernel/syscall/program_calls.ts, which start another program and wait for it.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "native.h"

HOST(host_memory_file) {
  BYTES(content, 0);
  const int file = memfd_create("drawbridge stdin", MFD_CLOEXEC);
  if (file < 0) return outcome(context, -1);
  for (size_t sent = 0; sent < content.size;) {
    const ssize_t written = write(file, content.at + sent, content.size - sent);
    if (written > 0) sent += (size_t)written;
    else if (errno != EINTR) {
      const int error = errno;
      close(file);
      errno = error;
      return outcome(context, -1);
    }
  }
  // Opened again, the descriptor is at the file's beginning and cannot change it.
  char path[40];
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  const int reader = open(path, O_RDONLY | O_CLOEXEC);
  const int error = errno;
  close(file);
  errno = error;
  return outcome(context, reader);
}

HOST(host_pipe) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) < 0) return outcome(context, -1);
  JSValue result = JS_NewObject(context);
  JS_SetPropertyStr(context, result, "read", JS_NewInt32(context, ends[0]));
  JS_SetPropertyStr(context, result, "write", JS_NewInt32(context, ends[1]));
  return result;
}

/** Returns a property of an object as an int, or -1 with an exception. */
static int int_at(JSContext *context, JSValueConst list, uint32_t index) {
  JSValue value = JS_GetPropertyUint32(context, list, index);
  int32_t number = -1;
  if (JS_ToInt32(context, &number, value) < 0) number = -1;
  JS_FreeValue(context, value);
  return number;
}

/** The program may get this many variables; a runtime sets some twenty. */
enum { MOST_VARIABLES = 4096 };

/** Starts a program with these variables and descriptors. @returns its process, or minus the errno */
static int start(const char *file, char **variables, const posix_spawn_file_actions_t *actions) {
  // The program must not inherit descriptors that are still open: socket calls without SOCK_CLOEXEC exist.
  if (syscall(SYS_close_range, 3, ~0U, 4 /* CLOSE_RANGE_CLOEXEC */) < 0) return -errno;
  posix_spawnattr_t attributes;
  sigset_t all, none;
  sigfillset(&all);
  sigemptyset(&none);
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setsigmask(&attributes, &none);
  char *const arguments[] = {(char *)file, NULL};
  pid_t process;
  const int error = posix_spawn(&process, file, actions, &attributes, arguments, variables);
  return error == 0 ? process : -error;
}

/** Takes a ProgramStart: { file, environment, descriptors: [[number, ours]] }. */
HOST(host_spawn) {
  JSValue path = JS_GetPropertyStr(context, arguments[0], "file");
  JSValue environment = JS_GetPropertyStr(context, arguments[0], "environment");
  JSValue descriptors = JS_GetPropertyStr(context, arguments[0], "descriptors");
  const char *file = text_of(context, path);
  int64_t variable_count = 0;
  int64_t descriptor_count = 0;
  JS_GetLength(context, environment, &variable_count);
  JS_GetLength(context, descriptors, &descriptor_count);
  if (file == NULL || JS_HasException(context)) return JS_EXCEPTION;
  if (variable_count > MOST_VARIABLES) return JS_NewInt32(context, -E2BIG);
  char **variables = calloc((size_t)variable_count + 1, sizeof *variables);
  if (variables == NULL) return JS_NewInt32(context, -ENOMEM);
  for (uint32_t i = 0; i < variable_count; i++) {
    JSValue variable = JS_GetPropertyUint32(context, environment, i);
    variables[i] = (char *)text_of(context, variable);
    JS_FreeValue(context, variable);
    if (variables[i] == NULL) return JS_EXCEPTION;
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (uint32_t i = 0; i < descriptor_count; i++) {
    JSValue pair = JS_GetPropertyUint32(context, descriptors, i);
    posix_spawn_file_actions_adddup2(&actions, int_at(context, pair, 1), int_at(context, pair, 0));
    JS_FreeValue(context, pair);
  }
  const int result = start(file, variables, &actions);
  // A call starts two programs at most and then ends: what is left of them is the kernel's to free, as after an error.
  return JS_NewInt32(context, result);
}

/** Returns the status of a program as waitpid gives it; 0 cannot be told from "running", so that is -EAGAIN. */
HOST(host_wait) {
  INT(process, 0);
  int status = 0;
  const pid_t ended = waitpid(process, &status, WNOHANG);
  if (ended < 0) return outcome(context, -1);
  return JS_NewInt32(context, ended == 0 ? -EAGAIN : status);
}

HOST(host_kill_group) {
  INT(process, 0);
  return outcome(context, process > 1 ? kill(-process, SIGKILL) : (errno = EINVAL, -1));
}

HOST(host_poll) {
  BYTES(entries, 0);
  INT(milliseconds, 1);
  return outcome(context, poll((struct pollfd *)entries.at, entries.size / sizeof(struct pollfd), milliseconds));
}
