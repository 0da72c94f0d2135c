// The picker: any resource of the server, custom ones too, found by name and opened.

import { element } from "./words.js";

export class Picker {
  constructor(store, open) {
    Object.assign(this, { store, open });
    this.dialog = document.getElementById("picker");
    this.text = document.getElementById("picker-text");
    this.list = document.getElementById("picker-list");
    this.offered = [];
    this.text.addEventListener("input", () => this.draw());
    this.dialog.addEventListener("keydown", (event) => this.key(event));
    this.list.addEventListener("click", (event) => {
      const chosen = event.target.closest("button")?.resource;
      if (chosen) this.choose(chosen);
    });
  }

  async show() {
    this.text.value = "";
    this.offered = [];
    this.list.replaceChildren(element("li", { class: "quiet" }, "Asking the server …"));
    this.dialog.showModal();
    this.text.focus();
    try {
      this.offered = await this.store.get("resources");
      this.draw();
    } catch (error) {
      this.list.replaceChildren(element("li", { class: "wrong-text" }, `The server does not tell its resources: ${error.message}`));
    }
  }

  draw() {
    const words = this.text.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (resource) => words.every((word) => `${resource.name} ${resource.kind} ${resource.short_names.join(" ")}`.toLowerCase().includes(word));
    const shown = this.offered.filter(fits).sort((a, b) => a.kind.localeCompare(b.kind, "en"));
    this.list.replaceChildren(...shown.map((resource) => {
      const made = element("button", { type: "button" }, element("b", {}, resource.kind), element("code", {}, resource.name),
        element("span", { class: "quiet" }, resource.followed ? "followed" : ""));
      made.resource = resource.name;
      return element("li", {}, made);
    }));
    if (!shown.length) this.list.replaceChildren(element("li", { class: "quiet" }, "The server has no such resource."));
  }

  key(event) {
    const buttons = [...this.list.querySelectorAll("button")], at = buttons.indexOf(document.activeElement);
    if (event.key === "Enter" && document.activeElement === this.text && buttons.length) this.choose(buttons[0].resource);
    else if (event.key === "ArrowDown") buttons[Math.min(at + 1, buttons.length - 1)]?.focus();
    else if (event.key === "ArrowUp") (at > 0 ? buttons[at - 1] : this.text).focus();
    else return;
    event.preventDefault();
  }

  choose(resource) {
    this.dialog.close();
    this.open(resource);
  }
}
