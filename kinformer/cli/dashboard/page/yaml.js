// YAML, with its keys in a colour of their own and a button that copies all of it.

import { element } from "./words.js";

const KEY = /^(\s*(?:- )*)([^\s:'"#-][^:]*|'[^']*'|"[^"]*")(:)(\s.*|)$/;
const BLOCK = /(?:^|\s)[|>][-+0-9]*$/;

let last = { text: null, made: null };

// The same text is the same element: what is selected in it stays so, and its button goes on saying "Copied".
export function yaml(text) {
  if (last.text !== text) last = { text, made: present(text) };
  return last.made;
}

function present(text) {
  const made = element("pre", { class: "yaml", tabIndex: 0 });
  made.setAttribute("aria-label", "YAML");
  let block = -1;  // the indent of the key whose text is a block; -1 outside of one
  for (const line of text.split("\n")) {
    const indent = line.search(/\S/);
    if (block >= 0 && (indent < 0 || indent > block)) {
      made.append(element("span", { class: "text" }, line), "\n");
      continue;
    }
    block = -1;
    const match = KEY.exec(line);
    if (!match) { made.append(element("span", { class: "value" }, line), "\n"); continue; }
    made.append(match[1], element("span", { class: "key" }, match[2]), match[3], element("span", { class: "value" }, match[4]), "\n");
    if (BLOCK.test(match[4])) block = indent;
  }
  const button = element("button", { class: "button", type: "button", "data-focus": "copy" }, "Copy");
  button.addEventListener("click", async () => {
    button.textContent = await copied(text, made) ? "Copied" : "Selected: press Ctrl+C";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  return element("div", {}, element("div", { class: "tools", role: "status" }, button), made);
}

// Without https there is a clipboard for loopback alone: the text is selected then.
async function copied(text, made) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection().selectAllChildren(made);
    return false;
  }
}
