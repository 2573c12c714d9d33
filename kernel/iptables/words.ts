/** The words of a line of `iptables-save`: those with blanks are in double quotes, with a backslash before quotes and backslashes. */
export function words(line: string): readonly string[] {
  return [...line.matchAll(/"((?:[^"\\]|\\.)*)"|(\S+)/g)].map(
    ([, quoted, plain = ""]) => quoted?.replaceAll(/\\(.)/g, "$1") ?? plain,
  );
}
