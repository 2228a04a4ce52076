/* What the pictures that move share: the recording in their page, and code whose executing lines are marked. */
"use strict";
const $ = (id) => document.getElementById(id);
const data = JSON.parse($("data").textContent);
const still = matchMedia("(prefers-reduced-motion: reduce)"), small = matchMedia("(max-width: 40rem)");

/* Shows parts of a source file, with the file's name above. */
function showCode(parts) {
    $("file").textContent = parts[0].file.split("/").at(-1);
    $("code").replaceChildren(...parts.flatMap((part) => [...part.text.split("\n"), ""])
        .map((text) => Object.assign(document.createElement("span"), { textContent: text })));
}

/* Marks the lines that one of the patterns matches, and scrolls to the first. */
function markCode(patterns) {
    let first = true;
    for (const line of $("code").children) {
        const on = patterns.some((pattern) => pattern.test(line.textContent));
        line.className = on ? "on" : "";
        line.toggleAttribute("aria-current", on);
        if (on && first) $("code").scrollTop = line.offsetTop - $("code").offsetTop - 60;
        first &&= !on;
    }
}
