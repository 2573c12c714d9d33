/** How the comment of each table of ours begins. The kernel lets nobody change it, so the version stands elsewhere. */
const MARK = "drawbridge schema ";

/** The comment by which a table is known as ours. @param version where its version is found */
export function ownComment(version: string): string {
  return `${MARK}${version}`;
}

/** Whether a comment is one that a version of ours wrote. */
export function isOurs(comment: string | undefined): boolean {
  return comment?.startsWith(MARK) === true;
}
