/* schedule.js - the ring's schedule as a table that the reader fills, judged by running it: four workers send these messages. */
"use strict";
const $ = (id) => document.getElementById(id), N = 4, STEPS = 2 * (N - 1), ALL = Array.from({ length: N }, (_, i) => i);

/* A rank. A block is a list: how many times it has each rank's numbers. It sends what its column says, and takes what comes. */
function rankMain() {
    const waiting = new Map(), arrived = new Map();
    const receive = (key) => arrived.has(key) ? arrived.get(key) : new Promise((wake) => waiting.set(key, wake));
    onmessage = async ({ data: { rank, table, ports } }) => {
        const own = table.map((_, block) => block).slice(0, ports.length).map(() => ports.map((_, r) => r === rank ? 1 : 0));
        ports.forEach((port, from) => { if (port) port.onmessage = ({ data }) => { const key = `${data.step} ${from}`; waiting.get(key)?.(data); arrived.set(key, data); }; });
        for (let step = 0; step < table.length; step++) {
            const [block, to] = table[step][rank];
            ports[to].postMessage({ step, block, numbers: own[block] });
            for (let from = 0; from < ports.length; from++) {
                if (from === rank || table[step][from][1] !== rank) continue;
                const came = await receive(`${step} ${from}`);
                own[came.block] = step < table.length / 2 ? own[came.block].map((count, r) => count + came.numbers[r]) : came.numbers;
            }
            postMessage({ step, own: own.map((numbers) => [...numbers]) });
        }
    };
}

/* ---- the table ---- */
const select = (name, choices, value) => {
    const element = Object.assign(document.createElement("select"), { ariaLabel: name, onchange: show });
    element.append(...choices.map(([text, is]) => Object.assign(document.createElement("option"), { textContent: text, value: is })));
    element.value = value;
    return element;
};
for (let step = 0; step < STEPS; step++) {
    const row = $("table").insertRow();
    row.append(Object.assign(document.createElement("th"), { textContent: `${step}: ${step < N - 1 ? "adds" : "replaces"}` }));
    for (const rank of ALL) {
        const blocks = [["?", ""], ...ALL.map((block) => [`block ${block}`, block])], others = ALL.filter((other) => other !== rank).map((other) => [`to ${other}`, other]);
        row.insertCell().append(select(`step ${step}: rank ${rank} sends`, blocks, step === 0 ? (rank + N - 1) % N : ""), select(`step ${step}: rank ${rank} sends it to`, others, (rank + 1) % N));
    }
}
const table = () => [...$("table").rows].map((row) => [...row.querySelectorAll("td")].map((cell) => [...cell.children].map((one) => one.value === "" ? -1 : +one.value)));
function show() {
    const open = table().flat().filter(([block]) => block < 0).length;
    $("go").disabled = open > 0;
    $("now").textContent = open > 0 ? `${open} messages are still open.` : "Every message is chosen: run them.";
    draw(ALL.map((rank) => ALL.map(() => ALL.map((r) => r === rank ? 1 : 0))));
}

/* Each rank's blocks: whose numbers are in each, and how often. */
function draw(states) {
    $("states").replaceChildren(...states.map((own, rank) => {
        const card = Object.assign(document.createElement("div"), { className: "rank" });
        card.append(Object.assign(document.createElement("b"), { textContent: `rank ${rank}`, style: `color: var(--rank-${rank}-ink)` }), ...own.map((numbers, block) => {
            const line = Object.assign(document.createElement("p"), { className: numbers.every((count) => count === 1) ? "whole" : "", textContent: `block ${block} ` });
            line.append(...numbers.map((count, r) => Object.assign(document.createElement("i"), { textContent: count > 1 ? `${r}×${count}` : r,
                className: count === 1 ? "" : count ? "twice" : "none", style: `background: var(--rank-${r}); color: var(--rank-${r}-on)` })));
            return line;
        }));
        return card;
    }));
}

/* ---- running and judging it ---- */
async function run() {
    const steps = table(), ports = ALL.map(() => Array(N).fill(null)), source = URL.createObjectURL(new Blob([`(${rankMain})()`], { type: "text/javascript" }));
    for (const a of ALL) for (const b of ALL.slice(a + 1)) ({ port1: ports[a][b], port2: ports[b][a] } = new MessageChannel());
    $("go").disabled = true;
    const states = Array.from({ length: STEPS }, () => Array(N)), workers = [];
    await new Promise((done) => ALL.forEach((rank) => {
        const worker = new Worker(source);
        workers.push(worker);
        worker.onmessage = ({ data }) => { states[data.step][rank] = data.own; if (states.every((all) => ALL.every((r) => all[r]))) done(); };
        worker.postMessage({ rank, table: steps, ports: ports[rank] }, ports[rank].filter(Boolean));
    }));
    workers.forEach((worker) => worker.terminate());
    URL.revokeObjectURL(source);
    for (const [step, all] of states.entries()) { // as a film
        draw(all);
        $("now").textContent = `After step ${step}.`;
        await new Promise((next) => setTimeout(next, matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : 700));
    }
    $("now").textContent = judge(states.at(-1), steps);
    $("go").disabled = false;
}
function judge(end, steps) {
    for (const rank of ALL) for (const block of ALL) for (const whose of ALL) {
        const count = end[rank][block][whose];
        if (count !== 1) return `✕ At the end block ${block} on rank ${rank} ${count ? `has rank ${whose}'s numbers ${count} times` : `lacks rank ${whose}'s numbers`}.`;
    }
    const busy = Math.max(...steps.flatMap((row) => ALL.map((rank) => row.filter(([, to]) => to === rank).length)));
    return busy === 1 ? "✓ All ranks have the sum, and in each step each rank receives one block: that is the ring's cost."
        : `✓ All ranks have the sum. But a rank receives ${busy} blocks in one step, so its link is as slow as theirs together.`;
}
$("go").onclick = run;
show();
