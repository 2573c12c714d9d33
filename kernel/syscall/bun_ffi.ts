/** The signature of a libc function. */
export type Signature = {
  readonly args: readonly ("i32" | "u32" | "u64" | "ptr")[];
  readonly returns: "i32" | "i64" | "ptr" | "void";
};

type Signatures = Readonly<Record<string, Signature>>;
type NativeCall = (...args: readonly (number | Uint8Array)[]) => number | bigint;
type NativeCalls<S extends Signatures> = { readonly [K in keyof S]: NativeCall };

/** The native object that the module `bun:ffi` wraps. Using it directly saves the 0.4 ms of loading that module. */
interface NativeFfi {
  dlopen<S extends Signatures>(library: string, symbols: S): { readonly symbols: NativeCalls<S> } | Error;
  readonly read: { i32(pointer: number | bigint): number };
  /** Returns the address of an array's memory. */
  ptr(array: Uint8Array): number;
}

function isNativeFfi(value: unknown): value is NativeFfi {
  return typeof value === "object" && value !== null && "dlopen" in value && "read" in value;
}

/** @throws Error when this Bun is not the pinned version */
function nativeFfi(): NativeFfi {
  const ffi: unknown = Reflect.get(Bun, "FFI");
  if (!isNativeFfi(ffi)) throw new Error("this Bun has no native FFI object: build with the version package.json pins");
  return ffi;
}

/**
 * Returns the address of an array's memory, valid while the array is in use, for a struct with pointers.
 *
 * @throws Error
 */
export function addressOf(array: Uint8Array): bigint {
  return BigInt(nativeFfi().ptr(array));
}

const errnoLocation = { args: [], returns: "ptr" } as const satisfies Signature;

/**
 * Opens functions of libc. `outcome` converts a result into zero or more, or minus the errno.
 *
 * A second call on the same thread reads errno. Between the two calls only generated call stubs run, and no system call
 * of the runtime, so the value is that of the failed call.
 *
 * @throws Error when libc cannot be opened, or this Bun is not the pinned version
 */
export function openLibc<S extends Signatures>(
  signatures: S,
): { readonly calls: NativeCalls<S>; readonly outcome: (result: number | bigint) => number } {
  const ffi = nativeFfi();
  const library = ffi.dlopen("libc.so.6", { ...signatures, __errno_location: errnoLocation });
  if (library instanceof Error) throw library;
  const calls = library.symbols;
  return {
    calls,
    outcome: (result) => {
      const value = Number(result);
      return value === -1 ? -ffi.read.i32(calls.__errno_location()) : value;
    },
  };
}
