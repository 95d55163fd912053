/** What the server offers, by name. */

import type { Attributes, Conventions } from "./cf.ts";
import { grouped } from "./format.ts";

export interface Member {
  readonly name: string;
  readonly kind: "array" | "group" | "table" | "unreadable";
  readonly rows?: number | null;
  readonly shape?: readonly number[] | null;
  readonly dtype?: string | null;
  readonly chunks?: readonly number[] | null;
  readonly shards?: readonly number[] | null;
  readonly codecs?: readonly unknown[] | null;
  readonly dimension_names?: readonly (string | null)[] | null;
  readonly nbytes?: number | null;
  readonly format?: string | null;
  readonly conventions?: Conventions | null;
  /** Whether it names positions along the dimensions of others. */
  readonly coordinate?: boolean;
  readonly error?: string | null;
}

export interface Listing extends Omit<Member, "name" | "kind"> {
  readonly path: string;
  /** Where the node is stored: the URL of its store, and its path there. */
  readonly store: string;
  readonly stored_path?: string;
  readonly kind: "group" | "table" | "array";
  readonly columns?: readonly string[] | null;
  readonly attributes: Attributes;
  readonly members: readonly Member[];
  readonly truncated: boolean;
  /** Whether the server has neuroglancer for it. */
  readonly neuroglancer?: boolean;
}

/** An answer that is no success, with what the server says. */
export class ServerError extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Escape each part of a path. */
export function escaped(path: string): string {
  return path.split("/").map(encodeURIComponent).join("/");
}

/**
 * Parse JSON, in which NaN and infinities may stand without quotes, as Python writes them; they become text.
 *
 * Documents are passed on as they are stored, and many programs store such attributes.
 */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // a string is matched as a whole, so that nothing within it is changed
    const strict = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\b(?:NaN|Infinity)\b/g;
    return JSON.parse(text.replace(strict, (part) => (part.startsWith('"') ? part : `"${part}"`)));
  }
}

/** Replace integers of JSON that a number of JavaScript can't hold by text with all of their digits. */
export function withExactIntegers(text: string): string {
  if (!/\d{16}/.test(text)) return text;
  // strings and numbers are matched as a whole
  return text.replace(/"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g, (part) =>
    /^-?\d{16,}$/.test(part) && !Number.isSafeInteger(Number(part)) ? `"${grouped(BigInt(part))}"` : part,
  );
}

/** Sends requests to the server that the page came from. */
export class Server {
  private readonly base: string;
  private readonly token: string | null;

  constructor(base: string, token: string | null) {
    this.base = base.endsWith("/") ? base : `${base}/`;
    this.token = token;
  }

  /** Return the URL of a resource; with the token for links that are opened outside of the page. */
  url(path: string, query: Record<string, string> = {}, withToken = false): string {
    const parameters = new URLSearchParams(query);
    if (withToken && this.token !== null) parameters.set("token", this.token);
    const text = parameters.toString();
    return `${this.base}${path.replace(/^\//, "")}${text === "" ? "" : `?${text}`}`;
  }

  /** Send a GET request; an answer that is no success is a `ServerError`. */
  async get(url: string, headers: Record<string, string> = {}, signal?: AbortSignal): Promise<Response> {
    const all = this.token === null ? headers : { ...headers, Authorization: `Bearer ${this.token}` };
    const answer = await fetch(url, { headers: all, signal: signal ?? null });
    if (answer.ok) return answer;
    throw new ServerError(answer.status, await explained(answer));
  }

  /** Send a GET request for a value that may be missing, which is normal: browsers note other answers as errors. */
  async maybe(path: string, headers: Record<string, string> = {}, signal?: AbortSignal): Promise<Response | undefined> {
    const answer = await this.get(this.url(path), { ...headers, Prefer: "missing=empty" }, signal);
    return answer.status === 204 ? undefined : answer;
  }

  /** Read a resource in JSON. */
  async json<Type>(path: string, query: Record<string, string> = {}, signal?: AbortSignal): Promise<Type> {
    const answer = await this.get(this.url(path, query), { Accept: "application/json" }, signal);
    return parsed(await answer.text()) as Type;
  }

  /** Read elements in JSON; integers that a number can't hold are text. */
  async elements<Type>(path: string, query: Record<string, string>, signal?: AbortSignal): Promise<Type> {
    const answer = await this.get(this.url(path, query), { Accept: "application/json" }, signal);
    return JSON.parse(withExactIntegers(await answer.text())) as Type;
  }

  listing(path: string, signal?: AbortSignal): Promise<Listing> {
    return this.json<Listing>(escaped(path), {}, signal);
  }
}

async function explained(answer: Response): Promise<string> {
  const text = await answer.text().catch(() => "");
  try {
    const found = JSON.parse(text) as { error?: unknown; detail?: unknown; message?: unknown };
    const said = found.error ?? found.detail ?? found.message;
    if (typeof said === "string") return said;
  } catch {
    // it is plain text
  }
  const plain = text.trim();
  return plain !== "" && plain.length < 500 && !plain.startsWith("<") ? plain : `${answer.status} ${answer.statusText}`;
}
