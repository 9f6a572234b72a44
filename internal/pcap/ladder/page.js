"use strict";
// Finds, filters and unfolds rows. The page is whole without it.
(() => {
  const by = id => document.getElementById(id);
  const rows = Array.from(document.querySelectorAll(".row"));
  const folds = Array.from(document.querySelectorAll(".fold"));
  const flows = Array.from(document.querySelectorAll(".flow"));
  const find = by("find"), only = by("only"), from = by("from"), to = by("to"), opcode = by("opcode"), qp = by("qp");
  const count = by("count");
  const text = element => element.querySelector("summary").textContent.toLowerCase();
  const packets = rows.map(row => {
    const fold = row.closest(".fold");
    return {
      row, fold, text: text(row) + (fold ? " " + text(fold) : ""), op: row.dataset.op, notable: row.classList.contains("notable"),
      qps: row.closest(".flow").dataset.qps, time: Number(row.querySelector(".time").textContent),
    };
  });

  const filter = () => {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    const least = from.value === "" ? -Infinity : Number(from.value), most = to.value === "" ? Infinity : Number(to.value);
    const wanted = p => [p.notable || !only.checked, p.time >= least, most >= p.time, opcode.value === "" || p.op === opcode.value,
      qp.value === "" || p.qps.includes(qp.value), words.every(word => p.text.includes(word))].every(Boolean);
    let shown = 0;
    const folded = new Map();
    for (const p of packets) {
      const yes = wanted(p);
      p.row.hidden = !yes;
      shown += yes ? 1 : 0;
      if (p.fold) {
        folded.set(p.fold, folded.get(p.fold) || yes);
      }
    }
    folds.forEach(fold => { fold.hidden = !folded.get(fold); });
    flows.forEach(flow => { flow.hidden = qp.value !== "" ? !flow.dataset.qps.includes(qp.value) : false; });
    count.textContent = shown !== packets.length ? shown + " of " + packets.length + " packets shown" : "";
  };

  // show opens what holds a row, and goes there.
  const show = row => {
    const fold = row.closest(".fold");
    if (fold) {
      fold.open = true;
    }
    row.querySelector("summary").focus();
    row.scrollIntoView({ block: "center" });
  };

  // go moves to the next notable row in a direction, round the end.
  const go = step => {
    const some = rows.filter(row => row.classList.contains("notable") ? !row.hidden : false);
    if (some.length === 0) {
      count.textContent = "nothing notable";
      return;
    }
    const now = some.indexOf(document.activeElement.closest(".row"));
    const start = now === -1 ? (step === 1 ? -1 : 0) : now;
    show(some[(start + step + some.length) % some.length]);
  };

  // follow shows the packet to which a link leads, also if a filter hides it.
  const follow = () => {
    const row = by(location.hash.slice(1));
    if (row ? row.classList.contains("row") : false) {
      if (row.hidden) {
        find.form.reset();
        filter();
      }
      row.open = true;
      show(row);
    }
  };

  find.form.addEventListener("input", filter);
  find.form.addEventListener("change", filter);
  find.form.addEventListener("submit", event => event.preventDefault());
  by("next").addEventListener("click", () => go(1));
  by("previous").addEventListener("click", () => go(-1));
  window.addEventListener("hashchange", follow);
  document.addEventListener("keydown", event => {
    if (find.form.contains(event.target) ? event.target.tagName !== "BUTTON" : false) {
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    if (event.key === "n") {
      go(1);
    } else if (event.key === "p") {
      go(-1);
    } else if (event.key === "/") {
      event.preventDefault();
      find.focus();
    }
  });
  follow();
})();
