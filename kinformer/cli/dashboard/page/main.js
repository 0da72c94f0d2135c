// The page: its parts, put together. All that is shown comes out of the store, and the address says which of it.

import { Detail } from "./detail.js";
import { Filter } from "./filter.js";
import { Health } from "./health.js";
import { Keys } from "./keys.js";
import { Navigation } from "./navigation.js";
import { Nodes } from "./nodes.js";
import { Notice } from "./notice.js";
import { Picker } from "./picker.js";
import { Problems } from "./problems.js";
import { Route } from "./route.js";
import { Store } from "./store.js";
import { Table } from "./table.js";
import { switchTheme } from "./theme.js";
import { Timeline } from "./timeline.js";
import { Trouble } from "./trouble.js";

const at = (id) => document.getElementById(id);
const store = new Store("api");
const route = new Route();
const filter = new Filter(at("text"), at("selector"), at("namespace"), at("selector-error"), at("clear"));
const open = (resource, key, tab = route.state.open ? route.state.tab : "summary") => route.go({ open: { resource, key }, tab });
const close = () => {
  const inside = at("detail").contains(document.activeElement);
  route.go({ open: null, tab: "summary" });
  if (inside) cameFrom();
};
const table = new Table(store, filter, { open, sorted: (sort) => route.go({ sort }, { replace: true }), moved: look });
const nodes = new Nodes(store, filter, open);
const health = new Health(store);
const href = (open, tab = "summary") => route.href({ open, tab });
const problems = new Problems(store, filter, href);
const timeline = new Timeline(store, filter, { href, chosen: (changes) => route.go(changes, { replace: true }) });
const trouble = new Trouble(store);
const notice = new Notice(store);
const picker = new Picker(store, (resource) => route.go({ view: `r/${resource}` }));
const detail = new Detail(store, {
  closed: close,
  chosen: (tab) => route.go({ tab }, { replace: true }),
  href: ({ resource, key }) => href({ resource, key }),
});
const navigation = new Navigation(store, route, () => picker.show());
const asked = new Set();  // resources that the server was asked to follow
let view = "";
let opener = null;  // the link that opened the panel

// A panel that is closed gives the focus back to the view that it was opened from.
function cameFrom() {
  if (table.resource) table.focus();
  else if (opener?.isConnected) opener.focus({ preventScroll: true });
  else (nodes.shown && nodes.current ? nodes.current : at("main")).focus({ preventScroll: true });
}

function show() {
  if (route.state.view === "problems" && store.report?.problems === null) {  // a service that shows none
    route.go({ view: "nodes" }, { replace: true });
    return;
  }
  const { state } = route, moved = state.view !== view;
  view = state.view;
  at("problems").hidden = view !== "problems";
  at("changes").hidden = view !== "changes";
  at("table").hidden = !view.startsWith("r/");
  at("nodes").hidden = view !== "nodes";
  at("health").hidden = view !== "health";
  if (view.startsWith("r/")) table.show(view.slice(2), state.sort); else table.hide();
  if (view !== "nodes") nodes.hide(); else if (!nodes.shown) nodes.show();
  if (view !== "health") health.hide(); else health.show();
  if (view !== "problems") problems.hide(); else if (!problems.shown) problems.show();
  if (view !== "changes") timeline.hide(); else timeline.show(state);
  if (state.open) detail.show(state.open, state.tab); else detail.hide();
  if (moved) at("main").focus({ preventScroll: true });
  navigation.draw();
  look();
  follow();
}

// What the page needs of the server.
function look() {
  const { state } = route, objects = view === "nodes" ? { view } : table.resource ? table.view : {};
  const { text, labels, namespace, level } = filter.state, filtered = objects.view ? { text, labels, namespace, level } : {};
  const open = state.open ? `${state.open.resource} ${state.open.key}` : "", asked = { ...objects, ...filtered, open };
  const key = new URLSearchParams(Object.entries(asked).filter(([, value]) => value)).toString();
  store.watch({ key, query: table.query, first: table.first });
}

const wanted = () => [view.startsWith("r/") ? view.slice(2) : "", route.state.open?.resource ?? ""].filter(Boolean);

// A resource that was opened is released when no page asks for it any more.
setInterval(() => {
  if (store.linked && !document.hidden) for (const name of wanted()) if (store.about(name)) store.get("follow", { resource: name }).catch(() => {});
}, 60_000);

// Resources that are opened, and are not followed yet, are followed from now on.
async function follow() {
  if (!store.report || !store.linked) return;
  for (const name of wanted()) if (!store.about(name) && !asked.has(name)) {
    asked.add(name);
    try {
      const { resource } = await store.get("follow", { resource: name });
      if (resource !== name && view === `r/${name}`) route.go({ view: `r/${resource}` }, { replace: true });
    } catch (error) {
      if (table.resource === name) table.refused = error.message;
    }
    if (table.resource) table.tell();
  }
}

route.addEventListener("change", ({ detail: { typed } }) => {
  if (typed) filter.set(route.state);
  else if (filter.level !== route.state.level) filter.toggle(route.state.level);
  show();
});

filter.addEventListener("change", () => {
  table.rebuild();
  route.go(filter.state, { replace: true });
  problems.draw();
  timeline.rebuild();
});

// A panel that is opened by a link of a view gives the focus back to that link.
at("main").addEventListener("click", (event) => { opener = event.target.closest("a[data-focus]") ?? opener; });

store.addEventListener("table", ({ detail: news }) => { if (table.resource) table.apply(news); });
store.addEventListener("nodes", ({ detail: news }) => { if (nodes.shown) nodes.apply(news); });
store.addEventListener("open", ({ detail: news }) => detail.noted(news));

store.addEventListener("report", () => {
  filter.offer(store.report.namespaces);
  health.report();
  detail.report();
  if (view === "problems" && store.report.problems === null) show();
  problems.read();
  timeline.read();
  navigation.draw();
  trouble.draw();
  notice.draw();
  if (table.resource) {
    const was = [table.columns, table.told].join();
    table.layOut();
    if (was !== [table.columns, table.told].join()) table.rebuild();
    else table.tell();
  }
  if (nodes.shown) nodes.count();
  for (const name of asked) if (store.about(name)?.synced) {
    asked.delete(name);  // another server, after this one, may have to be asked again
    if (detail.place?.resource === name) detail.read();
  }
  follow();
});

store.addEventListener("link", () => { trouble.draw(); problems.draw(); });

at("theme").addEventListener("click", switchTheme);
at("help").addEventListener("click", () => at("keys").showModal());
new Keys({ route, store, table, nodes, problems, timeline, filter, detail, picker, open, close });
filter.set(route.state);
show();

// For tests, and for a look from the browser's console: the parts of the page.
globalThis.kinformer = { store, route, table, nodes, health, problems, timeline, filter, detail, notice, picker };
