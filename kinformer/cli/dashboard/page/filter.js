// The filter: by text, namespace, labels and level, for all views alike. The server applies it to tables and nodes.

import { complaintOf } from "./selector.js";

export class Filter extends EventTarget {
  constructor(text, selector, namespace, complaint, button) {
    super();
    Object.assign(this, { text, selector, namespace, complaint, button });
    this.words = [];
    this.level = "";
    let timer = 0;
    const later = () => { clearTimeout(timer); timer = setTimeout(() => this.read(), 120); };
    text.addEventListener("input", later);
    selector.addEventListener("input", later);
    namespace.addEventListener("change", () => this.read());
    button.addEventListener("click", () => { text.focus(); this.clear(); });
  }

  read() {
    this.words = this.text.value.toLowerCase().split(/\s+/).filter(Boolean);
    const wrong = this.wrong = complaintOf(this.selector.value);
    this.selector.classList.toggle("wrong", Boolean(wrong));
    this.selector.setAttribute("aria-invalid", String(Boolean(wrong)));
    this.complaint.hidden = !wrong;
    this.complaint.textContent = wrong;
    this.button.hidden = !this.active;
    this.dispatchEvent(new Event("change"));
  }

  get active() {
    return Boolean(this.words.length || this.selector.value.trim() || this.namespace.value || this.level);
  }

  get state() {
    return { text: this.text.value, labels: this.selector.value, namespace: this.namespace.value, level: this.level };
  }

  // For lines that are all here, without labels.
  fits(line) {
    const namespace = this.namespace.value;
    if (namespace && line.ns && line.ns !== namespace) return false;
    if (this.level && line.level !== undefined && line.level !== this.level) return false;
    return this.words.every((word) => line.text.includes(word));
  }

  // Leaves only rows of a level, or all levels again.
  toggle(level) {
    this.level = this.level === level ? "" : level;
    this.read();
  }

  set({ text, labels, namespace, level }) {
    const now = this.state;
    if (now.text === text && now.labels === labels && now.namespace === namespace && now.level === level) return;
    this.text.value = text;
    this.selector.value = labels;
    this.level = level;
    this.choose(namespace);
    this.read();
  }

  clear() {
    this.set({ text: "", labels: "", namespace: "", level: "" });
  }

  choose(namespace) {
    if (![...this.namespace.options].some((option) => option.value === namespace)) this.namespace.append(new Option(namespace, namespace));
    this.namespace.value = namespace;
  }

  // The chosen one stays, also if it has no objects, or none yet: the choice is the user's.
  offer(namespaces) {
    const now = [...this.namespace.options].slice(1).map((option) => option.value);
    const chosen = this.namespace.value;
    const names = [...new Set([...namespaces, chosen])].filter(Boolean).sort();
    if (now.join() === names.join()) return;
    this.namespace.replaceChildren(new Option("All namespaces", ""), ...names.map((name) => new Option(name, name)));
    this.namespace.value = chosen;
  }
}
