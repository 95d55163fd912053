/** What the page knows of the node that it shows. */

import type { Attributes } from "./cf.ts";
import { type Document, isNumeric } from "./documents.ts";
import { type Pyramid, pyramid } from "./ome.ts";
import { type Listing, type Server, escaped, parsed } from "./server.ts";
import type { Tab } from "./state.ts";

export interface Node {
  readonly path: string;
  readonly kind: "array" | "group" | "table";
  /** Its facts that cost nothing to find out, and the members of a group or columns of a table. */
  readonly listing: Listing;
  /** `zarr.json` of an array; `null` if Zarr v3 has no form for it. */
  readonly document: Document | null;
  readonly attributes: Attributes;
  readonly pyramid: Pyramid | null;
}

export type Info = Readonly<Record<string, unknown>>;

/** Name what a node is; a group without a format is a directory whose members are data sets. */
export function kindOf({ kind, format }: { readonly kind?: unknown; readonly format?: unknown }): string {
  return kind === "group" && format === null ? "plain directory" : String(kind);
}

/** Reads nodes; what it has read of groups is kept. */
export class Nodes {
  private readonly listings = new Map<string, Promise<Listing>>();
  private readonly server: Server;
  private root: Promise<string> | null = null;

  constructor(server: Server) {
    this.server = server;
  }

  /** Return what is directly below a group. */
  listing(path: string): Promise<Listing> {
    let found = this.listings.get(path);
    if (found === undefined) {
      found = this.server.listing(path);
      found.catch(() => this.listings.delete(path));
      this.listings.set(path, found);
    }
    return found;
  }

  /** Return the name of what is served: the last part of its URL. */
  rootName(): Promise<string> {
    this.root ??= this.readRootName();
    return this.root;
  }

  private async readRootName(): Promise<string> {
    const info = await this.server
      .json<{ store?: string; name?: string }>("-/info/")
      .catch(() => ({ store: "", name: "" }));
    return info.name || (info.store ?? "").replace(/\/+$/, "").split("/").pop() || "/";
  }

  /** Return the document of an array in Zarr v3. */
  async document(path: string, signal?: AbortSignal): Promise<Document | null> {
    const answer = await this.server.maybe(`${escaped(path)}/zarr.json`.replace(/^\//, ""), {}, signal);
    const found = answer === undefined ? null : (parsed(await answer.text()) as Document);
    return found?.node_type === "array" ? found : null;
  }

  /** Return all that is known of a node. */
  async read(path: string, signal?: AbortSignal): Promise<Node> {
    const listing = await this.server.listing(path, signal);
    const { kind, attributes } = listing;
    if (kind === "group") this.listings.set(path, Promise.resolve(listing));
    const document = kind === "array" ? await this.document(path, signal) : null;
    const own = document?.attributes ?? attributes; // where the fill value is shown as _FillValue, they say more
    return { path, kind, listing, document, attributes: own, pyramid: kind === "group" ? pyramid(attributes) : null };
  }

  /** Return all facts of a node: the server counts its chunks for that. */
  info(path: string, signal?: AbortSignal): Promise<Info> {
    return this.server.json<Info>(`-/info/${escaped(path)}`, {}, signal);
  }
}

/** Return what a node can be shown as; the first suits it best. */
export function tabs(node: Node): Tab[] {
  if (node.kind === "table") return ["values", "about"];
  if (node.kind === "group") return node.pyramid !== null ? ["image", "about"] : ["about"];
  const lengths = shapeOf(node);
  const rank = lengths.length;
  const numeric = node.document !== null && isNumeric(node.document);
  if (!numeric || rank === 0 || lengths.includes(0)) return ["values", "about"];
  return rank === 1 ? ["line", "values", "about"] : ["image", "line", "values", "about"];
}

/** Return the shape of an array. */
export function shapeOf(node: Node): readonly number[] {
  return node.document?.shape ?? node.listing.shape ?? [];
}
