import { endAttribute, MessageFlag, NESTED, type Request } from "../../netlink/message.ts";
import { Writer } from "../../byte_writer.ts";
import { type ElementCode, elementCode, presentCode, writeElement } from "./element.ts";
import { formatElement } from "../text/element_text.ts";
import { checkName } from "../model/identifier.ts";
import { elementLayout, elementListAttributes, Message, nftablesRequest } from "./message.ts";
import type { Element, SetDefinition, TableReference } from "../model/object.ts";

/** The largest list of elements in one message: the attribute must stay below 64 KiB, and an element is below 1 KiB. */
const ELEMENTS_LIMIT = 60 * 1024;
/** NFTA_SET_ELEM_LIST_ELEMENTS */
const ELEMENTS = elementListAttributes.elements[0] | NESTED;
/** The usual size of an element. */
const TYPICAL_BYTES = 96;

/** Elements to add or delete. */
export interface ElementChange {
  readonly kind: "add elements" | "delete elements";
  readonly table: TableReference;
  readonly set: Pick<SetDefinition, "name">;
  readonly elements: readonly Element[];
  readonly isNew?: boolean;
}

/**
 * Returns as many messages as needed to add or delete elements; none for no elements.
 *
 * @throws DrawbridgeError ERR_NFTABLES_VALUE when an element does not fit the set
 */
export function elementRequests(change: ElementChange & { readonly set: SetDefinition }): readonly Request[] {
  checkName("set", change.set.name);
  return elementMessages(change, elementCode(change.set), undefined);
}

/** Does the same as {@link elementRequests}; a set of a single rule is identified by its number in the batch. */
export function elementMessages(
  change: ElementChange,
  code: ElementCode,
  setId: number | undefined,
): readonly Request[] {
  const { elements } = change;
  const isAddition = change.kind === "add elements";
  const written = isAddition ? code : presentCode(code);
  const head = elementHead(change, setId);
  const requests: Request[] = [];
  for (let next = 0; next < elements.length;) {
    const first = next;
    // The elements follow the head in its own buffer. A separate byte array would have to be copied.
    const most = Math.min(ELEMENTS_LIMIT + 1024, TYPICAL_BYTES * (elements.length - first));
    const writer = new Writer(head.body.length + most);
    writer.bytes(head.body);
    const list = writer.beginAttribute(ELEMENTS);
    const start = writer.length;
    /** The offset at which each element ends. */
    const ends: number[] = [];
    for (; next < elements.length && writer.length - start < ELEMENTS_LIMIT; next++) {
      const element = elements[next];
      if (element !== undefined) writeElement(writer, written, isAddition ? element : { key: element.key });
      ends.push(writer.length);
    }
    endAttribute(writer, list);
    requests.push({
      ...head,
      body: writer.view(),
      nameAt: (offset) => {
        const index = ends.findIndex((end) => offset < end);
        const element = offset < start || index < 0 ? undefined : elements[first + index];
        return element === undefined ? undefined : formatElement(code, element);
      },
    });
  }
  return requests;
}

/** Returns the message without its elements. */
function elementHead({ kind, table, set, isNew }: ElementChange, setId: number | undefined): Request {
  const isAddition = kind === "add elements";
  return nftablesRequest(
    `${isAddition ? "add" : "delete"} element ${table.family} ${table.name} ${set.name}`,
    {
      message: isAddition ? Message.NEW_ELEMENTS : Message.DELETE_ELEMENTS,
      flags: isAddition ? MessageFlag.CREATE | (isNew === true ? MessageFlag.EXCL : 0) : 0,
      family: table.family,
      layout: elementLayout,
    },
    { table: table.name, set: set.name, ...(setId === undefined ? {} : { setId }) },
  );
}
