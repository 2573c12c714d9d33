import { spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { generateModules, HOST_FILES } from "../../setup/build.mjs";
import { ENGINE_FILES, engineSources } from "../../setup/engine.mjs";

const PROJECT = fileURLToPath(new URL("../../..", import.meta.url)).replace(/\/$/, "");
const NATIVE = path.join(PROJECT, "cni/native");
/** The C library's memory, in which the sanitizer watches each piece. */
const MEMORY = `
#include <malloc.h>
#include <stdlib.h>
#include "native.h"
static void *zeros(void *o, size_t n, size_t s) { return calloc(n, s); }
static void *new(void *o, size_t s) { return malloc(s); }
static void old(void *o, void *p) { free(p); }
static void *moved(void *o, void *p, size_t s) { return realloc(p, s); }
static size_t size(const void *p) { return malloc_usable_size((void *)p); }
const JSMallocFunctions memory_functions = {zeros, new, old, moved, size};
`;

/**
 * Returns the path of the plugin's executable with the sanitizers of addresses and of undefined behaviour, whose report
 * ends it. Leaks are not reported: a call leaves its memory to the kernel.
 */
export function sanitizedPlugin(scratch: string): string {
  const directory = path.join(scratch, "sanitized");
  mkdirSync(directory);
  generateModules(PROJECT, process.execPath, directory);
  writeFileSync(path.join(directory, "memory.c"), MEMORY);
  const sources = engineSources();
  const engine = ENGINE_FILES.map((name) => path.join(sources, name));
  const host = HOST_FILES.filter((name) => name !== "memory.c").map((name) => path.join(NATIVE, name));
  const executable = path.join(directory, "drawbridge");
  const options = [
    "-O1",
    "-w",
    "-std=gnu2x",
    "-D_GNU_SOURCE",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
  ];
  const includes = [directory, NATIVE, sources].flatMap((include) => ["-I", include]);
  const defaults = path.join(directory, "options.c");
  writeFileSync(defaults, 'const char *__asan_default_options(void) { return "detect_leaks=0"; }\n');
  const files = [...engine, ...host, path.join(directory, "memory.c"), defaults];
  const { status, stderr } = spawnSync("gcc", [...options, ...includes, ...files, "-lm", "-o", executable], {
    encoding: "utf8",
  });
  if (status !== 0) throw new Error(stderr);
  return executable;
}
