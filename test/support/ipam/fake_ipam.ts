import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";

/** A call of the fake IPAM plugin, as the plugin recorded it. */
export interface IpamCallSeen {
  readonly verb: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly stdin: string;
  /** Targets of its open descriptors, by number. */
  readonly descriptors: Readonly<Record<string, string>>;
  readonly workingDirectory: string;
  /** Its network namespace. */
  readonly network: string;
}

/**
 * An IPAM plugin in a directory of its own, a shell script: it records how it was called, keeps the addresses that it
 * has given in files, and prints the answers that a test has set.
 */
export class FakeIpam {
  readonly directory: string;
  readonly type: string;

  constructor(directory: string, type = "fake-ipam") {
    this.directory = directory;
    this.type = type;
    for (const name of ["calls", "held"]) mkdirSync(`${directory}/${name}`, { recursive: true });
    writeFileSync(this.#path(type), script(directory));
    chmodSync(this.#path(type), 0o755);
  }

  /** Forgets calls and given addresses, and what a test has set. */
  reset(): void {
    for (const name of ["calls", "held"]) {
      rmSync(`${this.directory}/${name}`, { recursive: true });
      mkdirSync(`${this.directory}/${name}`);
    }
    for (const name of readdirSync(this.directory))
      if (/^([A-Z]+\.\w+|background)$/.test(name)) rmSync(`${this.directory}/${name}`);
  }

  /** Sets the output of its ADD. */
  gives(result: unknown): void {
    this.#write("ADD.out", typeof result === "string" ? result : JSON.stringify(result));
  }

  /**
   * Sets the error with which a verb fails; undefined makes it succeed again. @param shell commands that run before the
   * error
   */
  fails(verb: string, error: unknown, shell = ""): void {
    this.#write(`${verb}.error`, typeof error === "string" ? error : JSON.stringify(error));
    this.#write(`${verb}.exit`, error === undefined ? "" : "1");
    this.does(verb, shell);
  }

  /** Sets the shell commands that a verb begins with. */
  does(verb: string, shell: string): void {
    this.#write(`${verb}.sh`, shell);
  }

  /** Returns all calls, in order. */
  get calls(): readonly IpamCallSeen[] {
    const directories = readdirSync(`${this.directory}/calls`).sort((a, b) => Number(a) - Number(b));
    return directories.map((name) => this.#seen(`${this.directory}/calls/${name}`));
  }

  get verbs(): readonly string[] {
    return this.calls.map(({ verb }) => verb);
  }

  /** The attachments that hold addresses: `container:interface`. */
  get held(): readonly string[] {
    return readdirSync(`${this.directory}/held`).sort();
  }

  #seen(path: string): IpamCallSeen {
    const text = (name: string): string =>
      existsSync(`${path}/${name}`) ? readFileSync(`${path}/${name}`, "utf8") : "";
    const pairs = (content: string, separator: string): Record<string, string> =>
      Object.fromEntries(
        content
          .split(separator)
          .filter((line) => line.includes("="))
          .map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]),
      );
    return {
      verb: text("verb").trim(),
      environment: pairs(text("environment"), "\0"),
      stdin: text("stdin"),
      descriptors: Object.fromEntries(
        [...text("descriptors").matchAll(/ (\d+) -> (.*)$/gm)].map(([, number, target]) => [
          number ?? "",
          target ?? "",
        ]),
      ),
      workingDirectory: text("cwd").trim(),
      network: text("network").trim(),
    };
  }

  #write(name: string, content: string | undefined): void {
    writeFileSync(this.#path(name), content ?? "");
  }

  #path(name: string): string {
    return `${this.directory}/${name}`;
  }
}

/**
 * Returns the plugin's shell script. It reads its environment from /proc, since dash has no other way to read it
 * unchanged.
 */
function script(directory: string): string {
  return `#!/bin/sh
d=${directory}
n=1
while ! mkdir "$d/calls/$n" 2>/dev/null; do n=$((n + 1)); done
c="$d/calls/$n"
echo "$CNI_COMMAND" > "$c/verb"
cat /proc/$$/environ > "$c/environment"
cat > "$c/stdin"
ls -l /proc/$$/fd > "$c/descriptors"
readlink /proc/$$/cwd > "$c/cwd"
readlink /proc/$$/ns/net > "$c/network"
echo "$CNI_COMMAND of fake IPAM" >&2
[ -s "$d/$CNI_COMMAND.sh" ] && . "$d/$CNI_COMMAND.sh"
if [ -s "$d/$CNI_COMMAND.exit" ]; then
  cat "$d/$CNI_COMMAND.error"
  exit 1
fi
case "$CNI_COMMAND" in
  ADD) : > "$d/held/$CNI_CONTAINERID:$CNI_IFNAME"; cat "$d/ADD.out" ;;
  DEL) rm -f "$d/held/$CNI_CONTAINERID:$CNI_IFNAME" ;;
esac
`;
}
