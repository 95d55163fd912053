/** The tree of nodes, read as it is opened, with a search. */

import type { Context } from "./context.ts";
import { h, replace } from "./dom.ts";
import { counted, shape } from "./format.ts";
import type { Member } from "./server.ts";

interface Found {
  readonly nodes: readonly (Member & { readonly path: string })[];
  readonly truncated: boolean;
}

const PICTURES: Record<string, string> = { group: "▸", array: "▦", table: "☰", unreadable: "⚠" };

export class TreeView {
  readonly element: HTMLElement;
  readonly search = h("input", { type: "search", placeholder: "Search  /", "aria-label": "Search the tree" });
  private readonly list = h("ul", { role: "tree", "aria-label": "Nodes" });
  private readonly found = h("ul", { class: "found", role: "listbox", "aria-label": "Nodes found", hidden: true });
  private readonly open = new Set<string>();
  private readonly context: Context;
  private searching: AbortController | null = null;
  private timer = 0;

  constructor(context: Context) {
    this.context = context;
    this.element = h("nav", { class: "tree", "aria-label": "Tree" }, this.search, this.list, this.found);
    this.search.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = window.setTimeout(() => void this.find(), 150);
    });
    this.element.addEventListener("keydown", (event) => this.pressed(event));
    void this.root();
  }

  private async root(): Promise<void> {
    const top = await this.context.nodes.listing("").catch(() => null);
    const kind = top?.kind ?? "group";
    const item = this.item("", { ...top, name: "/", kind } as Member);
    this.list.append(item);
    void this.context.nodes.rootName().then((name) => (item.querySelector(".name")!.textContent = name));
    if (kind === "group") await this.expand("");
    await this.reveal(this.context.model.state.path);
  }

  /** Open the groups above a node and mark it. */
  async reveal(path: string): Promise<void> {
    const parts = path.split("/").slice(0, -1);
    for (let count = 1; count <= parts.length; count++) await this.expand(parts.slice(0, count).join("/"));
    for (const link of this.element.querySelectorAll<HTMLElement>("a[data-path]")) {
      const here = link.dataset.path === path;
      if (here) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
      if (here) link.scrollIntoView({ block: "nearest" });
    }
  }

  private item(path: string, member: Member): HTMLElement {
    const group = member.kind === "group";
    const detail =
      member.kind === "unreadable"
        ? "unreadable"
        : member.rows != null
          ? counted(member.rows, "row")
          : member.shape
            ? shape(member.shape)
            : "";
    const link = h(
      "a",
      {
        href: `#/${path.split("/").map(encodeURIComponent).join("/")}`,
        "data-path": path,
        title: member.error ?? `${member.kind} ${path} ${member.dtype ?? ""}`,
        class: `is-${member.kind}`,
      },
      h("span", { class: "picture", "aria-hidden": "true" }, PICTURES[member.kind] ?? "·"),
      h("span", { class: "name" }, member.name),
      h("small", {}, detail),
    );
    const item = h("li", { role: "treeitem", "aria-expanded": group ? "false" : null }, link);
    link.addEventListener("click", (event) => {
      if (event.metaKey || event.ctrlKey || event.shiftKey) return;
      event.preventDefault();
      if (group && path !== "" && this.context.model.state.path === path) this.toggle(path, item);
      else if (group) void this.expand(path);
      this.context.model.go(path);
    });
    item.dataset.item = path;
    return item;
  }

  private toggle(path: string, item: HTMLElement): void {
    const list = item.querySelector("ul");
    if (list === null) {
      void this.expand(path);
      return;
    }
    list.remove();
    this.open.delete(path);
    item.setAttribute("aria-expanded", "false");
  }

  private async expand(path: string): Promise<void> {
    const item = this.element.querySelector<HTMLElement>(`li[data-item="${CSS.escape(path)}"]`);
    if (item === null || this.open.has(path)) return;
    this.open.add(path);
    const listing = await this.context.nodes.listing(path).catch((error: Error) => error);
    const list = h("ul", { role: "group" });
    if (listing instanceof Error) {
      this.open.delete(path);
      list.append(h("li", { class: "failed" }, listing.message));
    } else if (listing.kind === "group") {
      const prefix = path === "" ? "" : `${path}/`;
      list.append(...listing.members.map((member) => this.item(prefix + member.name, member)));
      if (listing.truncated) list.append(h("li", { class: "note" }, "… and more; search for their names"));
    }
    item.querySelector("ul")?.remove();
    item.append(list);
    item.setAttribute("aria-expanded", "true");
  }

  private async find(): Promise<void> {
    this.searching?.abort();
    const search = this.search.value.trim();
    this.found.hidden = search === "";
    this.list.hidden = search !== "";
    if (search === "") return;
    const controller = new AbortController();
    this.searching = controller;
    try {
      const { nodes, truncated } = await this.context.server.json<Found>(
        "-/tree",
        { search, limit: "200" },
        controller.signal,
      );
      const items = nodes.map((node) => this.item(node.path, { ...node, name: node.path || "/" }));
      replace(
        this.found,
        ...items,
        nodes.length === 0 && h("li", { class: "note" }, "no node has these words in its path"),
        truncated && h("li", { class: "note" }, "… and more"),
      );
    } catch (error) {
      if (!controller.signal.aborted)
        replace(this.found, h("li", { class: "failed" }, String((error as Error).message)));
    }
  }

  /** Arrow keys go through the tree, as in other programs. */
  private pressed(event: KeyboardEvent): void {
    const links = [...this.element.querySelectorAll<HTMLAnchorElement>("a[data-path]")].filter(
      (link) => link.offsetParent !== null,
    );
    const at = links.indexOf(document.activeElement as HTMLAnchorElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: links.length - 1 }[event.key];
    if (event.key === "Escape") {
      this.search.value = "";
      void this.find();
    }
    const item = links[at]?.parentElement;
    if (item && event.key === "ArrowRight" && item.hasAttribute("aria-expanded")) void this.expand(item.dataset.item!);
    else if (item && event.key === "ArrowLeft" && item.getAttribute("aria-expanded") === "true")
      this.toggle(item.dataset.item!, item);
    else if (to !== undefined && (document.activeElement !== this.search || event.key === "ArrowDown"))
      links[Math.max(0, Math.min(links.length - 1, to))]?.focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
