// The page: which view is shown, and what keys do. Everything that is shown comes out of the store.

import { Detail } from "./detail.js";
import { Filter } from "./filter.js";
import { Health } from "./health.js";
import { Nodes } from "./nodes.js";
import { Store } from "./store.js";
import { Table, plural } from "./table.js";
import { element, number } from "./words.js";

const at = (id) => document.getElementById(id);
const store = new Store("api/events");
const filter = new Filter(at("text"), at("selector"), at("namespace"));
const detail = new Detail(store, () => go(route.view));
const open = (resource, key) => go(route.view, { resource, key });
const table = new Table(store, filter, open);
const nodes = new Nodes(store, filter, open);
const health = new Health(store);
let route = { view: "nodes", object: null };

// --- where we are: #/nodes, #/health, #/r/<resource>, and ?<resource> <key> for an open object -----------------------

function go(view, object = null) {
  location.hash = `#/${view}${object ? `?${encodeURIComponent(object.resource)}&${encodeURIComponent(object.key)}` : ""}`;
}

function read() {
  const [path, query] = location.hash.slice(2).split("?");
  const view = path === "health" || path.startsWith("r/") ? path : "nodes";
  const [resource, key] = (query ?? "").split("&").map(decoded);
  const moved = view !== route.view;
  route = { view, object: key ? { resource, key } : null };
  at("table").hidden = !view.startsWith("r/");
  at("nodes").hidden = view !== "nodes";
  at("health").hidden = view !== "health";
  if (view.startsWith("r/")) table.show(view.slice(2)); else table.hide();
  if (view !== "nodes") nodes.hide(); else if (!nodes.shown) nodes.show();
  if (view !== "health") health.hide(); else health.show();
  if (route.object) detail.show(resource, key); else detail.hide();
  if (moved) at("main").focus({ preventScroll: true });
  navigate();
}

function decoded(part) {
  try { return decodeURIComponent(part); } catch { return part; }  // a % that somebody typed
}

function navigate() {
  const entries = [["nodes", "Pods by node", null], ["health", "Informers", null],
    ...(store.report?.resources ?? []).map((one) => [`r/${one.name}`, plural(one), one])];
  const nav = at("nav");
  if (nav.children.length !== entries.length) {
    nav.replaceChildren(...entries.map(([view]) => element("a", { href: `#/${view}` },
      element("i", { class: "dot" }), element("span", {}), element("b", {}))));
  }
  entries.forEach(([view, title, one], place) => {
    const link = nav.children[place], [dot, name, count] = link.children;
    link.setAttribute("href", `#/${view}`);
    if (name.textContent !== title) name.textContent = title;
    const total = one ? number.format(store.count(one.name)) : "";
    if (count.textContent !== total) count.textContent = total;
    const ill = one ? !one.live : view === "health" && (store.report?.resources ?? []).some((other) => !other.live);
    dot.className = `dot ${ill ? "bad" : one || view === "health" ? "good" : ""}`;
    link.title = one?.error ?? "";
    if (view === route.view) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  });
}

// --- what the store tells ---------------------------------------------------------------------------------------------

store.addEventListener("rows", ({ detail: { dirty, changed } }) => {
  if (table.resource && dirty.has(table.resource)) table.rebuild();
  if (dirty.has("v1/pods") || dirty.has("v1/nodes")) nodes.update(changed);
  detail.update(changed);
  if (dirty.size) navigate();
});

store.addEventListener("report", () => {
  const namespaces = new Set();
  for (const rows of store.rows.values()) for (const row of rows.values()) if (row.ns) namespaces.add(row.ns);
  filter.offer(namespaces);
  health.report();
  navigate();
  if (table.resource) {
    const was = [table.columns, table.told].join();
    table.layOut();
    if (was !== [table.columns, table.told].join()) table.rebuild();
  }
  if (nodes.shown && !nodes.told) { nodes.told = true; nodes.rebuild(); }
  link();
});

store.addEventListener("link", link);

function link() {
  // What was never there, such as what one may not list, is said where it would be; what is lost is said everywhere.
  const all = store.report?.resources ?? [], any = all.some((one) => one.synced);
  const ill = all.filter((one) => !one.live && one.error && (one.synced || !any));
  const pill = at("link"), trouble = at("trouble");
  const [word, kind] = !store.linked ? ["connecting", "busy"] : ill.length ? [`${ill.length} not live`, "bad"] : ["live", "good"];
  if (pill.textContent !== word) pill.textContent = word;
  pill.className = `pill ${kind}`;
  const text = !store.linked && store.report ? "The connection to this page's server is lost; what you see may be old."
    : ill.map((one) => `${one.name}: ${one.error}`).join("\n");
  trouble.hidden = !text;
  if (trouble.textContent !== text) trouble.textContent = text;
}

filter.addEventListener("change", () => { table.rebuild(); nodes.rebuild(); });

// --- keys and buttons ---------------------------------------------------------------------------------------------------

function theme() {
  const dark = getComputedStyle(document.documentElement).colorScheme === "dark"
    || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem("theme", document.documentElement.dataset.theme); } catch { /* a private window keeps nothing */ }
}

try { const kept = localStorage.getItem("theme"); if (kept) document.documentElement.dataset.theme = kept; } catch { /* likewise */ }

const KEYS = {
  "/": () => at("text").focus(),
  l: () => at("selector").focus(),
  j: () => table.move(1), ArrowDown: () => table.move(1),
  k: () => table.move(-1), ArrowUp: () => table.move(-1),
  Enter: () => table.choose(table.selected, true),
  n: () => go("nodes"), h: () => go("health"),
  t: theme, "?": () => at("keys").showModal(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || at("keys").open) return;
  if (event.key === "Escape") {
    if (event.target.matches("input")) { event.target.value = ""; filter.read(); event.target.blur(); }
    else if (detail.open) go(route.view);
    else if (filter.active) filter.clear();
    return;
  }
  if (event.target.matches("input, select, textarea")) return;
  if (event.target.matches("button, a") && (event.key === "Enter" || event.key === " ")) return;
  const moves = ["j", "k", "ArrowDown", "ArrowUp", "Enter"].includes(event.key);
  if (moves && !table.resource) return;
  if (/^[1-9]$/.test(event.key)) {
    const one = store.report?.resources[Number(event.key) - 1];
    if (one) go(`r/${one.name}`);
  } else if (!KEYS[event.key]) return;
  else {
    KEYS[event.key]();
    if (moves && detail.open && event.key !== "Enter") open(table.resource, table.selected);
  }
  event.preventDefault();
});

at("theme").addEventListener("click", theme);
at("help").addEventListener("click", () => at("keys").showModal());
addEventListener("hashchange", read);
read();

// For tests and the curious: what the page holds.
globalThis.kinformer = { store, table, nodes, health, filter, detail };
