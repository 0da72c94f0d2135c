// One object: what it is, what changed in it lately, and all of it.

import { age, element, meaning } from "./words.js";

export class Detail {
  constructor(store, closed) {
    Object.assign(this, { store, closed });
    this.panel = document.getElementById("detail");
    this.body = document.getElementById("detail-body");
    this.kind = document.getElementById("detail-kind");
    this.name = document.getElementById("detail-name");
    this.tab = "summary";
    this.place = null;
    this.turn = 0;
    document.getElementById("detail-close").addEventListener("click", () => this.closed());
    for (const button of this.panel.querySelectorAll("[data-tab]")) {
      button.addEventListener("click", () => this.choose(button.dataset.tab));
    }
  }

  get open() {
    return this.place !== null;
  }

  show(resource, key) {
    if (this.place?.resource === resource && this.place.key === key) return;
    this.place = { resource, key };
    this.panel.hidden = false;
    document.body.classList.add("with-detail");
    this.body.replaceChildren();
    this.body.scrollTop = 0;
    this.read();
  }

  hide() {
    this.place = null;
    this.panel.hidden = true;
    document.body.classList.remove("with-detail");
  }

  choose(tab) {
    this.tab = tab;
    for (const button of this.panel.querySelectorAll("[data-tab]")) {
      button.setAttribute("aria-selected", String(button.dataset.tab === tab));
    }
    this.body.replaceChildren();
    this.read();
  }

  update(changed) {
    if (!this.place || !changed.has(`${this.place.resource} ${this.place.key}`)) return;
    clearTimeout(this.soon);
    this.soon = setTimeout(() => this.read(), 150);
  }

  async read() {
    if (!this.place) return;
    const { resource, key } = this.place, turn = ++this.turn;
    const row = this.store.rows.get(resource)?.get(key);
    this.kind.textContent = `${this.store.about(resource)?.kind ?? resource}${key.includes("/") ? ` in ${key.split("/")[0]}` : ""}`;
    this.name.textContent = key.split("/").at(-1);
    this.panel.classList.toggle("gone", !row && this.store.linked);
    const query = `resource=${encodeURIComponent(resource)}&key=${encodeURIComponent(key)}`;
    let made;
    try {
      if (this.tab === "changes") made = changes(await get(`api/changes?${query}`, "json"));
      else if (this.tab === "yaml") made = yaml(await get(`api/object?${query}&format=yaml`, "text"));
      else made = summary(await get(`api/object?${query}`, "json"), row, this.store.about(resource));
    } catch (error) {
      const gone = !row || error.status === 404;  // the server may know before its event is here
      if (gone && this.body.querySelector(":scope > :not(.failed)")) return;  // what it was stays in sight
      made = element("p", { class: "nothing failed" }, gone ? "It is gone." : `It cannot be read: ${error.message}`);
    }
    if (turn === this.turn) this.body.replaceChildren(made);
  }
}

async function get(url, form) {
  const answer = await fetch(url);
  if (!answer.ok) throw Object.assign(new Error(`${answer.status} ${answer.statusText}`), { status: answer.status });
  return answer[form]();
}

function summary(object, row, about) {
  const metadata = object.metadata ?? {}, made = element("div", { class: "summary" });
  const facts = element("dl", { class: "facts wide" });
  const fact = (name, value) => {
    if (value) facts.append(element("div", {}, element("dt", {}, name), element("dd", {}, value)));
  };
  (about?.columns ?? []).forEach((name, place) => {
    const word = row?.c[place];
    if (word && word !== "<none>") fact(name.toLowerCase(), element("span", { class: `status ${name === "STATUS" ? meaning(word) : ""}` }, word));
  });
  if (metadata.creationTimestamp) {
    const since = Date.parse(metadata.creationTimestamp);
    fact("created", `${age((Date.now() - since) / 1000)} ago (${new Date(since).toLocaleString()})`);
  }
  for (const owner of metadata.ownerReferences ?? []) fact("owner", `${owner.kind}/${owner.name}`);
  fact("uid", metadata.uid);
  fact("resource version", metadata.resourceVersion);
  made.append(facts);
  section(made, "Labels", chips(metadata.labels));
  section(made, "Containers", containers(object));
  section(made, "Conditions", conditions(object.status?.conditions));
  section(made, "Annotations", chips(metadata.annotations));
  return made;
}

function section(holder, title, content) {
  if (content) holder.append(element("h3", {}, title), content);
}

function chips(pairs) {
  const entries = Object.entries(pairs ?? {});
  if (!entries.length) return null;
  return element("ul", { class: "chips" }, ...entries.map(([key, value]) =>
    element("li", {}, element("span", { class: "quiet" }, `${key} `), String(value).length > 300 ? `${String(value).slice(0, 300)}…` : String(value))));
}

function containers(object) {
  const wanted = object.spec?.containers ?? object.spec?.template?.spec?.containers;
  if (!Array.isArray(wanted) || !wanted.length) return null;
  const states = new Map((object.status?.containerStatuses ?? []).map((one) => [one.name, one]));
  return element("ul", { class: "lines" }, ...wanted.map((one) => {
    const state = states.get(one.name), [word, more] = Object.entries(state?.state ?? {})[0] ?? [];
    const shown = more?.reason ?? (word ? word.charAt(0).toUpperCase() + word.slice(1) : "");
    return element("li", {}, element("b", {}, one.name), element("code", {}, one.image ?? ""),
      element("span", { class: `status ${meaning(shown)}` }, shown),
      element("span", { class: "quiet" }, state?.restartCount ? `${state.restartCount} restarts` : ""));
  }));
}

function conditions(list) {
  if (!Array.isArray(list) || !list.length) return null;
  return element("ul", { class: "lines" }, ...list.map((one) => element("li", {},
    element("b", {}, String(one.type ?? "")),
    element("span", { class: `status ${one.status === "True" ? "good" : one.status === "False" ? "busy" : ""}` }, String(one.status ?? "")),
    element("span", { class: "quiet" }, [one.reason, one.message].filter(Boolean).join(": ")))));
}

function changes(list) {
  if (!list.length) return element("p", { class: "nothing" }, "Nothing has changed since this page's server began to look.");
  return element("ol", { class: "changes" }, ...list.map((change) => element("li", {},
    element("p", {}, element("time", {}, new Date(change.at * 1000).toLocaleTimeString()),
      element("span", { class: `pill ${{ ADDED: "good", DELETED: "bad" }[change.type] ?? ""}` }, change.type.toLowerCase()),
      element("span", { class: "quiet" }, `version ${change.version}`)),
    ...(change.type === "UPDATED" && !change.differences.length ? [element("p", { class: "quiet" }, "Nothing but the version.")] : []),
    ...change.differences.map((one) => element("div", { class: short(one) ? "difference short" : "difference" },
      element("p", { class: "path" }, one.path),
      one.old === null ? null : element("del", {}, one.old),
      one.new === null ? null : element("ins", {}, one.new))))));
}

// A number, a word: they fit beside their path.
function short(one) {
  return one.path.length + (one.old?.length ?? 0) + (one.new?.length ?? 0) < 58;
}

function yaml(text) {
  const made = element("pre", { class: "yaml" });
  for (const line of text.split("\n")) {
    const found = /^(\s*(?:- )?)([^\s:'"][^:]*)(:)(\s.*|)$/.exec(line);
    if (found) made.append(found[1], element("span", { class: "key" }, found[2]), found[3], element("span", { class: "value" }, found[4]), "\n");
    else made.append(element("span", { class: "value" }, line), "\n");
  }
  return made;
}
