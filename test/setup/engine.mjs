import { createHash } from "node:crypto";
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { outputOf } from "./child.mjs";
import { CACHE, unpackedForeign } from "./debian.mjs";
import { say } from "./failure.mjs";
import { makeWhole } from "./whole_directory.mjs";

/**
 * The engine's sources: quickjs-ng 0.17.0, as the source distribution of the Python package of that name has them. pip
 * checks the hash before anything of it is used.
 */
export const ENGINE = "0.17.0.2";
const REQUIREMENT = `quickjs-ng==${ENGINE} --hash=sha256:43d2e48272208721a7aaea8e3f02d4b9318f12ef20cc4f5421b59d9a470706ef`;
const SOURCES = `quickjs_ng-${ENGINE}/upstream-quickjs`;
/**
 * NDEBUG is how upstream builds a release: otherwise each operation asks whether it is to be printed. The interpreter
 * jumps from each operation to the next; without the last two it is 3 % faster.
 */
const ENGINE_FLAGS = ["-D_GNU_SOURCE", "-DNDEBUG", "-w", "-fno-gcse", "-fno-crossjumping"];
/** The engine without its library for programs of its own. */
export const ENGINE_FILES = ["quickjs.c", "libregexp.c", "libunicode.c", "dtoa.c"];

/** Debian's Python, whose setuptools describe the package; another one in PATH may lack them. */
const PYTHON = "/usr/bin/python3";

/** For all code: hardened, position-independent, and nothing that is not used. */
const FLAGS = ["-O2", "-fPIE", "-fstack-protector-strong", "-ffunction-sections", "-fdata-sections"];
const OWN_FLAGS = ["-std=gnu2x", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"];
const LINK_FLAGS = ["-static-pie", "-nostdlib", "-Wl,-z,relro,-z,now,--gc-sections,--build-id=none", "-s"];

/**
 * @typedef {object} Compiler
 * @property {string} program
 * @property {string} headers of the C library musl, to which everything is linked statically
 * @property {string} library
 * @property {readonly string[]} flags
 */

/** GCC's name of an architecture. @param {string} architecture as `process.arch` */
function machineOf(architecture) {
  return architecture === "arm64" ? "aarch64" : "x86_64";
}

/**
 * Returns the compiler for an architecture. The C library for another one than this machine's is unpacked into the
 * user's cache, since a machine can have it only as a foreign package.
 *
 * @param {string} architecture
 * @returns {Compiler}
 */
export function compilerFor(architecture) {
  const machine = machineOf(architecture);
  const isOwn = architecture === process.arch;
  const root = isOwn ? "/usr" : path.join(unpackedForeign(["musl-dev"], architecture), "usr");
  return {
    program: isOwn ? "gcc" : `${machine}-linux-gnu-gcc`,
    headers: `${root}/include/${machine}-linux-musl`,
    library: `${root}/lib/${machine}-linux-musl`,
    // GCC's functions for atomic operations ask glibc which ones the processor has.
    flags: architecture === "arm64" ? ["-mno-outline-atomics"] : [],
  };
}

/**
 * Compiles C files to objects in a directory.
 *
 * @param {Compiler} compiler
 * @param {readonly string[]} files
 * @param {string} directory
 * @param {readonly string[]} includes directories of headers
 */
export function compile(compiler, files, directory, includes) {
  const args = [...OWN_FLAGS, ...includes.flatMap((include) => ["-I", include]), "-isystem", engineSources()];
  return files.map((file) => compileOne(compiler, file, directory, args));
}

/**
 * @param {Compiler} compiler
 * @param {string} file
 * @param {string} directory
 * @param {readonly string[]} args
 */
function compileOne({ program, headers, flags }, file, directory, args) {
  const object = path.join(directory, `${path.basename(file, ".c")}.o`);
  const own = run(program, ["-print-file-name=include"]).trim();
  // The same bytes come of each machine: no path of it is in them.
  const paths = `-ffile-prefix-map=${path.dirname(file)}=.`;
  const headerPaths = ["-nostdinc", "-isystem", headers, "-isystem", own];
  run(program, [...FLAGS, ...flags, paths, ...headerPaths, ...args, "-c", file, "-o", object]);
  return object;
}

/**
 * Links objects to a static executable.
 *
 * @param {Compiler} compiler
 * @param {readonly string[]} objects
 * @param {string} executable
 */
export function link({ program, library }, objects, executable) {
  const begin = [`${library}/rcrt1.o`, `${library}/crti.o`, run(program, ["-print-file-name=crtbeginS.o"]).trim()];
  const end = [run(program, ["-print-file-name=crtendS.o"]).trim(), `${library}/crtn.o`];
  const libraries = [`-L${library}`, "-lm", "-lc", "-lgcc"];
  run(program, [...LINK_FLAGS, ...begin, ...objects, ...libraries, ...end, "-o", executable]);
}

/**
 * Returns the engine's objects for an architecture; compiles them, which takes most of a minute, where the user's cache
 * has none of this release, compiler and flags.
 *
 * @param {string} architecture
 * @returns {readonly string[]}
 */
export function engineObjects(architecture) {
  const compiler = compilerFor(architecture);
  const version = run(compiler.program, ["-dumpfullversion", "-dumpmachine"]);
  const key = createHash("sha256")
    .update(JSON.stringify([REQUIREMENT, version, FLAGS, ENGINE_FLAGS, compiler.flags]))
    .digest("hex")
    .slice(0, 16);
  const directory = path.join(CACHE, `engine-${architecture}-${key}`);
  if (!existsSync(directory)) {
    say(`compiling the JavaScript engine of the plugin for ${architecture}: about 45 s, once`);
    makeWhole(directory, (unfinished) => {
      for (const name of ENGINE_FILES) {
        const file = path.join(engineSources(), name);
        compileOne(compiler, file, unfinished, [...ENGINE_FLAGS, "-I", engineSources()]);
      }
    });
  }
  return readdirSync(directory).map((name) => path.join(directory, name));
}

/** Returns the directory of the engine's sources; fetches them by pip where the user's cache does not have them. */
export function engineSources() {
  const directory = path.join(CACHE, `quickjs-ng-${ENGINE}`);
  if (!existsSync(directory)) {
    say(`fetching the sources of the JavaScript engine quickjs-ng ${ENGINE} by pip (0.5 MB)`);
    makeWhole(directory, (unfinished) => {
      const list = path.join(unfinished, "requirements.txt");
      writeFileSync(list, `${REQUIREMENT}\n`);
      const options = ["--no-deps", "--no-binary=:all:", "--no-build-isolation", "--require-hashes"];
      run(PYTHON, ["-m", "pip", "download", "--quiet", ...options, "--requirement", list, "--dest", unfinished]);
      const archive = path.join(unfinished, `quickjs_ng-${ENGINE}.tar.gz`);
      run("tar", ["--extract", "--file", archive, "--directory", unfinished]);
    });
  }
  return path.join(directory, SOURCES);
}

/**
 * @param {string} program
 * @param {readonly string[]} args
 * @param {string} [cwd]
 * @returns {string} its output
 */
export function run(program, args, cwd) {
  const failure = `${path.basename(program)} failed while the plugin was built`;
  return outputOf(program, args, failure, cwd === undefined ? {} : { cwd });
}
