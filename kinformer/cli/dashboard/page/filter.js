// Which rows are shown: by text, namespace and labels, for all views alike.

import { parseSelector } from "./words.js";

export class Filter extends EventTarget {
  constructor(text, selector, namespace) {
    super();
    Object.assign(this, { text, selector, namespace });
    this.words = [];
    this.labels = null;
    let timer = 0;
    const later = () => { clearTimeout(timer); timer = setTimeout(() => this.read(), 120); };
    text.addEventListener("input", later);
    selector.addEventListener("input", later);
    namespace.addEventListener("change", () => this.read());
  }

  read() {
    this.words = this.text.value.toLowerCase().split(/\s+/).filter(Boolean);
    try {
      this.labels = this.selector.value.trim() ? parseSelector(this.selector.value) : null;
      this.selector.setCustomValidity("");
    } catch (error) {
      this.labels = () => false;
      this.selector.setCustomValidity(error.message);
    }
    this.selector.classList.toggle("wrong", !this.selector.validity.valid);
    this.selector.title = this.selector.validationMessage;
    this.dispatchEvent(new Event("change"));
  }

  get active() {
    return Boolean(this.words.length || this.labels || this.namespace.value);
  }

  matches(row) {
    const namespace = this.namespace.value;
    if (namespace && row.ns && row.ns !== namespace) return false;
    if (this.labels && !this.labels(row.l)) return false;
    if (!this.words.length) return true;
    const text = row.text ??= `${row.k} ${row.c.join(" ")} ${row.o ?? ""}`.toLowerCase();
    return this.words.every((word) => text.includes(word));
  }

  clear() {
    this.text.value = this.selector.value = this.namespace.value = "";
    this.read();
  }

  // The chosen one stays, also where it has no objects, or none yet: what is chosen is the user's.
  offer(namespaces) {
    const now = [...this.namespace.options].slice(1).map((option) => option.value);
    const chosen = this.namespace.value;
    const wanted = [...new Set([...namespaces, chosen])].filter(Boolean).sort();
    if (now.join() === wanted.join()) return;
    this.namespace.replaceChildren(new Option("All namespaces", ""), ...wanted.map((name) => new Option(name, name)));
    this.namespace.value = chosen;
  }
}
