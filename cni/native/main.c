// Starts the engine, gives it the system calls and the modules of the plugin, and carries out cni/main.ts.
#define _GNU_SOURCE
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "lines.h"
#include "modules.h"
#include "native.h"

/** More than a GC of thousands of attachments needs. */
enum { MOST_MEMORY = 256 << 20 };
/** The engine's own limit, if the process has a stack of at least twice that. */
enum { MOST_STACK = 1 << 20 };

static const char NO_MEMORY[] = "out of memory; expected at least 20 MB of address space";

extern char **environ;

/** Prints a message as CNI's error, for the case that the plugin itself cannot: code 999, "internal error". */
static void print_error(const char *message) {
  char text[256];
  const int length = snprintf(text, sizeof text,
                              "{\n    \"cniVersion\": \"1.0.0\",\n    \"code\": 999,\n    \"msg\": \"%s\"\n}\n", message);
  if (write(STDOUT_FILENO, text, (size_t)length) != length) _exit(1);
}

/** Prints a line of a stack trace. It replaces the place in the code, "(cni/main.js:12:34)", by that in TypeScript. */
static void print_frame(const char *frame, int length) {
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
    const char *place = strstr(frame, codes[i].name);
    unsigned line;
    if (place == NULL || place >= frame + length) continue;
    if (sscanf(place + strlen(codes[i].name), ":%u", &line) != 1 || line == 0 || line > codes[i].count) continue;
    const uint32_t original = codes[i].lines[line - 1];
    const int before = (int)(place - frame);
    dprintf(STDERR_FILENO, "%.*s%s:%u)\n", before, frame, sources[original >> 16], original & 0xffff);
    return;
  }
  dprintf(STDERR_FILENO, "%.*s\n", length, frame);
}

/** Prints an error's message and stack to the runtime's log. */
static void print_stack(JSContext *context, JSValueConst error) {
  const char *message = JS_ToCString(context, error);
  const char *frames = JS_ToCString(context, JS_GetPropertyStr(context, error, "stack"));
  dprintf(STDERR_FILENO, "%s\n", message == NULL ? "an error" : message);
  for (const char *frame = frames; frame != NULL && *frame != '\0';) {
    const size_t length = strcspn(frame, "\n");
    print_frame(frame, (int)length);
    frame += length + (frame[length] == '\n');
  }
}

HOST(host_print_stack) {
  print_stack(context, arguments[0]);
  return JS_UNDEFINED;
}

/** Answers for an error that no module has caught. */
static void report(JSContext *context) {
  JSValue error = JS_GetException(context);
  print_stack(context, error);
  // Without memory for an error object the engine throws null.
  const char *message = JS_ToCString(context, error);
  const bool is_memory = message == NULL || JS_IsNull(error) || strstr(message, "out of memory") != NULL;
  print_error(is_memory ? NO_MEMORY : "the plugin ended unexpectedly: please report this as a bug of Drawbridge");
}

enum { MODULES = sizeof modules / sizeof *modules };

/** Reads a module of the executable. @returns its place in the table, or -1 with an exception */
static int read_module(JSContext *context, const char *name, JSModuleDef **module) {
  static JSModuleDef *known[MODULES];
  int i = 0;
  while (i < MODULES && strcmp(modules[i].name, name) != 0) i++;
  if (i == MODULES) {
    JS_ThrowReferenceError(context, "the executable has no module %s", name);
    return -1;
  }
  if (known[i] == NULL) {
    JSValue value = JS_ReadObject(context, modules[i].code, modules[i].size, JS_READ_OBJ_BYTECODE);
    if (JS_IsException(value)) return -1;
    known[i] = JS_VALUE_GET_PTR(value);
  }
  *module = known[i];
  return i;
}

static JSModuleDef *load_imported(JSContext *context, const char *name, [[maybe_unused]] void *opaque) {
  JSModuleDef *module;
  return read_module(context, name, &module) < 0 ? NULL : module;
}

/** Carries out a module, and those that it imports, once. @returns its exports */
static JSValue load(JSContext *context, const char *name) {
  static bool is_done[MODULES];
  JSModuleDef *module;
  const int i = read_module(context, name, &module);
  if (i < 0) return JS_EXCEPTION;
  if (!is_done[i]) {
    is_done[i] = true;
    JSValue value = JS_MKPTR(JS_TAG_MODULE, module);
    if (JS_ResolveModule(context, value) < 0) return JS_EXCEPTION;
    JSValue promise = JS_EvalFunction(context, value);
    if (JS_IsException(promise)) return promise;
    if (JS_PromiseState(context, promise) == JS_PROMISE_REJECTED) {
      return JS_Throw(context, JS_PromiseResult(context, promise));
    }
    JS_FreeValue(context, promise);
  }
  return JS_GetModuleNamespace(context, module);
}

HOST(host_load) {
  const char *name = text_of(context, arguments[0]);
  if (name == NULL) return JS_EXCEPTION;
  JSValue exports = load(context, name);
  JS_FreeCString(context, name);
  return exports;
}

#define ENTRY(name, count, function) JS_CFUNC_DEF2(name, count, function, JS_PROP_C_W_E),

static const JSCFunctionListEntry functions[] = {HOST_FUNCTIONS(ENTRY)};

#ifdef __aarch64__
#define ARCHITECTURE "arm64"
#else
#define ARCHITECTURE "x64"
#endif

/** Sets what the modules use of `process`: argv0, env (the first of equal names, as for getenv), pid and arch. */
static void set_process(JSContext *context, JSValue global, const char *name) {
  JSValue process = JS_NewObject(context);
  JSValue variables = JS_NewObject(context);
  for (char **variable = environ; *variable != NULL; variable++) {
    const char *equals = strchr(*variable, '=');
    if (equals == NULL || equals == *variable) continue;
    JSAtom key = JS_NewAtomLen(context, *variable, (size_t)(equals - *variable));
    if (JS_HasProperty(context, variables, key) == 0) {
      JS_DefinePropertyValue(context, variables, key, JS_NewString(context, equals + 1), JS_PROP_C_W_E);
    }
    JS_FreeAtom(context, key);
  }
  JS_SetPropertyStr(context, process, "env", variables);
  JS_SetPropertyStr(context, process, "argv0", JS_NewString(context, name));
  JS_SetPropertyStr(context, process, "pid", JS_NewInt32(context, getpid()));
  JS_SetPropertyStr(context, process, "arch", JS_NewString(context, ARCHITECTURE));
  JS_SetPropertyStr(context, global, "process", process);
}

/** Returns an engine with what the modules use of JavaScript; NULL if there is no memory for it. */
static JSContext *new_engine(void) {
  JSRuntime *runtime = JS_NewRuntime2(&memory_functions, NULL);
  if (runtime == NULL) return NULL;
  struct rlimit stack;
  const bool is_known = getrlimit(RLIMIT_STACK, &stack) == 0;
  JS_SetMaxStackSize(runtime, is_known && stack.rlim_cur / 2 < MOST_STACK ? stack.rlim_cur / 2 : MOST_STACK);
  JS_SetMemoryLimit(runtime, MOST_MEMORY);
  // A call ends before a collection of cycles would pay; counted references free the rest.
  JS_SetGCThreshold(runtime, MOST_MEMORY / 2);
  JSContext *context = JS_NewContextRaw(runtime);
  if (context == NULL || JS_AddIntrinsicBaseObjects(context) < 0 || JS_AddIntrinsicDate(context) < 0 ||
      JS_AddIntrinsicRegExp(context) < 0 || JS_AddIntrinsicJSON(context) < 0 || JS_AddIntrinsicMapSet(context) < 0 ||
      JS_AddIntrinsicTypedArrays(context) < 0 || JS_AddIntrinsicPromise(context) < 0 ||
      JS_AddIntrinsicBigInt(context) < 0 || JS_AddIntrinsicWeakRef(context) < 0) {
    return NULL;
  }
  JS_SetModuleLoaderFunc(runtime, NULL, load_imported, NULL);
  return context;
}

int main(int count, char **arguments) {
  JSContext *context = new_engine();
  if (context == NULL) {
    print_error(NO_MEMORY);
    return 1;
  }
  JSValue global = JS_GetGlobalObject(context);
  JSValue host = JS_NewObject(context);
  JS_SetPropertyFunctionList(context, host, functions, sizeof functions / sizeof *functions);
  JS_SetPropertyStr(context, global, "native", host);
  set_process(context, global, count > 0 ? arguments[0] : "drawbridge");
  // cni/main.ts ends the process, so only an error reaches the next line.
  if (!JS_IsException(load(context, "cni/native/globals.js"))) load(context, "cni/main.js");
  report(context);
  // What is left is the kernel's to free, which is faster.
  _exit(1);
}
