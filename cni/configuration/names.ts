import { isDirectoryPath, isInterfaceName, MAX_IFNAME_BYTES } from "../../ipam/owner.ts";
import { CniError, type CniErrorCode, invalidField } from "../error.ts";

/** Returns the path. @throws CniError 7 for a path that {@link isDirectoryPath} refuses */
export function checkDirectory(field: string, path: string): string {
  if (isDirectoryPath(path)) return path;
  throw invalidField(field, path, 'an absolute path without ".."');
}

/**
 * Returns an interface name that {@link isInterfaceName} accepts.
 *
 * @throws CniError with `code`, naming the field and the value
 */
export function checkInterfaceName(name: string, field: string, code: CniErrorCode): string {
  if (isInterfaceName(name)) return name;
  throw new CniError(
    code,
    `${field}: ${JSON.stringify(name.slice(0, 64))} is not an interface name; expected 1 to ${MAX_IFNAME_BYTES} bytes without "/", ":", "%" or white space, and none of ".", "..", "all", "default"`,
  );
}
