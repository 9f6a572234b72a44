"use strict";
// Draws the timeline and the charts. All of them show the same span of time.
(() => {
  const by = id => document.getElementById(id);
  const root = by("charts");
  if (!root) {
    return;
  }
  const data = JSON.parse(by("plots").textContent);
  const budget = 4000, enough = 3, few = 100, least = 1000, rowHeight = 18; // marks of one kind, packets, work requests, nanoseconds, pixels
  const ordinary = new Set(["sent", "ack", "response"]);
  const names = { sent: "sent", ack: "ACK", response: "response", again: "sent again", rnr: "RNR NAK", nak: "NAK", cnp: "CNP", hit: "marked, delayed or changed by a rule", lost: "lost by a rule" };
  const whole = Math.max(data.span * 1.02, least);
  const view = { from: -whole * 0.01, to: whole };
  const lane = by("lane"), chosen = by("chosen");
  let mark = null; // of the packet that was chosen

  // reader decodes numbers of variable length, some marks at a time.
  const reader = (packed, spans) => {
    const text = atob(packed.points), n = packed.count;
    const out = { n: n, at: new Float64Array(n), psn: new Float64Array(n), number: new Float64Array(n) };
    out.until = spans ? new Float64Array(n) : out.at;
    out.most = spans ? new Float64Array(n) : out.psn;
    let i = 0;
    const positive = () => {
      for (let x = 0, m = 1; ; m *= 128) {
        const c = text.charCodeAt(i++);
        x += (c & 127) * m;
        if (c < 128) {
          return x;
        }
      }
    };
    const signed = () => {
      const x = positive();
      return x % 2 === 1 ? -(x + 1) / 2 : x / 2;
    };
    let at = 0, psn = 0, number = 0, k = 0;
    // read returns true at the end.
    const read = some => {
      for (const end = Math.min(n, k + some); k < end; k++) {
        out.at[k] = at += signed();
        out.psn[k] = psn += signed();
        out.number[k] = number += signed();
        if (spans) {
          out.until[k] = at + positive();
          out.most[k] = psn + positive();
        }
      }
      return k === n;
    };
    return { out: out, read: read };
  };

  // Long levels of detail are decoded between the reader's actions, in slices of some milliseconds.
  const jobs = [], slice = 8, portion = 4096; // milliseconds, marks
  let drawn = 0;
  const work = () => {
    const until = performance.now() + slice;
    let done = false;
    while (jobs.length > 0 && performance.now() < until) {
      const job = jobs[0];
      job.reader = job.reader || reader(job.packed, job.i !== 0);
      if (job.reader.read(portion)) {
        job.kind.decoded[job.i] = job.reader.out;
        jobs.splice(jobs.indexOf(job), 1);
        done = true;
      }
    }
    if (jobs.length === 0) {
      root.dataset.decoded = "all";
      draw();
    } else {
      if (done && performance.now() - drawn > 20 * slice) {
        draw();
        drawn = performance.now();
      }
      setTimeout(work, 0);
    }
  };

  // level returns a level of detail of one kind, 0 the finest; null: it is not decoded yet.
  const level = (kind, i, now) => {
    const packed = i === 0 ? kind : kind.levels[i - 1];
    kind.decoded = kind.decoded || [];
    kind.asked = kind.asked || [];
    if (!kind.decoded[i] && (now || packed.count <= portion)) {
      const all = reader(packed, i !== 0);
      all.read(Infinity);
      kind.decoded[i] = all.out;
    } else if (!kind.asked[i] && !kind.decoded[i]) {
      kind.asked[i] = true;
      jobs.unshift({ kind: kind, i: i, packed: packed });
      if (jobs.length === 1) {
        setTimeout(work, 0);
      }
    }
    return kind.decoded[i] || null;
  };

  // before returns how many times of a list are below t.
  const before = (list, t) => {
    let lo = 0, hi = list.length;
    while (lo < hi) {
      const mid = (lo + hi) >> 1;
      if (list[mid] < t) {
        lo = mid + 1;
      } else {
        hi = mid;
      }
    }
    return lo;
  };

  // visible returns the marks of a kind in the view, at the finest level that is not too many, of
  // those that are decoded.
  const visible = (kind, most) => {
    let best = null;
    for (let i = (kind.levels || []).length; ; i--) {
      const marks = level(kind, i, best === null);
      if (marks === null) {
        return best;
      }
      const lo = Math.max(before(marks.at, view.from) - 1, 0), hi = before(marks.at, view.to);
      best = { marks: marks, lo: lo, hi: hi };
      if (i === 0 || (hi - lo) * 16 > most) {
        return best;
      }
    }
  };

  let colors = {};
  const readColors = () => {
    const style = getComputedStyle(root);
    for (const name of ["ink", "dim", "line", "life", "card", "wire", "again", "nak", "bad", "clean", "violation", "focus", "hit", "work", "failed", "open"]) {
      colors[name] = style.getPropertyValue("--" + name).trim();
    }
    Object.assign(colors, { sent: colors.wire, ack: colors.life, response: colors.clean, rnr: colors.nak, cnp: colors.focus, lost: colors.bad });
  };

  const seconds = ns => {
    const span = view.to - view.from, s = ns / 1e9;
    return s.toFixed(span > 1e10 ? 1 : span > 1e8 ? 3 : span > 1e6 ? 5 : span > 1e4 ? 7 : 9).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
  };
  const duration = ns => ns < 1e3 ? ns + " ns" : ns < 1e6 ? (ns / 1e3).toPrecision(3) + " µs" : ns < 1e9 ? (ns / 1e6).toPrecision(3) + " ms" : (ns / 1e9).toPrecision(3) + " s";
  const hex = (l, psn) => "0x" + (((l.base + psn) % 16777216 + 16777216) % 16777216).toString(16).padStart(6, "0");
  const step = (span, most) => {
    const raw = span / most, power = Math.pow(10, Math.floor(Math.log10(raw)));
    return [1, 2, 5, 10].map(x => x * power).find(x => x >= raw);
  };

  // Work requests: a line from when the device took it to its completion, which is a thicker mark.
  const requests = l => l.work ? l.work.requests || [] : [];
  const ended = r => r.status ? r.done : whole;
  const workColor = r => r.failed ? colors.failed : r.status ? colors.work : colors.open;
  const place = (l, p) => ((p - l.base + 8388608) % 16777216 + 16777216) % 16777216 - 8388608; // of a PSN in the chart
  const workWords = r => "wr_id " + r.id + ": " + r.op + (r.bytes ? ", " + r.bytes + (r.bytes === 1 ? " byte" : " bytes") : "") +
    (r.receive ? "" : ", taken by the device after " + (r.posted / 1e9).toFixed(9) + " s") +
    (r.status ? ", completed after " + (r.done / 1e9).toFixed(9) + " s with " + r.status : ", no completion") +
    (r.psns ? ", PSN 0x" + r.psns[0].toString(16).padStart(6, "0") + (r.psns[1] !== r.psns[0] ? " to 0x" + r.psns[1].toString(16).padStart(6, "0") : "") : "") + ". ";

  // begin clears a canvas, and returns what is needed to draw on it.
  const begin = (canvas, height, gutter) => {
    const width = canvas.parentElement.clientWidth, ratio = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.height = height + "px";
    }
    const g = canvas.getContext("2d");
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, width, height);
    g.font = "11px system-ui, sans-serif";
    const left = Math.min(gutter, width / 3), right = width - 6;
    const box = { g: g, width: width, height: height, left: left, right: right, top: 16, bottom: height - 18 };
    box.x = t => left + (t - view.from) / (view.to - view.from) * (right - left);
    canvas.box = box;
    return box;
  };

  // times draws the axis of time.
  const times = box => {
    const g = box.g, every = step(view.to - view.from, Math.max((box.right - box.left) / 90, 1));
    g.textAlign = "center";
    for (let t = Math.ceil(view.from / every) * every; t <= view.to; t += every) {
      g.fillStyle = colors.line;
      g.fillRect(Math.round(box.x(t)), box.top, 1, box.bottom - box.top);
      g.fillStyle = colors.dim;
      g.fillText(seconds(t) + " s", Math.min(Math.max(box.x(t), box.left + 20), box.right - 20), box.height - 5);
    }
  };

  const clip = box => {
    box.g.save();
    box.g.beginPath();
    box.g.rect(box.left, 0, box.right - box.left, box.height);
    box.g.clip();
  };

  // rows are the lines of the timeline: processes with their hosts, and their queue pairs.
  const rows = [];
  data.lanes.forEach((l, i) => {
    l.events = data.events.filter(e => e.qp && e.qp === l.qp);
    const of = [l.host, l.process].filter(Boolean).join(", ") || "process not known";
    if (rows.length === 0 || rows[rows.length - 1].of !== of) {
      rows.push({ of: of, head: true });
    }
    rows.push({ of: of, lane: i });
  });

  // fitting cuts a text at its end.
  const fitting = (g, text, width) => {
    while (text.length > 4 && g.measureText(text).width > width) {
      text = text.slice(0, -2).replace(/…$/, "") + "…";
    }
    return text;
  };

  // label writes a text that hides what is below it.
  const label = (g, text, x, y) => {
    const ink = g.fillStyle;
    g.fillStyle = colors.card;
    g.fillRect(x - 1, y - 8, g.measureText(text).width + 2, 10);
    g.fillStyle = ink;
    g.fillText(text, x, y);
  };

  const timeline = by("timeline");
  const drawTimeline = () => {
    const box = begin(timeline, 16 + rowHeight * (rows.length + 1) + 18, 190), g = box.g;
    times(box);
    rows.forEach((row, i) => {
      const y = box.top + rowHeight * (i + 1);
      g.textAlign = "left";
      g.fillStyle = row.head ? colors.ink : colors.dim;
      if (row.head) {
        label(g, fitting(g, row.of, box.right - 8), 4, y + 13);
        return;
      }
      const l = data.lanes[row.lane];
      if (row.lane === lane.selectedIndex) {
        g.fillStyle = colors.focus;
        g.fillRect(0, y + 1, 3, rowHeight - 2);
        g.fillStyle = colors.ink;
      }
      const part = l.work && l.work.stride > 1 ? " 1/" + l.work.stride : "";
      g.fillText(fitting(g, l.qp + " → " + (l.host ? l.peer.replace(l.host + " ", "") : l.peer), box.left - 14 - g.measureText(part).width) + part, 10, y + 13);
      g.fillStyle = colors.line;
      g.fillRect(box.left, y + rowHeight - 1, box.right - box.left, 1);
      clip(box);
      bars(box, l.depth, 3, (x, wide) => {
        g.globalAlpha = 0.25;
        g.fillStyle = colors.wire;
        g.fillRect(x, y + 3, wide, rowHeight - 6);
        g.globalAlpha = 1;
      });
      for (const kind of l.kinds) {
        const seen = visible(kind, 1500), high = !ordinary.has(kind.kind);
        g.fillStyle = colors[kind.kind];
        let last = -1;
        for (let k = seen.lo; k < seen.hi; k++) {
          const x = Math.floor(box.x(seen.marks.at[k])), to = Math.max(box.x(seen.marks.until[k]), x + (high ? 2 : 1));
          if (to > last) {
            g.fillRect(Math.max(x, last), y + (high ? 1 : kind.kind === "sent" ? 9 : 4), to - Math.max(x, last), high ? rowHeight - 2 : 5);
            last = to;
          }
        }
      }
      // Those that failed come last, on top.
      for (const failed of [false, true]) {
        let last = -1;
        for (const r of requests(l)) {
          const x = Math.floor(box.x(r.posted)), to = Math.ceil(box.x(ended(r)));
          if (Boolean(r.failed) === failed && ended(r) >= view.from && r.posted <= view.to && (failed || to > last)) {
            g.fillStyle = workColor(r);
            g.fillRect(x, y + rowHeight - 3, Math.max(to - x, 1), 2);
            g.fillRect(Math.max(to - 1, x), y + rowHeight - 6, 2, 5);
            last = to;
          }
        }
      }
      // Events of this queue pair are triangles that point down.
      for (const e of l.events) {
        g.fillStyle = e.bad ? colors.violation : colors.ink;
        g.beginPath();
        g.moveTo(box.x(e.at) - 5, y + 1);
        g.lineTo(box.x(e.at) + 5, y + 1);
        g.lineTo(box.x(e.at), y + 10);
        g.fill();
      }
      // States have their names where there is room up to the next one.
      (l.states || []).forEach((s, k) => {
        const x = box.x(s.at), next = l.states[k + 1], room = (next ? box.x(next.at) : box.right) - x - 6;
        g.fillStyle = s.name === "ERR" ? colors.violation : colors.ink;
        g.fillRect(x, y, 1, rowHeight);
        if (room > g.measureText(s.name).width) {
          g.textAlign = "left";
          label(g, s.name, x + 3, y + 9);
        }
      });
      g.restore();
    });
    g.fillStyle = colors.dim;
    g.textAlign = "left";
    g.fillText(fitting(g, "events of the run", box.left - 8), 4, box.top + 13);
    clip(box);
    data.events.forEach(e => {
      g.fillStyle = e.bad ? colors.violation : colors.dim;
      g.fillRect(box.x(e.at), box.top, 1, box.bottom - box.top);
      g.beginPath();
      g.arc(box.x(e.at), box.top + 9, 5, 0, 7);
      g.fill();
    });
    g.restore();
  };

  // bars calls a function for each step of a series in the view in which something happened.
  const bars = (box, series, most, each) => {
    for (const bin of series.bins) {
      const from = series.start + bin[0] * series.width, to = from + series.width;
      if (to >= view.from && from <= view.to && bin[most] > 0) {
        each(box.x(from), Math.max(box.x(to) - box.x(from), 1), bin);
      }
    }
  };

  const psn = by("psn");
  const asked = new Set(["sent", "again", "hit", "lost"]), answered = new Set(["ack", "response"]);
  // drawWindow fills what is between the highest PSN sent and the highest one acknowledged.
  const drawWindow = (box, l, seen) => {
    by("window").textContent = "";
    if (l.service === "UD" || l.service === "UC") {
      return; // nothing is acknowledged
    }
    const steps = [];
    let rough = false;
    for (const s of seen.filter(s => asked.has(s.kind.kind) || answered.has(s.kind.kind))) {
      const up = asked.has(s.kind.kind), marks = s.part.marks;
      rough = rough || marks.until !== marks.at;
      for (let k = s.part.lo; k < s.part.hi; k++) {
        steps.push([up ? marks.at[k] : marks.until[k], up, marks.most[k]]);
      }
    }
    steps.sort((a, b) => a[0] - b[0] || b[1] - a[1]);
    const g = box.g;
    let sent = -Infinity, got = Infinity, last = 0, most = 0;
    g.fillStyle = colors.wire;
    g.globalAlpha = 0.15;
    const fill = until => {
      if (sent > got) {
        g.fillRect(box.x(last), box.y(sent), Math.max(box.x(until) - box.x(last), 0.5), box.y(got) - box.y(sent));
      }
    };
    for (const [at, up, p] of steps) {
      fill(at);
      if (got === Infinity) { // before the first packet in the view
        got = up ? p - 1 : p;
      }
      if (up) {
        sent = Math.max(sent, p);
      } else {
        got = Math.max(got, p);
      }
      most = Math.max(most, sent - got);
      last = at;
    }
    fill(Math.min(view.to, whole));
    g.globalAlpha = 1;
    if (most > 0) {
      by("window").textContent = (rough ? "about " : "at most ") + most + (most === 1 ? " packet" : " packets") + " under way";
    }
  };
  const drawPSN = l => {
    const box = begin(psn, Math.max(300, Math.min(window.innerHeight * 0.5, 460)), 74), g = box.g;
    const seen = l.kinds.map(kind => ({ kind: kind, part: visible(kind, budget) }));
    let low = Infinity, high = -Infinity;
    for (const s of seen) {
      if (s.kind.kind !== "cnp") {
        for (let k = s.part.lo; k < s.part.hi; k++) {
          low = Math.min(low, s.part.marks.psn[k]);
          high = Math.max(high, s.part.marks.most[k]);
        }
      }
    }
    if (low > high) {
      low = 0;
      high = 1;
    }
    const room = Math.max((high - low) * 0.05, 1);
    low -= room;
    high += room;
    box.y = p => box.bottom - (p - low) / (high - low) * (box.bottom - box.top);
    times(box);
    const every = Math.max(step(high - low, 8), 1);
    g.textAlign = "right";
    for (let p = Math.ceil(low / every) * every; p <= high; p += every) {
      g.fillStyle = colors.line;
      g.fillRect(box.left, Math.round(box.y(p)), box.right - box.left, 1);
      g.fillStyle = colors.dim;
      g.fillText(hex(l, p), box.left - 5, box.y(p) + 4);
    }
    clip(box);
    drawWindow(box, l, seen);
    // Work requests lie below the packets, if there are not too many; those that failed always.
    const works = requests(l).filter(r => r.psns && ended(r) >= view.from && r.posted <= view.to);
    const some = works.length <= few ? works : works.filter(r => r.failed).slice(0, few);
    box.work = some.map(r => ({ r: r, x: box.x(r.posted), y: box.y(place(l, r.psns[0])), x2: box.x(ended(r)), y2: box.y(place(l, r.psns[1])) }));
    for (const w of box.work) {
      g.strokeStyle = g.fillStyle = workColor(w.r);
      g.lineWidth = 1;
      g.beginPath();
      g.moveTo(w.x, w.y);
      g.lineTo(w.x2, w.y2);
      g.stroke();
      g.beginPath(); // the beginning points to the right
      g.moveTo(w.x - 4, w.y - 5);
      g.lineTo(w.x + 4, w.y);
      g.lineTo(w.x - 4, w.y + 5);
      g.fill();
      if (w.r.status) {
        g.fillRect(w.x2 - 1, w.y2 - 5, 3, 10);
      }
    }
    box.drawn = [];
    for (const s of seen) {
      const marks = s.part.marks, name = s.kind.kind, big = !ordinary.has(name);
      g.fillStyle = g.strokeStyle = colors[name];
      g.lineWidth = big ? 2.5 : 1.5;
      g.beginPath();
      for (let k = s.part.lo; k < s.part.hi; k++) {
        const x = box.x(marks.at[k]), y = box.y(marks.psn[k]), x2 = box.x(marks.until[k]), y2 = box.y(marks.most[k]);
        if (x2 - x + y - y2 > 3) {
          g.moveTo(x, y);
          g.lineTo(Math.max(x2, x + 1), y2);
        } else {
          const size = big ? 5 : 3;
          g.fillRect(x - size / 2, y - size / 2, size, size);
        }
      }
      g.stroke();
      box.drawn.push(s);
    }
    if (mark) {
      g.strokeStyle = colors.focus;
      g.lineWidth = 2;
      g.beginPath();
      g.arc(box.x(mark.at), box.y(mark.psn), 7, 0, 7);
      g.stroke();
    }
    g.restore();
  };

  // drawSeries draws one value over time.
  const drawSeries = (canvas, series, value, words) => {
    const box = begin(canvas, 150, 74), g = box.g;
    let most = 0;
    bars(box, series, 1, (x, wide, bin) => { most = Math.max(most, value(bin, series)[0]); });
    times(box);
    most = most || 1;
    g.textAlign = "right";
    g.fillStyle = colors.dim;
    for (const part of [0, 0.5, 1]) {
      const y = box.bottom - part * (box.bottom - box.top);
      g.fillText(words(most * part), box.left - 5, y + 4);
    }
    clip(box);
    bars(box, series, 1, (x, wide, bin) => {
      value(bin, series).forEach((v, i) => {
        const y = box.bottom - v / most * (box.bottom - box.top);
        g.globalAlpha = i === 0 ? 0.45 : 1;
        g.fillStyle = colors.wire;
        g.fillRect(x, y, wide, box.bottom - y);
      });
    });
    g.globalAlpha = 1;
    g.restore();
  };

  const drawHistogram = l => {
    const box = begin(by("histogram"), 150, 74), g = box.g, took = l.took;
    by("took-words").textContent = took ? took.count + " messages: 50 % within " + duration(took.p50) + ", 90 % within " + duration(took.p90) +
      ", 99 % within " + duration(took.p99) + ", the longest " + duration(took.most) : "no message was acknowledged";
    if (!took) {
      return;
    }
    const low = Math.log2(took.histogram[0][0] + 1), high = Math.log2(took.histogram[took.histogram.length - 1][1] + 1);
    const x = v => box.left + (Math.log2(v + 1) - low) / (high - low) * (box.right - box.left);
    const most = Math.max(...took.histogram.map(b => b[2]));
    g.fillStyle = colors.wire;
    for (const b of took.histogram) {
      const tall = Math.max(b[2] / most * (box.bottom - box.top), 1);
      g.fillRect(x(b[0]), box.bottom - tall, Math.max(x(b[1]) - x(b[0]) - 1, 1), tall);
    }
    g.fillStyle = colors.dim;
    g.textAlign = "right";
    g.fillText(String(most), box.left - 5, box.top + 4);
    g.textAlign = "center";
    for (let i = 0; i <= 4; i++) {
      const v = Math.pow(2, low + (high - low) * i / 4) - 1;
      g.fillText(duration(Math.round(v)), Math.min(Math.max(x(v), box.left + 16), box.right - 20), box.height - 5);
    }
  };

  const rate = n => n >= 1e9 ? (n / 1e9).toPrecision(3) + " Gb/s" : n >= 1e6 ? (n / 1e6).toPrecision(3) + " Mb/s" : (n / 1e3).toFixed(0) + " kb/s";
  const draw = () => {
    drawTimeline();
    const l = data.lanes[lane.selectedIndex];
    drawPSN(l);
    const sent = l.kinds.reduce((sum, kind) => sum + (asked.has(kind.kind) ? kind.seen : 0), 0);
    by("series").hidden = sent < enough && !l.work;
    by("too-few").hidden = !by("series").hidden;
    if (by("series").hidden) {
      root.dataset.from = view.from;
      root.dataset.to = view.to;
      return;
    }
    drawHistogram(l);
    drawSeries(by("rate"), l.bytes, (bin, s) => [bin[2] * 8e9 / s.width], rate);
    drawSeries(by("took"), l.latency, bin => [bin[3], bin[2] / bin[1]], duration);
    drawSeries(by("depth"), l.depth, bin => [bin[3]], n => n === Math.round(n) ? String(n) : "");
    root.dataset.from = view.from;
    root.dataset.to = view.to;
  };

  // look shows another span of time.
  const look = (from, to) => {
    const span = Math.min(Math.max(to - from, least), whole * 1.01);
    const start = Math.min(Math.max(from, -whole * 0.01), whole - span);
    view.from = start;
    view.to = start + span;
    draw();
  };
  const zoom = (factor, around) => {
    const at = around === undefined ? (view.from + view.to) / 2 : around;
    look(at - (at - view.from) * factor, at + (view.to - at) * factor);
  };
  const pan = part => look(view.from + (view.to - view.from) * part, view.to + (view.to - view.from) * part);
  const all = () => look(-whole * 0.01, whole);
  // fit shows the time in which the queue pair sent or was answered.
  const fit = () => {
    const l = data.lanes[lane.selectedIndex], lists = [l.bytes, l.latency].filter(s => s.bins.length > 0);
    if (lists.length > 0) {
      const works = requests(l);
      const from = Math.min(...lists.map(s => s.start + s.bins[0][0] * s.width), ...works.slice(0, 1).map(r => r.posted));
      const to = Math.max(...lists.map(s => s.start + (s.bins[s.bins.length - 1][0] + 1) * s.width), ...works.slice(-1).map(r => r.status ? r.done : r.posted));
      look(from - (to - from) * 0.02, to + (to - from) * 0.02);
    }
  };

  // choose selects a packet: it is marked, named, and shown below if it is there.
  const choose = (l, kind, at, p, number) => {
    mark = { at: at, psn: p };
    chosen.textContent = "Packet " + number + ", after " + (at / 1e9).toFixed(9) + " s, " + (kind === "cnp" ? "" : "PSN " + hex(l, p) + ", ") + names[kind] + ". ";
    const row = by("packet-" + number), link = document.createElement("a");
    link.href = "#" + (row ? "packet-" + number : "flow-" + l.section);
    link.textContent = row ? "Show it" : "It is not among the packets below: show its flow";
    chosen.append(link);
    chosen.dataset.packet = number;
    delete chosen.dataset.work;
    draw();
  };

  // packetOf finds the first packet of a work request; null: it was not captured, or is not kept.
  const packetOf = (l, r) => {
    let best = null;
    for (const kind of r.psns ? l.kinds.filter(k => ["sent", "again", "lost"].includes(k.kind)) : []) {
      const marks = level(kind, 0, true), from = place(l, r.psns[0]), to = place(l, r.psns[1]);
      for (let k = before(marks.at, r.posted); k < marks.n && marks.at[k] <= ended(r); k++) {
        if (marks.psn[k] >= from && marks.psn[k] <= to && (best === null || marks.at[k] < best.at)) {
          best = { kind: kind.kind, at: marks.at[k], psn: marks.psn[k], number: marks.number[k] };
          break;
        }
      }
    }
    return best;
  };

  // chooseWork selects a work request, with its first packet.
  const chooseWork = (l, r) => {
    const packet = packetOf(l, r);
    if (packet) {
      choose(l, packet.kind, packet.at, packet.psn, packet.number);
      chosen.prepend(workWords(r));
    } else {
      mark = null;
      chosen.textContent = workWords(r) + (r.receive ? "" : "None of its packets is in the chart. ");
      draw();
    }
    chosen.dataset.work = r.id;
  };

  // A sentence may lead to a work request.
  document.querySelectorAll("a[data-work]").forEach(a => a.addEventListener("click", () => {
    const [qp, id] = a.dataset.work.split(" ");
    for (const l of data.lanes.filter(l => l.qp === qp)) {
      const all = requests(l).filter(r => r.id === id), r = all.find(r => r.failed) || all[0];
      if (r) {
        lane.selectedIndex = data.lanes.indexOf(l);
        redraw();
        look(Math.min(view.from, r.posted), Math.max(view.to, ended(r)));
        chooseWork(l, r);
        break;
      }
    }
  }));

  // nearest finds the mark next to a place of the chart of PSNs.
  const nearest = (box, x, y) => {
    let best = null, least = 20; // pixels
    for (const s of box.drawn) {
      const marks = s.part.marks, size = ordinary.has(s.kind.kind) ? 2 : 4;
      for (let k = s.part.lo; k < s.part.hi; k++) {
        const from = box.x(marks.at[k]), to = box.x(marks.until[k]);
        const dx = x < from ? from - x : x > to ? x - to : 0;
        const high = box.y(marks.most[k]), low = box.y(marks.psn[k]);
        const dy = y > low ? y - low : y < high ? high - y : 0;
        const far = Math.max(Math.max(dx, dy) - size, 0);
        if (far <= least) { // what is drawn later is on top
          least = far;
          best = { kind: s.kind.kind, marks: marks, k: k, far: far };
        }
      }
    }
    return best;
  };
  const timeAt = (canvas, event) => {
    const box = canvas.box, x = event.clientX - canvas.getBoundingClientRect().left;
    return view.from + (x - box.left) / (box.right - box.left) * (view.to - view.from);
  };

  // clicked is for a click, not for the end of a drag.
  const clicked = (canvas, event) => {
    const place = canvas.getBoundingClientRect(), x = event.clientX - place.left, y = event.clientY - place.top;
    if (canvas === psn) {
      const l = data.lanes[lane.selectedIndex], hit = nearest(psn.box, x, y);
      if (hit) {
        choose(l, hit.kind, hit.marks.at[hit.k], hit.marks.psn[hit.k], hit.marks.number[hit.k]);
      }
      const near = w => Math.min(Math.hypot(w.x - x, w.y - y), w.r.status ? Math.hypot(w.x2 - x, w.y2 - y) : Infinity);
      const work = psn.box.work.filter(w => near(w) < 7).sort((a, b) => near(a) - near(b))[0];
      if (work && !(hit && hit.far < near(work) && hit.far < 1)) {
        chooseWork(l, work.r);
      }
      return;
    }
    if (canvas !== timeline) {
      return;
    }
    const row = Math.floor((y - timeline.box.top) / rowHeight);
    const happened = list => list.filter(e => Math.abs(timeline.box.x(e.at) - x) < 7)
      .sort((a, b) => Math.abs(timeline.box.x(a.at) - x) - Math.abs(timeline.box.x(b.at) - x))[0];
    const tell = e => {
      chosen.textContent = e.text + " ";
      if (e.to) {
        location.hash = e.to;
      }
    };
    if (row === 0) {
      const event = happened(data.events);
      if (event) {
        tell(event);
      }
      return;
    }
    const r = rows[row - 1];
    if (r && !r.head) {
      lane.selectedIndex = r.lane;
      const l = data.lanes[r.lane], low = (y - timeline.box.top) % rowHeight >= rowHeight - 6;
      const at = timeAt(timeline, event), reach = (view.to - view.from) / Math.max(timeline.box.right - timeline.box.left, 1) * 4;
      const works = x > timeline.box.left ? requests(l).filter(q => q.posted - reach <= at && ended(q) + reach >= at) : [];
      const work = works.find(q => q.failed) || works[works.length - 1];
      const mine = low ? null : happened(l.events);
      if (mine) {
        draw();
        tell(mine);
        return;
      }
      if (work && low) {
        chooseWork(l, work);
        return;
      }
      let best = null, far = 6;
      for (const kind of l.kinds) {
        const seen = visible(kind, 1500);
        for (let k = seen.lo; k < seen.hi && x > timeline.box.left; k++) {
          const d = Math.abs(timeline.box.x(seen.marks.at[k]) - x) + (ordinary.has(kind.kind) ? 3 : 0);
          if (d < far) {
            far = d;
            best = [l, kind.kind, seen.marks.at[k], seen.marks.psn[k], seen.marks.number[k]];
          }
        }
      }
      if (best) {
        choose(...best);
      } else if (work) {
        chooseWork(l, work);
      } else {
        draw();
      }
    }
  };

  const pointers = new Map();
  for (const canvas of root.querySelectorAll("canvas.timed")) {
    let moved = 0;
    canvas.addEventListener("pointerdown", event => {
      pointers.set(event.pointerId, event);
      moved = 0;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", event => {
      const was = pointers.get(event.pointerId);
      if (!was) {
        return;
      }
      moved += Math.abs(event.clientX - was.clientX);
      if (pointers.size === 2) {
        const other = Array.from(pointers.values()).find(p => p.pointerId !== event.pointerId);
        const gap = p => Math.max(Math.abs(p.clientX - other.clientX), 10);
        zoom(gap(was) / gap(event), timeAt(canvas, other));
      } else if (moved > 4) {
        pan((was.clientX - event.clientX) / (canvas.box.right - canvas.box.left));
      }
      pointers.set(event.pointerId, event);
    });
    const up = event => pointers.delete(event.pointerId);
    canvas.addEventListener("pointerup", up);
    canvas.addEventListener("pointercancel", up);
    canvas.addEventListener("click", event => {
      if (moved <= 4) {
        clicked(canvas, event);
      }
      moved = 0;
    });
    canvas.addEventListener("dblclick", event => zoom(0.4, timeAt(canvas, event)));
    canvas.addEventListener("wheel", event => {
      // A wheel scrolls the page, until the chart has the focus.
      if (event.ctrlKey || document.activeElement === canvas) {
        event.preventDefault();
        zoom(event.deltaY > 0 ? 1.25 : 0.8, timeAt(canvas, event));
      }
    }, { passive: false });
    canvas.addEventListener("keydown", event => {
      const keys = { ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), Home: all, 0: all, f: fit };
      if (keys[event.key] && !event.ctrlKey && !event.metaKey && !event.altKey) {
        event.preventDefault();
        keys[event.key]();
      }
    });
  }
  by("zoom-in").addEventListener("click", () => zoom(0.5));
  by("zoom-out").addEventListener("click", () => zoom(2));
  by("zoom-all").addEventListener("click", all);
  by("zoom-fit").addEventListener("click", fit);
  by("only-span").addEventListener("click", () => {
    by("from").value = Math.max(view.from / 1e9, 0).toFixed(9);
    by("to").value = (view.to / 1e9).toFixed(9);
    by("from").dispatchEvent(new Event("input", { bubbles: true }));
  });
  lane.addEventListener("change", () => {
    mark = null;
    draw();
  });

  const redraw = () => {
    readColors();
    const l = data.lanes[lane.selectedIndex];
    by("depth-title").textContent = l.work ? "Work requests that the device has under way" : "Messages without an acknowledgement";
    draw();
  };
  lane.addEventListener("change", redraw);
  data.lanes.forEach(l => {
    const option = document.createElement("option");
    option.textContent = [l.service, l.host, l.qp, "→", l.peer].filter(Boolean).join(" ");
    lane.append(option);
  });
  // The first to be shown is the one in which most went wrong.
  const wrong = l => l.kinds.reduce((sum, kind) => sum + (ordinary.has(kind.kind) ? 0 : kind.seen), 0);
  lane.selectedIndex = data.lanes.reduce((best, l, i) => wrong(l) > wrong(data.lanes[best]) || wrong(l) === wrong(data.lanes[best]) && l.messages > data.lanes[best].messages ? i : best, 0);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  // Most of a run may be without packets: then the first view is the part with them, and with what
  // went wrong.
  const busy = data.lanes.flatMap(l => [l.bytes, l.latency].filter(s => s.bins.length > 0).map(s => [s.start + s.bins[0][0] * s.width, s.start + (s.bins[s.bins.length - 1][0] + 1) * s.width]))
    .concat(data.events.filter(e => e.bad).map(e => [e.at, e.at]));
  const start = Math.min(...busy.map(b => b[0])), end = Math.max(...busy.map(b => b[1]));
  if (busy.length > 0 && (end - start) * 2 < whole) {
    const room = Math.max((end - start) * 0.05, least);
    view.from = Math.max(start - room, -whole * 0.01);
    view.to = Math.min(end + room, whole);
    chosen.textContent = "This is the part of the run with packets and errors; \u201call\u201d shows the whole run.";
  }
  let width = 0;
  new ResizeObserver(() => {
    if (root.clientWidth !== width) {
      width = root.clientWidth;
      redraw();
    }
  }).observe(root);
  redraw();
  data.lanes.forEach(l => l.kinds.forEach(kind => level(kind, 0)));
  if (jobs.length === 0) {
    root.dataset.decoded = "all";
  }
})();
