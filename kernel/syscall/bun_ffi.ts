/** How a function of libc is called. */
export type Signature = {
  readonly args: readonly ("i32" | "u32" | "u64" | "ptr")[];
  readonly returns: "i32" | "i64" | "ptr" | "void";
};

type Signatures = Readonly<Record<string, Signature>>;
type NativeCall = (...args: readonly (number | Uint8Array)[]) => number | bigint;
type NativeCalls<S extends Signatures> = { readonly [K in keyof S]: NativeCall };

/** The native object behind the module `bun:ffi`. Loading that module costs 0.4 ms, which this saves. */
interface NativeFfi {
  dlopen<S extends Signatures>(library: string, symbols: S): { readonly symbols: NativeCalls<S> } | Error;
  readonly read: { i32(pointer: number | bigint): number };
  /** The address of an array's memory. */
  ptr(array: Uint8Array): number;
}

function isNativeFfi(value: unknown): value is NativeFfi {
  return typeof value === "object" && value !== null && "dlopen" in value && "read" in value;
}

/** @throws Error when this Bun is not the pinned one */
function nativeFfi(): NativeFfi {
  const ffi: unknown = Reflect.get(Bun, "FFI");
  if (!isNativeFfi(ffi)) throw new Error("this Bun has no native FFI object: build with the version package.json pins");
  return ffi;
}

/** Where an array's memory is, for a struct with pointers: for as long as the array is in use. @throws Error */
export function addressOf(array: Uint8Array): bigint {
  return BigInt(nativeFfi().ptr(array));
}

const errnoLocation = { args: [], returns: "ptr" } as const satisfies Signature;

/**
 * Functions of libc, and what turns their result into zero or more, or minus the errno.
 *
 * errno is read by a second call on the same thread. Between the two only generated call stubs run, no system call
 * of the runtime, so the value is that of the failed call.
 *
 * @throws Error when libc cannot be opened, or this Bun is not the pinned one
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
