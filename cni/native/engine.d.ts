/** The globals of the plugin's engine besides those of ECMAScript (cni/native/globals.ts, set_process of main.c). */

declare const process: {
  readonly argv0: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly pid: number;
  readonly arch: string;
};

declare const performance: { now(): number };

declare class TextEncoder {
  encode(text?: string): Uint8Array<ArrayBuffer>;
}

declare class TextDecoder {
  constructor(label?: string, options?: { readonly fatal?: boolean; readonly ignoreBOM?: boolean });
  decode(bytes: Uint8Array): string;
}
