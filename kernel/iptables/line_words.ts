/** Splits a line of `iptables-save` into words. Quoted words may have blanks; a backslash escapes `"` and `\`. */
export function words(line: string): readonly string[] {
  return [...line.matchAll(/"((?:[^"\\]|\\.)*)"|(\S+)/g)].map(
    ([, quoted, plain = ""]) => quoted?.replaceAll(/\\(.)/g, "$1") ?? plain,
  );
}
