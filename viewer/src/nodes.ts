/** What the page knows of the node that it shows. */

import type { Attributes } from "./cf.ts";
import { type Document, isNumeric } from "./documents.ts";
import { type Pyramid, pyramid } from "./ome.ts";
import { type Listing, type Server, ServerError, escaped } from "./server.ts";
import type { Tab } from "./state.ts";

export interface Node {
  readonly path: string;
  readonly kind: "array" | "group" | "table";
  /** Members of a group, columns of a table. */
  readonly listing: Listing | null;
  /** `zarr.json` of an array; `null` if Zarr v3 has no form for it. */
  readonly document: Document | null;
  readonly info: Readonly<Record<string, unknown>>;
  readonly attributes: Attributes;
  readonly pyramid: Pyramid | null;
}

/** Reads nodes; what it has read of groups is kept. */
export class Nodes {
  private readonly listings = new Map<string, Promise<Listing>>();
  private readonly server: Server;

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
  async rootName(): Promise<string> {
    const info = await this.server.json<{ store?: string; name?: string }>("-/info/").catch(() => ({ store: "", name: "" }));
    return info.name || (info.store ?? "").replace(/\/+$/, "").split("/").pop() || "/";
  }

  /** Return the document of an array in Zarr v3. */
  async document(path: string, signal?: AbortSignal): Promise<Document | null> {
    try {
      const found = await this.server.json<Document>(`${escaped(path)}/zarr.json`.replace(/^\//, ""), {}, signal);
      return found.node_type === "array" ? found : null;
    } catch (error) {
      if (error instanceof ServerError && error.status === 404) return null;
      throw error;
    }
  }

  /** Return all that is known of a node. */
  async read(path: string, signal?: AbortSignal): Promise<Node> {
    const info = await this.server.json<Record<string, unknown>>(`-/info/${escaped(path)}`, {}, signal);
    const kind = info.kind === "array" || info.kind === "table" ? info.kind : "group";
    const [listing, document] = await Promise.all([
      kind === "array" ? null : this.listing(path),
      kind === "array" ? this.document(path, signal) : null,
    ]);
    const attributes = (info.attributes as Attributes | undefined) ?? document?.attributes ?? listing?.attributes ?? {};
    return { path, kind, listing, document, info, attributes, pyramid: kind === "group" ? pyramid(attributes) : null };
  }
}

/** Return what a node can be shown as; the first suits it best. */
export function tabs(node: Node): Tab[] {
  if (node.kind === "table") return ["values", "about"];
  if (node.kind === "group") return node.pyramid !== null ? ["image", "about"] : ["about"];
  const rank = shapeOf(node).length;
  const numeric = node.document !== null && isNumeric(node.document);
  if (!numeric || rank === 0) return ["values", "about"];
  return rank === 1 ? ["line", "values", "about"] : ["image", "line", "values", "about"];
}

/** Return the shape of an array. */
export function shapeOf(node: Node): readonly number[] {
  return node.document?.shape ?? (node.info.shape as number[] | undefined) ?? [];
}
