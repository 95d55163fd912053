/** Starts the page: the server, the state and its link, keys and colours. */

import { Loader } from "./chunks.ts";
import { copied } from "./clipboard.ts";
import type { Context } from "./context.ts";
import { h, svg } from "./dom.ts";
import { type Key, helpWindow, listen } from "./help.ts";
import { fragment, parse } from "./link.ts";
import { Nodes } from "./nodes.ts";
import { Page } from "./page.ts";
import { Server } from "./server.ts";
import { INITIAL, Model, type State } from "./state.ts";
import { followTheme, isDark, toggleTheme } from "./theme.ts";

const CACHE_BYTES = 512 * 2 ** 20;
const AT_ONCE = 12; // browsers send six to one server at a time; the others wait beside what is decoded

const LINK = "M6.5 9.5l3-3M7 4.5l1.2-1.2a2.6 2.6 0 0 1 3.7 3.7L10.7 8.2M9 11.5l-1.2 1.2a2.6 2.6 0 0 1-3.7-3.7L5.3 7.8";
const MOON = "M13 9.6A5.3 5.3 0 0 1 6.4 3a5.3 5.3 0 1 0 6.6 6.6z";
const KEYS = "M1.5 4.5h13v7h-13zM4 7h.01M6.7 7h.01M9.3 7h.01M12 7h.01M5 9.3h6";

function icon(path: string): SVGElement {
  return svg("svg", { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true" }, svg("path", { d: path }));
}

function start(): void {
  const here = new URL(location.href);
  const base = new URL(".", document.baseURI).href;
  const server = new Server(base, here.searchParams.get("token"));
  const model = new Model(initial(here, base));
  const context: Context = {
    server,
    nodes: new Nodes(server),
    model,
    loader: new Loader(CACHE_BYTES, AT_ONCE),
    isDark,
  };
  const button = (picture: string, title: string, run: () => void): HTMLElement =>
    h("button", { class: "round", title, "aria-label": title, click: run }, icon(picture));
  const help = (): void => dialog.showModal();
  const theme = (): void => toggleTheme(() => page.redraw());
  const copy = (): void => void copyLink(context, said);
  const said = h("span", { class: "said", role: "status" });
  const buttons = [
    said,
    button(LINK, "Copy a link to this view (l)", copy),
    button(MOON, "Light or dark (d)", theme),
    button(KEYS, "Keys (?)", help),
  ];
  const page = new Page(context, document.body, buttons);
  const keys = allKeys(context, page, { help, theme, copy });
  const dialog = helpWindow(keys, [
    ["wheel  pinch", "zoom"],
    ["drag", "move"],
    ["click", "mark a point and draw the line through it"],
    ["← → ↑ ↓", "move the mark; with Shift by ten"],
  ]);
  document.body.append(dialog);
  listen(keys);
  keepLink(model);
  followLinks(model);
  followTheme(() => page.redraw());
}

/** Return the state that the URL names: by its fragment, or by its path below the base. */
function initial(here: URL, base: string): State {
  if (here.hash.length > 1) return parse(here.hash);
  const path = here.href.startsWith(base) ? here.pathname.slice(new URL(base).pathname.length) : "";
  return { ...INITIAL, path: decodeURIComponent(path).replace(/\/$/, "") };
}

/** Write the state into the URL: a new node is a step back for the browser, another view of it is not. */
function keepLink(model: Model): void {
  let timer = 0;
  const write = (push: boolean): void => {
    clearTimeout(timer);
    const url = `${location.pathname}${location.search}${fragment(model.state)}`;
    if (location.hash === fragment(model.state)) return;
    if (push) history.pushState(null, "", url);
    else history.replaceState(null, "", url);
  };
  model.listen((state, before) => {
    clearTimeout(timer);
    if (state.path !== before.path) write(parse(location.hash).path !== state.path);
    else timer = window.setTimeout(() => write(false), 150);
  });
  window.addEventListener("popstate", () => {
    clearTimeout(timer);
    if (location.hash.length > 1 && location.hash !== fragment(model.state)) model.set(parse(location.hash));
  });
}

/** Let links within the page change the state; the base of the page would make them load it again. */
function followLinks(model: Model): void {
  document.addEventListener("click", (event) => {
    const link = (event.target as Element).closest<HTMLAnchorElement>('a[href^="#/"]');
    if (link === null || event.defaultPrevented || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    model.go(parse(link.getAttribute("href")!).path);
  });
}

/** Copy a link to what is shown, and say so for a while. */
async function copyLink(context: Context, said: HTMLElement): Promise<void> {
  const url = new URL(location.href);
  url.searchParams.delete("token"); // a link may be shown to others
  url.hash = fragment(context.model.state);
  said.textContent = (await copied(url.href)) ? "link copied" : "copy the link from the address of the page";
  setTimeout(() => (said.textContent = ""), 2500);
}

function allKeys(context: Context, page: Page, run: { help: () => void; theme: () => void; copy: () => void }): Key[] {
  const { model } = context;
  return [
    { keys: ["?"], says: "this list", run: run.help },
    { keys: ["/"], says: "search the tree", run: () => page.tree.search.focus() },
    { keys: ["1", "2", "3", "4"], says: "tabs", run: (key) => page.choose(Number(key) - 1) },
    { keys: ["+", "="], says: "zoom in", run: () => page.images.zoom(1.5) },
    { keys: ["-"], says: "zoom out", run: () => page.images.zoom(1 / 1.5) },
    { keys: ["0"], says: "show all", run: () => model.set({ view: null }) },
    {
      keys: ["]", "."],
      says: "next element of the last slider, or of the one with the focus",
      run: () => page.sliders.step(1),
    },
    { keys: ["[", ","], says: "previous element", run: () => page.sliders.step(-1) },
    { keys: ["p"], says: "play the slider, or stop", run: () => page.sliders.play() },
    { keys: ["t"], says: "swap the axes", run: () => page.sliders.swap() },
    { keys: ["f"], says: "turn the image upside down", run: () => page.images.flip() },
    { keys: ["c"], says: "next colour map", run: () => page.colours.next() },
    { keys: ["a"], says: "automatic limits, or hold those of now", run: () => page.colours.toggle() },
    { keys: ["d"], says: "light or dark", run: run.theme },
    { keys: ["l"], says: "copy a link to this view", run: run.copy },
    { keys: ["Escape"], says: "remove the mark", run: () => model.set({ marked: false }) },
  ];
}

start();
