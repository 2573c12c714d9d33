import { each, type Slices } from "../lib/sliced_work.ts";
import { joinedEnd, type SeenEnd, seenEnd } from "./flow_end_names.ts";
import { endText, type RowEnd, type FlowRow, type RowVerdict } from "./row.ts";

/** A flow between two ends, one of which is a pod of this node. */
export interface SeenFlow {
  readonly from: SeenEnd;
  readonly to: SeenEnd;
  readonly protocol: string;
  /** 0 where the protocol has none. */
  readonly port: number;
}

/** The capacity of a ledger. */
export interface LedgerLimits {
  readonly rows: number;
  /** Bytes of the written rows. */
  readonly bytes: number;
  /** Number of connections whose end is awaited. */
  readonly connections: number;
}

/** Above the largest default size of the conntrack table, 262,144 entries. A written row takes some 300 bytes. */
export const LEDGER_LIMITS: LedgerLimits = { rows: 50_000, bytes: 20_000_000, connections: 300_000 };

/** Bytes of a written row without its ends and reason. */
const ROW_BYTES = 220;

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

interface HeldRow extends Mutable<FlowRow> {
  readonly key: string;
  /** The key of the observed end: the workload of this node that the row counts for. */
  readonly owner: string;
  isHeld: boolean;
}

/** The rows of an owner by their keys, least recently seen first. */
type OwnRows = Map<string, HeldRow>;

/** The losses of a ledger so far. */
export interface LedgerLosses {
  /** Rows removed to make room for others. */
  readonly rows: number;
  /** Connections whose end is not awaited, since too many existed: their bytes are not counted. */
  readonly connections: number;
}

/**
 * The flows of a node's pods: a row for each pair of ends, protocol, port and verdict.
 *
 * When it is full, the workload with the most rows loses its least recently seen row, so a workload that talks to
 * everybody displaces no other's rows. A connection is tracked by its conntrack id from begin to end, so its bytes
 * count for the ends that it began between, even when their addresses have new holders.
 */
export class Ledger {
  readonly #limits: LedgerLimits;
  readonly #owners = new Map<string, OwnRows>();
  /** The rows of the owners that have a number of them, by this number. */
  readonly #bySize: (Set<OwnRows> | undefined)[] = [];
  readonly #connections = new Map<number, HeldRow>();
  readonly #changed = new Set<HeldRow>();
  #size = 0;
  #bytes = 0;
  #lostRows = 0;
  #lostConnections = 0;

  constructor(limits: LedgerLimits = LEDGER_LIMITS) {
    this.#limits = limits;
  }

  /** The number of rows. */
  get size(): number {
    return this.#size;
  }

  losses(): LedgerLosses {
    return { rows: this.#lostRows, connections: this.#lostConnections };
  }

  /** Counts a new connection, unless it is already known. @param id its number in the conntrack table */
  begun(id: number, flow: SeenFlow, time: number): void {
    if (this.#connections.has(id)) return;
    const row = this.#seen(flow, "allowed", time);
    row.count++;
    this.#await(id, row);
  }

  /** Adds an existing connection. It counts only in a new row: an earlier row has counted it already. */
  listed(id: number, flow: SeenFlow, time: number): void {
    if (this.#connections.has(id)) return;
    const row = this.#seen(flow, "allowed", time);
    if (row.count === 0) row.count = 1;
    this.#await(id, row);
  }

  /** Counts the end of a connection, unless its beginning is unknown. */
  ended(id: number, bytes: number, time: number): void {
    const row = this.#connections.get(id);
    if (row === undefined) return;
    this.#connections.delete(id);
    row.open--;
    row.bytes += bytes;
    this.#touch(row, time);
  }

  /** Counts a packet that policies drop or would drop. @param reason undefined if unknown: a known one stays */
  denied(flow: SeenFlow, verdict: Exclude<RowVerdict, "allowed">, reason: string | undefined, time: number): void {
    const row = this.#seen(flow, verdict, time);
    row.count++;
    if (reason === undefined || reason === row.reason) return;
    this.#bytes += reason.length - (row.reason?.length ?? 0);
    row.reason = reason;
    this.#makeRoom();
  }

  /** Forgets the known connections, before the conntrack table is read again. */
  forgetConnections(): void {
    for (const row of this.#connections.values()) {
      row.open = 0;
      if (row.isHeld) this.#changed.add(row);
    }
    this.#connections.clear();
  }

  /** Loads written rows; none of their connections is known. */
  *load(rows: Iterable<FlowRow>): Slices<void> {
    // Rows with the same end share one object, as before they were written.
    const ends = new Map<string, SeenEnd>();
    const sharedEnd = (end: RowEnd, isLocal: boolean): SeenEnd => {
      const key = `${endText(end)} ${isLocal}`;
      const shared = ends.get(key) ?? seenEnd(end, isLocal);
      ends.set(key, shared);
      return shared;
    };
    yield* each(
      rows,
      ({ from, to, protocol, port = 0, verdict, observedAt, firstSeen, lastSeen, count, bytes, reason }) => {
        const [source, server] = [sharedEnd(from, observedAt === "from"), sharedEnd(to, observedAt === "to")];
        const held = this.#seen({ from: source, to: server, protocol, port }, verdict, lastSeen);
        Object.assign(held, { firstSeen, lastSeen, count, bytes, reason });
        this.#bytes += reason?.length ?? 0;
      },
    );
    this.#makeRoom();
  }

  *rows(): Generator<FlowRow> {
    for (const rows of this.#owners.values()) yield* rows.values();
  }

  /** Returns the rows that have changed since the previous call. */
  takeChanged(): readonly FlowRow[] {
    const rows = [...this.#changed];
    this.#changed.clear();
    return rows;
  }

  #await(id: number, row: HeldRow): void {
    if (this.#connections.size >= this.#limits.connections) {
      this.#lostConnections++;
      return;
    }
    this.#connections.set(id, row);
    row.open++;
  }

  /** Returns the row of a flow, and marks it as the most recently seen. */
  #seen(flow: SeenFlow, verdict: RowVerdict, time: number): HeldRow {
    const { from, to, protocol, port } = flow;
    const observedAt = from.isLocal ? "from" : "to";
    const owner = flow[observedAt].key;
    const key = `${from.key} ${to.key} ${protocol} ${port} ${verdict}`;
    const rows = this.#owners.get(owner) ?? new Map<string, HeldRow>();
    this.#owners.set(owner, rows);
    let row = rows.get(key);
    if (row === undefined) {
      const none = { firstSeen: time, lastSeen: time, count: 0, open: 0, bytes: 0, reason: undefined };
      const ends = { from: from.end, to: to.end, protocol, port: port === 0 ? undefined : port };
      row = { key, owner, isHeld: true, ...ends, verdict, observedAt, ...none };
      this.#size++;
      this.#bytes += key.length + ROW_BYTES;
      rows.set(key, row);
      this.#resized(rows, rows.size - 1);
      this.#makeRoom(row);
    } else {
      row.from = joinedEnd(row.from, from.end);
      row.to = joinedEnd(row.to, to.end);
    }
    this.#touch(row, time);
    return row;
  }

  /** Marks a row as its owner's most recently seen. */
  #touch(row: HeldRow, time: number): void {
    row.lastSeen = Math.max(row.lastSeen, time);
    const rows = this.#owners.get(row.owner);
    if (!row.isHeld || rows === undefined) return;
    // A map iterates in insertion order.
    rows.delete(row.key);
    rows.set(row.key, row);
    this.#changed.add(row);
  }

  #makeRoom(newest?: HeldRow): void {
    while (this.#size > this.#limits.rows || this.#bytes > this.#limits.bytes) {
      const [most] = this.#bySize.at(-1) ?? [];
      const [oldest] = most?.values() ?? [];
      if (most === undefined || oldest === undefined || (oldest === newest && this.#size === 1)) return;
      this.#remove(oldest, most);
      this.#lostRows++;
    }
  }

  #resized(rows: OwnRows, before: number): void {
    const earlier = this.#bySize[before];
    earlier?.delete(rows);
    // A workload with many rows has passed each smaller number.
    if (earlier?.size === 0) this.#bySize[before] = undefined;
    if (rows.size > 0) (this.#bySize[rows.size] ??= new Set()).add(rows);
    while (this.#bySize.length > 0 && !this.#bySize.at(-1)?.size) this.#bySize.pop();
  }

  #remove(row: HeldRow, rows: OwnRows): void {
    rows.delete(row.key);
    this.#resized(rows, rows.size + 1);
    if (rows.size === 0) this.#owners.delete(row.owner);
    this.#changed.delete(row);
    row.isHeld = false;
    this.#size--;
    this.#bytes -= row.key.length + ROW_BYTES + (row.reason?.length ?? 0);
  }
}
