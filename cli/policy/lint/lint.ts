import { compareTexts } from "../../output/text.ts";
import type { LintContext } from "./context.ts";
import type { Finding, LintRule } from "./finding.ts";
import { SEVERITIES } from "../../../policyd/problems/check.ts";
import type { IgnoreComment } from "./ignore_comments.ts";
import { RULES } from "./rules.ts";
import { withoutSilenced } from "./silence.ts";
import { doubted, unreadParts } from "./unread.ts";

/** Returns the findings by file, line and severity, without those that an annotation or a comment silences. */
export function lintIn(
  context: LintContext,
  rules: readonly LintRule[],
  comments: readonly IgnoreComment[],
): readonly Finding[] {
  const unread = unreadParts(context.manifests.problems);
  const found = rules.flatMap(({ id, severity, check, judgesBy = [] }) => {
    const isDoubtful = judgesBy.some((part) => unread.has(part));
    return check(context).map((one): Finding => ({ severity, ...(isDoubtful ? doubted(one) : one), id }));
  });
  const seen = new Set<string>();
  const known = RULES.map(({ id }) => id);
  return withoutSilenced(found, context.manifests, comments, rules, known)
    .filter((finding) => {
      const key = identityOf(finding);
      const isNew = !seen.has(key);
      seen.add(key);
      return isNew;
    })
    .sort(byPlace);
}

/** Returns a text that is equal for both pods of one template, since a mistake in it affects both. */
function identityOf({ id, place: { file, line, object }, message }: Finding): string {
  return JSON.stringify([id, file, line, object.replace(/^(Pod .*)-\d$/, "$1"), message]);
}

function byPlace(a: Finding, b: Finding): number {
  return (
    compareTexts(a.place.file, b.place.file) ||
    a.place.line - b.place.line ||
    SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity) ||
    compareTexts(a.id, b.id)
  );
}
