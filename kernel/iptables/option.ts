/** An option of a rule with its values. */
export interface Option {
  /** Such as `-s` or `--dport`. */
  readonly name: string;
  readonly values: readonly string[];
  /** Whether "!" precedes it. */
  readonly isNegated: boolean;
}

/** Options whose value is any text, even text that begins with a dash. */
const OF_TEXT: readonly string[] = ["--comment", "--log-prefix", "--nflog-prefix", "--ulog-prefix", "--string"];

/** Returns the options of a rule. Each begins with a dash; the words up to the next option are its values. */
export function optionsOf(rule: readonly string[]): readonly Option[] {
  const options: { name: string; values: string[]; isNegated: boolean }[] = [];
  let isNegated = false;
  for (const word of rule) {
    const last = options.at(-1);
    if (last !== undefined && last.values.length === 0 && OF_TEXT.includes(last.name)) last.values.push(word);
    else if (word === "!") isNegated = true;
    else if (/^--?[a-z]/.test(word)) {
      options.push({ name: word, values: [], isNegated });
      isNegated = false;
    } else last?.values.push(word);
  }
  return options;
}
