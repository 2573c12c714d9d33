// The system calls of kernel/syscall, one function each; their arguments and results are described there.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#include "native.h"

Bytes bytes_of(JSContext *context, JSValueConst value) {
  Bytes bytes = {NULL, 0};
  bytes.at = JS_GetUint8Array(context, &bytes.size, value);
  // An empty array may have no memory of its own.
  static uint8_t nothing;
  if (bytes.at == NULL && !JS_HasException(context)) bytes.at = &nothing;
  return bytes;
}

const char *text_of(JSContext *context, JSValueConst value) {
  size_t length;
  const char *text = JS_ToCStringLen(context, &length, value);
  if (text == NULL || strlen(text) == length) return text;
  JS_FreeCString(context, text);
  JS_ThrowRangeError(context, "a path or a name contains a NUL byte");
  return NULL;
}

JSValue outcome(JSContext *context, long result) { return JS_NewInt64(context, result < 0 ? -errno : result); }

HOST(host_socket) {
  INT(domain, 0);
  INT(type, 1);
  INT(protocol, 2);
  return outcome(context, socket(domain, type, protocol));
}

HOST(host_bind) {
  INT(fd, 0);
  BYTES(address, 1);
  return outcome(context, bind(fd, (const struct sockaddr *)address.at, (socklen_t)address.size));
}

HOST(host_connect) {
  INT(fd, 0);
  BYTES(address, 1);
  return outcome(context, connect(fd, (const struct sockaddr *)address.at, (socklen_t)address.size));
}

HOST(host_setsockopt) {
  INT(fd, 0);
  INT(level, 1);
  INT(option, 2);
  BYTES(value, 3);
  return outcome(context, setsockopt(fd, level, option, value.at, (socklen_t)value.size));
}

HOST(host_send) {
  INT(fd, 0);
  BYTES(data, 1);
  INT(flags, 2);
  return outcome(context, send(fd, data.at, data.size, flags));
}

HOST(host_receive_from) {
  INT(fd, 0);
  BYTES(buffer, 1);
  INT(flags, 2);
  BYTES(sender, 3);
  socklen_t length = (socklen_t)sender.size;
  return outcome(context, recvfrom(fd, buffer.at, buffer.size, flags, (struct sockaddr *)sender.at, &length));
}

HOST(host_setns) {
  INT(fd, 0);
  INT(type, 1);
  return outcome(context, setns(fd, type));
}

HOST(host_flock) {
  INT(fd, 0);
  INT(operation, 1);
  return outcome(context, flock(fd, operation));
}

static void on_alarm(int signal) { (void)signal; }

/** Waits for a lock in the kernel, which serves the waiting in their order; -EAGAIN when the time is over. */
HOST(host_lock) {
  INT(fd, 0);
  double milliseconds;
  if (JS_ToFloat64(context, &milliseconds, arguments[1]) < 0) return JS_EXCEPTION;
  int result = flock(fd, LOCK_EX | LOCK_NB);
  if (result == 0 || errno != EWOULDBLOCK || !(milliseconds >= 1)) return outcome(context, result);
  // Without SA_RESTART the signal interrupts flock. It repeats, as the first one may come before the call has begun.
  struct sigaction action = {.sa_handler = on_alarm};
  sigaction(SIGALRM, &action, NULL);
  sigset_t alarm_only;
  sigemptyset(&alarm_only);
  sigaddset(&alarm_only, SIGALRM);
  // The caller may have blocked it, and a process inherits that.
  sigprocmask(SIG_UNBLOCK, &alarm_only, NULL);
  const time_t seconds = (time_t)(milliseconds / 1000);
  const suseconds_t rest = (suseconds_t)((milliseconds - (double)seconds * 1000) * 1000);
  const struct itimerval timer = {.it_value = {seconds, rest}, .it_interval = {0, 10000}};
  setitimer(ITIMER_REAL, &timer, NULL);
  result = flock(fd, LOCK_EX);
  const int error = result < 0 && errno == EINTR ? EAGAIN : errno;
  setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
  errno = error;
  return outcome(context, result);
}

HOST(host_close) {
  INT(fd, 0);
  return outcome(context, close(fd));
}

HOST(host_read) {
  INT(fd, 0);
  BYTES(buffer, 1);
  return outcome(context, read(fd, buffer.at, buffer.size));
}

HOST(host_pread) {
  INT(fd, 0);
  BYTES(buffer, 1);
  int64_t offset;
  if (JS_ToInt64(context, &offset, arguments[2]) < 0) return JS_EXCEPTION;
  return outcome(context, pread(fd, buffer.at, buffer.size, offset));
}

HOST(host_write) {
  INT(fd, 0);
  BYTES(data, 1);
  return outcome(context, write(fd, data.at, data.size));
}

HOST(host_getdents64) {
  INT(fd, 0);
  BYTES(buffer, 1);
  return outcome(context, syscall(SYS_getdents64, fd, buffer.at, buffer.size));
}

/** Frees the path after a call that got it, and returns the call's outcome. */
static JSValue with_path(JSContext *context, const char *path, long result) {
  const int error = errno;
  JS_FreeCString(context, path);
  errno = error;
  return outcome(context, result);
}

HOST(host_open) {
  INT(flags, 1);
  INT(mode, 2);
  const char *path = text_of(context, arguments[0]);
  if (path == NULL) return JS_EXCEPTION;
  // The C library's function would set O_CLOEXEC once more by a call of its own.
  return with_path(context, path, syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

HOST(host_unlink) {
  const char *path = text_of(context, arguments[0]);
  if (path == NULL) return JS_EXCEPTION;
  return with_path(context, path, unlink(path));
}

HOST(host_mkdir) {
  INT(mode, 1);
  const char *path = text_of(context, arguments[0]);
  if (path == NULL) return JS_EXCEPTION;
  return with_path(context, path, mkdir(path, (mode_t)mode));
}

/** The size of struct statx, the same on every architecture; older C libraries do not have it. */
enum { STATX_BYTES = 256 };

HOST(host_statx) {
  INT(directory, 0);
  INT(flags, 2);
  INT(mask, 3);
  BYTES(buffer, 4);
  if (buffer.size < STATX_BYTES) return JS_ThrowRangeError(context, "statx: the buffer is too small");
  const char *path = text_of(context, arguments[1]);
  if (path == NULL) return JS_EXCEPTION;
  return with_path(context, path, syscall(SYS_statx, directory, path, flags, mask, buffer.at));
}

static JSValue on_two_paths(JSContext *context, JSValueConst *arguments, int call(const char *, const char *)) {
  const char *from = text_of(context, arguments[0]);
  if (from == NULL) return JS_EXCEPTION;
  const char *to = text_of(context, arguments[1]);
  if (to == NULL) {
    JS_FreeCString(context, from);
    return JS_EXCEPTION;
  }
  const int result = call(from, to);
  const int error = errno;
  JS_FreeCString(context, to);
  errno = error;
  return with_path(context, from, result);
}

HOST(host_link) { return on_two_paths(context, arguments, link); }

HOST(host_rename) { return on_two_paths(context, arguments, rename); }

/** Returns the address of an array's bytes, which the engine does not move while the array is referenced. */
HOST(host_address_of) {
  BYTES(array, 0);
  return JS_NewBigUint64(context, (uintptr_t)array.at);
}

HOST(host_bpf) {
  INT(command, 0);
  BYTES(attributes, 1);
  return outcome(context, syscall(SYS_bpf, command, attributes.at, attributes.size));
}

HOST(host_now) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return JS_NewFloat64(context, (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6);
}

HOST(host_pause) {
  double milliseconds;
  if (JS_ToFloat64(context, &milliseconds, arguments[0]) < 0) return JS_EXCEPTION;
  if (!(milliseconds > 0)) return JS_UNDEFINED;
  const time_t seconds = (time_t)(milliseconds / 1000);
  nanosleep(&(struct timespec){seconds, (long)((milliseconds - (double)seconds * 1000) * 1e6)}, NULL);
  return JS_UNDEFINED;
}

HOST(host_exit) {
  INT(code, 0);
  _exit(code);
}
