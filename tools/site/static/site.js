// Copy buttons, and code that scrolls by keyboard. Nothing is fetched.
"use strict";

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch { // an old browser, or one that trusts no file
    const area = document.body.appendChild(document.createElement("textarea"));
    area.value = text;
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

addEventListener("DOMContentLoaded", () => {
  for (const pre of document.querySelectorAll("article pre")) {
    if (pre.scrollWidth > pre.clientWidth) {
      pre.tabIndex = 0; // so that the arrow keys scroll it
      pre.addEventListener("keydown", (event) => event.stopPropagation()); // instead of turning the page
    }
    if (!pre.closest(".highlight-sh")) continue; // only commands are for typing
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.ariaLive = "polite";
    button.title = "Copy the commands";
    button.addEventListener("click", async () => {
      const had = document.activeElement;
      await copy(pre.innerText.replace(/\n$/, ""));
      had.focus();
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 2000);
    });
    pre.parentElement.append(button);
  }
});

// The side bar: the book and the walk are open, the other groups folded, unless this page is in one.
addEventListener("DOMContentLoaded", () => {
  for (const caption of document.querySelectorAll(".sidebar-tree p.caption")) {
    const list = caption.nextElementSibling, fold = document.createElement("details"), summary = document.createElement("summary");
    if (["The book", "The walk"].includes(caption.textContent.trim())) continue;
    fold.open = list.matches(".current, :has(.current)");
    summary.className = caption.className;
    summary.append(...caption.childNodes);
    caption.replaceWith(fold);
    fold.append(summary, list);
  }
});

// A quiz: the recorded experiment is shown when there is a prediction. What is right is what teach/quiz.py takes for right.
addEventListener("DOMContentLoaded", () => {
  for (const form of document.querySelectorAll(".quiz form")) {
    const fold = form.querySelector("details"), summary = fold.querySelector("summary"), verdict = form.querySelector(".verdict");
    const { answer, within } = form.dataset, recorded = summary.textContent;
    form.querySelector("button").hidden = false;
    summary.textContent = "I can't know yet: show the experiment";
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const typed = (new FormData(form).get("answer") ?? "").trim();
      const number = typed.replaceAll(",", "").match(/[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?/i)?.[0];
      if (!typed || (!isNaN(answer) && number === undefined)) return form.querySelector("input").focus();
      const right = isNaN(answer) ? typed === answer : Math.abs(number - answer) <= within * (1 + 1e-9);
      verdict.textContent = `You said ${typed}, ${right ? "" : "but "}the experiment says ${answer}${right ? ": right" : ""}.`;
      verdict.className = right ? "verdict right" : "verdict wrong";
      summary.textContent = recorded;
      fold.open = true;
    });
  }
});

// A page of a diff: keys for the next and the previous place, and for the key one; a button for all lines.
addEventListener("DOMContentLoaded", () => {
  const hunks = [...document.querySelectorAll("section.hunk")], all = document.querySelector("button.all");
  if (!hunks.length) return;
  const go = (hunk) => {
    if (!hunk) return;
    hunk.scrollIntoView({ block: "start", behavior: "instant" });
    hunk.focus({ preventScroll: true });
  };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target.matches("input, textarea")) return;
    const here = hunks.indexOf(document.activeElement);
    const at = here >= 0 ? here : hunks.findLastIndex((hunk) => hunk.getBoundingClientRect().top < 80);
    if (event.key === "n") go(hunks[at + 1]);
    if (event.key === "p") go(hunks[Math.max(0, at - 1)]);
    if (event.key === "k") go(document.querySelector("section.hunk.key"));
  });
  const folded = document.querySelectorAll("details.context, details.folded");
  const show = (open) => {
    for (const one of folded) one.open = open;
    all.textContent = open ? "Hide unchanged lines" : "Show all lines";
  };
  all.hidden = false;
  all.addEventListener("click", () => show(all.textContent === "Show all lines"));
  addEventListener("beforeprint", () => document.querySelectorAll("details.folded").forEach((one) => { one.open = true; }));
});

// The frame with the walk is light or dark as the page is, which the button may have chosen.
addEventListener("DOMContentLoaded", () => {
  const frame = document.querySelector(".landing iframe");
  if (!frame) return;
  const tell = () => frame.contentWindow.postMessage({ theme: document.body.dataset.theme }, "*");
  frame.addEventListener("load", tell);
  new MutationObserver(tell).observe(document.body, { attributeFilter: ["data-theme"] });
});

// A search finds pages; below each, the lines that it is found in. Then it looks through the sources, line by line.
const QUERY = new URLSearchParams(location.search).get("q")?.toLowerCase().trim();

function show(item) {
  const page = decodeURI(new URL(item.querySelector("a").href).pathname), root = new URL("./", location.href).pathname;
  const group = GROUPS[groupOf(page.slice(root.length).replace(/\.html$/, ""))][0], list = item.parentElement;
  if (list.dataset.group !== group) { // results come in this order (scorer.js)
    const heading = document.createElement("li");
    heading.className = "group";
    heading.textContent = list.dataset.group = group;
    list.insertBefore(heading, item);
  }
  excerpt(item);
}

function excerpt(item) {
  const page = item.querySelector("a").href.replace(/\.html[^/]*$/, "");
  const name = Object.keys(TEXTS).find((name) => page.endsWith("/" + name));
  if (!item.matches(".kind-text") || !name) return;
  const words = QUERY.split(/[^\w-]+/), lines = TEXTS[name].split("\n");
  const holds = (line) => words.filter((word) => line.toLowerCase().includes(word)).length;
  const best = lines.reduce((best, line, i) => (holds(line) > holds(lines[best]) ? i : best), 0);
  addContext(item, lines.slice(best, best + 3).join(" "));
}

function addContext(item, text) {
  const shown = item.appendChild(document.createElement("p"));
  shown.className = "context";
  shown.textContent = text.trim().slice(0, 240);
}

function searchSources(results) {
  const found = [];
  for (const [name, text] of Object.entries(SOURCES)) {
    const lines = text.split("\n"), first = lines.findIndex((line) => line.toLowerCase().includes(QUERY));
    if (first >= 0) found.push([name, first + 1, lines[first]]);
  }
  if (!found.length) return;
  results.appendChild(document.createElement("h2")).textContent = "In the sources";
  const list = results.appendChild(document.createElement("ul"));
  list.className = "search sources";
  for (const [name, number, line] of found) {
    const item = list.appendChild(document.createElement("li")), link = item.appendChild(document.createElement("a"));
    link.href = `${name}.html#L${number}`;
    link.textContent = `${name}, line ${number}`;
    addContext(item, line);
  }
}

addEventListener("DOMContentLoaded", () => {
  const results = document.getElementById("search-results");
  if (!results || !QUERY) return;
  const texts = document.head.appendChild(document.createElement("script"));
  texts.src = "_static/texts.js";
  texts.onload = () => {
    results.querySelectorAll("ul.search li").forEach(show);
    new MutationObserver((changes) => changes.forEach(({ addedNodes }) => addedNodes.forEach(
      (node) => node.tagName === "LI" && !node.matches(".sources *, .group") && show(node)))).observe(results, { childList: true, subtree: true });
    searchSources(results);
  };
});
