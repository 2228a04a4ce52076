/* What the pictures that move share: the recording in their page, and code whose executing lines are marked. */
"use strict";
const $ = (id) => document.getElementById(id);
const data = JSON.parse($("data").textContent);
const still = matchMedia("(prefers-reduced-motion: reduce)"), small = matchMedia("(max-width: 40rem)");

/* What the address says after #; on a slide (teach/slides.py), what the slide says. */
const root = document.documentElement, slideState = root.dataset.state;
const linked = () => new URLSearchParams(slideState ?? location.hash.slice(1));
const onSlide = () => root.classList.contains("on-slide"); // a frame of a slide, and not the whole window
if (slideState !== undefined) {
    addEventListener("keydown", (e) => { // these keys are the slides', unless the picture has used them
        if (e.defaultPrevented || e.ctrlKey || e.altKey || e.metaKey || !["PageDown", "PageUp", "Escape", "f", "n", "w"].includes(e.key)) return;
        e.preventDefault();
        parent.postMessage({ key: e.key }, "*");
    });
    addEventListener("message", (e) => {
        if (typeof e.data.full === "boolean") {
            root.classList.toggle("on-slide", !e.data.full);
            dispatchEvent(new Event("resize"));
        }
    });
}

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
