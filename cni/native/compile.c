// Compiles JavaScript modules to the engine's bytecode when the plugin is built: compile OUTPUT LIST writes OUTPUT, a C
// table. LIST has the name and the path of each module in turn, one in each line.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "quickjs.h"

static void fail(const char *name, const char *reason) {
  fprintf(stderr, "%s: %s\n", name, reason);
  exit(1);
}

static char *read_whole(const char *path, size_t *length) {
  FILE *file = fopen(path, "rb");
  if (file == NULL || fseek(file, 0, SEEK_END) != 0) fail(path, "cannot be read");
  const long size = ftell(file);
  char *text = malloc((size_t)size + 1);
  rewind(file);
  if (text == NULL || fread(text, 1, (size_t)size, file) != (size_t)size) fail(path, "cannot be read");
  text[size] = '\0';
  *length = (size_t)size;
  fclose(file);
  return text;
}

static int no_exports(JSContext *context, JSModuleDef *module) { return context == NULL || module == NULL; }

/** Stands for an imported module, of which only the name counts here. */
static JSModuleDef *load_imported(JSContext *context, const char *name, void *opaque) {
  return opaque == NULL ? JS_NewCModule(context, name, no_exports) : NULL;
}

int main(int count, char **arguments) {
  if (count != 3) fail("compile", "expected OUTPUT LIST");
  FILE *output = fopen(arguments[1], "w");
  if (output == NULL) fail(arguments[1], "cannot be written");
  JSRuntime *runtime = JS_NewRuntime();
  JS_SetModuleLoaderFunc(runtime, NULL, load_imported, NULL);
  fprintf(output, "static const struct {\n  const char *name;\n  size_t size;\n  const uint8_t *code;\n} modules[] = {\n");
  size_t length;
  for (char *name = strtok(read_whole(arguments[2], &length), "\n"); name != NULL; name = strtok(NULL, "\n")) {
    char *text = read_whole(strtok(NULL, "\n"), &length);
    // Each has a context of its own, where none of its imports is taken for a module compiled before.
    JSContext *context = JS_NewContext(runtime);
    JSValue module = JS_Eval(context, text, length, name, JS_EVAL_TYPE_MODULE | JS_EVAL_FLAG_COMPILE_ONLY);
    if (JS_IsException(module)) fail(name, JS_ToCString(context, JS_GetException(context)));
    size_t size;
    uint8_t *code = JS_WriteObject(context, &size, module, JS_WRITE_OBJ_BYTECODE | JS_WRITE_OBJ_STRIP_SOURCE);
    if (code == NULL) fail(name, "its bytecode cannot be written");
    // In place of the checksum of all that follows: the engine then does not compute it at each start.
    memset(code + 1, 0xff, 4);
    fprintf(output, "    {\"%s\", %zu, (const uint8_t[]){", name, size);
    for (size_t i = 0; i < size; i++) fprintf(output, "%s%d", i == 0 ? "" : ",", code[i]);
    fprintf(output, "}},\n");
  }
  fprintf(output, "};\n");
  return fclose(output) != 0;
}
