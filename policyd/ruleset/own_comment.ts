/** The prefix of the comments of our tables. The kernel lets nobody change a comment, so the version is elsewhere. */
const MARK = "drawbridge schema ";

/** Returns the comment that identifies a table as ours. @param version where its version is found */
export function ownComment(version: string): string {
  return `${MARK}${version}`;
}

/** Whether a comment was written by some version of Drawbridge. */
export function isOurs(comment: string | undefined): boolean {
  return comment?.startsWith(MARK) === true;
}
