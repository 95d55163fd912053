/** What the page shows: all that a link must restore. */

import type { Limits } from "./limits.ts";
import type { Norm } from "./norms.ts";
import type { Viewport } from "./viewport.ts";

export const TABS = ["image", "line", "values", "about"] as const;
export type Tab = (typeof TABS)[number];

export interface State {
  readonly path: string;
  /** `null`: what suits the node. */
  readonly tab: Tab | null;
  /** Axes down and across. */
  readonly axes: readonly [number, number] | null;
  /** The element that is shown of every axis; for the axes of the image, where its lines cross. */
  readonly index: readonly number[];
  /** Whether a point of the image is marked, whose lines are drawn. */
  readonly marked: boolean;
  /** The axis of the line. */
  readonly along: number | null;
  readonly view: Viewport | null;
  /** Whether the image is turned upside down. */
  readonly turned: boolean;
  readonly map: string;
  readonly reversed: boolean;
  readonly norm: Norm;
  /** `null`: limits that leave out a share of what is shown. */
  readonly limits: Limits | null;
  /** The share of values that automatic limits leave out at each end. */
  readonly share: number;
  /** Whether the fill value marks missing elements; `null`: as it seems. */
  readonly fill: boolean | null;
  /** Whether channels are shown together, in their colours. */
  readonly composite: boolean;
  /** Which channels are shown together; `null`: as the image says. */
  readonly channels: readonly number[] | null;
  /** The axis along which the greatest values are shown. */
  readonly through: number | null;
  /** The path of an array of the same shape, which is shown beside. */
  readonly other: string | null;
  readonly difference: boolean;
  /** The first row and column of the table in sight. */
  readonly row: number;
  readonly column: number;
  /** What is drawn of complex numbers. */
  readonly part: Part;
  /** The condition on the rows of a table, and the column that they are sorted by. */
  readonly query: Query;
}

export const PARTS = ["magnitude", "phase", "real", "imaginary"] as const;
export type Part = (typeof PARTS)[number];

/** A condition on rows in the library's expressions, and a column to sort by; both may be empty. */
export interface Query {
  readonly where: string;
  readonly sort: string;
  readonly descending: boolean;
}

export const ALL_ROWS: Query = { where: "", sort: "", descending: false };

export const INITIAL: State = {
  path: "",
  tab: null,
  axes: null,
  index: [],
  marked: false,
  along: null,
  view: null,
  turned: false,
  map: "viridis",
  reversed: false,
  norm: "linear",
  limits: null,
  share: 0.01,
  fill: null,
  composite: true,
  channels: null,
  through: null,
  other: null,
  difference: false,
  row: 0,
  column: 0,
  part: "magnitude",
  query: ALL_ROWS,
};

type Listener = (state: State, before: State) => void;

/** Holds the state and tells of changes. */
export class Model {
  private readonly listeners: Listener[] = [];
  private current: State;

  constructor(state: State) {
    this.current = state;
  }

  get state(): State {
    return this.current;
  }

  /** Call a function after each change. */
  listen(listener: Listener): void {
    this.listeners.push(listener);
  }

  /** Change some of it. */
  set(change: Partial<State>): void {
    const before = this.current;
    this.current = { ...before, ...change };
    for (const listener of this.listeners) listener(this.current, before);
  }

  /** Show another node, with the colours of before. */
  go(path: string): void {
    const { map, reversed } = this.current;
    this.set({ ...INITIAL, path, map, reversed });
  }
}
