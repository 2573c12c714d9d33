import { closeSync, openSync, writeSync } from "node:fs";

/** The kernel's archive format for a root file system in memory, "newc" (Documentation/driver-api/early-userspace/buffer-format.rst). */
export class CpioArchive {
  readonly #fd: number;
  readonly #directories = new Set<string>([""]);
  #number = 1;

  constructor(path: string) {
    this.#fd = openSync(path, "w");
  }

  file(target: string, content: Uint8Array, mode = 0o644): void {
    this.#parents(target);
    this.#entry(target, 0o100000 | mode, content);
  }

  link(target: string, to: string): void {
    this.#parents(target);
    this.#entry(target, 0o120777, Buffer.from(to));
  }

  directory(target: string): void {
    if (this.#directories.has(target)) return;
    this.#directories.add(target);
    this.#parents(target);
    this.#entry(target, 0o040755, Buffer.alloc(0));
  }

  end(): void {
    this.#entry("TRAILER!!!", 0, Buffer.alloc(0));
    closeSync(this.#fd);
  }

  #parents(target: string): void {
    const slash = target.lastIndexOf("/");
    if (slash > 0) this.directory(target.slice(0, slash));
  }

  #entry(name: string, mode: number, content: Uint8Array): void {
    const fields = [this.#number++, mode, 0, 0, 1, 0, content.length, 0, 0, 0, 0, name.length + 1, 0];
    const header = `070701${fields.map((field) => field.toString(16).padStart(8, "0")).join("")}${name}\0`;
    writeSync(this.#fd, padded(Buffer.from(header, "latin1")));
    if (content.length > 0) writeSync(this.#fd, padded(content));
  }
}

function padded(bytes: Uint8Array): Uint8Array {
  return Buffer.concat([bytes, Buffer.alloc(-bytes.length & 3)]);
}
