import type { NativeCalls } from "../../kernel/syscall/native.ts";

/** The part of the Web's interfaces that the modules of the plugin use, and QuickJS does not have. */
const native: NativeCalls = globalThis.native;

class Encoder {
  encode(text = ""): Uint8Array<ArrayBuffer> {
    return native.encode(text);
  }
}

class Decoder {
  readonly fatal: boolean;
  readonly ignoreBOM: boolean;

  constructor(_label = "utf-8", { fatal = false, ignoreBOM = false } = {}) {
    this.fatal = fatal;
    this.ignoreBOM = ignoreBOM;
  }

  decode(bytes: Uint8Array): string {
    return native.decode(bytes, this.fatal, this.ignoreBOM);
  }
}

Object.assign(globalThis, {
  TextEncoder: Encoder,
  TextDecoder: Decoder,
  performance: { now: native.now },
  Atomics: {
    wait: (_array: unknown, _index: number, _value: number, milliseconds: number) => native.pause(milliseconds),
  },
});
