// What makes the page live. Everything works without it: it is a plain page of links and forms.
"use strict";
(() => {
	const main = document.getElementById("main");

	// morph makes one element equal to another and touches only what differs, so that focus, selection and what was opened stay.
	function morph(old, now) {
		if (old.isEqualNode(now)) return;
		if (old.nodeName !== now.nodeName || old.id !== now.id) { old.replaceWith(now); return; }
		if (old.nodeType !== Node.ELEMENT_NODE) { old.data = now.data; return; }
		for (const { name } of [...old.attributes]) if (!now.hasAttribute(name)) old.removeAttribute(name);
		for (const { name, value } of now.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
		// Those with an id are the same wherever they went; the others are by their place.
		const named = new Map([...old.children].filter((c) => c.id).map((c) => [c.id, c]));
		let at = old.firstChild;
		for (const child of [...now.childNodes]) {
			const same = child.id ? named.get(child.id) : at && !at.id && at.nodeName === child.nodeName ? at : null;
			if (!same) { old.insertBefore(child, at); continue; }
			if (same === at) at = at.nextSibling; else old.insertBefore(same, at);
			morph(same, child);
		}
		while (at) { const next = at.nextSibling; at.remove(); at = next; }
	}

	function patch(html) {
		const doc = new DOMParser().parseFromString(html, "text/html");
		for (const part of [...doc.body.children]) {
			const old = document.getElementById(part.id);
			if (old) morph(old, document.adoptNode(part));
		}
		// What was missing on the screen can be had again.
		if (main.hasAttribute("data-failed") && !document.querySelector("#banner .banner")) {
			main.removeAttribute("data-failed");
			setTimeout(() => location.reload(), 2000);
		}
		document.dispatchEvent(new Event("patched"));
	}

	// The stream is closed while nobody sees the page, so that tabs in the background cost nothing.
	let source = null, gone = 0;
	const banner = document.getElementById("gone");
	function listen() {
		if (source || document.hidden) return;
		const list = document.getElementById("queues"); // the filter may be another by now
		const url = (list || main).dataset.events;
		source = new EventSource(url);
		source.addEventListener("open", () => { clearTimeout(gone); gone = 0; banner.hidden = true; });
		source.addEventListener("patch", (e) => patch(e.data));
		source.addEventListener("error", () => {
			if (!gone) gone = setTimeout(() => { banner.hidden = false; }, 4000);
			if (source && source.readyState === EventSource.CLOSED) { source.close(); source = null; setTimeout(listen, 5000); }
		});
	}
	function hush() { if (source) source.close(); source = null; }
	document.addEventListener("visibilitychange", () => document.hidden ? hush() : listen());
	addEventListener("pagehide", hush);
	addEventListener("pageshow", listen);
	listen();
	document.body.addEventListener("htmx:afterSwap", (e) => {
		if (e.detail.target.id === "queues") { hush(); listen(); }
	});

	// What is ticked is counted. The box that ticks all is there from the start, so that nothing moves under the mouse.
	const number = new Intl.NumberFormat("en");
	function count(form) {
		const bar = form.querySelector("[data-choosing]");
		if (!bar) return;
		const ticked = [...form.querySelectorAll("tbody input[type=checkbox]:checked")];
		const jobs = ticked.reduce((n, box) => n + Number(box.dataset.jobs || 1), 0);
		bar.querySelector("[data-count]").textContent = ticked.length ? `${number.format(jobs)} ${jobs === 1 ? "job" : "jobs"} chosen:` : "Tick jobs, then:";
		for (const b of bar.querySelectorAll("button")) b.disabled = !ticked.length;
	}
	function choosing(root) {
		for (const form of root.querySelectorAll("form[data-choose]")) {
			const all = form.querySelector("[data-all]");
			if (!all || form.dataset.counts) continue;
			form.dataset.counts = "1";
			all.addEventListener("change", () => {
				for (const box of form.querySelectorAll("tbody input[type=checkbox]:not(:disabled)")) box.checked = all.checked;
			});
			form.addEventListener("change", () => count(form));
			count(form);
		}
	}
	choosing(document);
	document.body.addEventListener("htmx:afterSettle", () => choosing(document));

	// A search goes on by itself behind the part that came with the page.
	const hits = document.getElementById("hits");
	if (hits && hits.dataset.stream) {
		const before = Number(hits.dataset.seen);
		const rows = document.getElementById("hitrows"), text = document.getElementById("searching"), bar = document.getElementById("searched");
		const stop = document.getElementById("stopsearch"), on = document.getElementById("on"), form = hits.querySelector("form");
		const search = new EventSource(hits.dataset.stream);
		const say = (seen, more) => {
			bar.value = before + seen;
			text.textContent = `${number.format(rows.children.length)} found in ${number.format(before + seen)} jobs looked at${more}`;
		};
		const end = (more) => { search.close(); stop.hidden = true; text.textContent += more; };
		let seen = 0;
		stop.hidden = false;
		on.hidden = true;
		stop.addEventListener("click", () => { end(", then stopped."); });
		search.addEventListener("hit", (e) => {
			const row = document.createElement("template");
			row.innerHTML = e.data;
			if (!document.getElementById(row.content.firstElementChild.id)) rows.append(row.content);
			count(form);
		});
		search.addEventListener("progress", (e) => { seen = JSON.parse(e.data).seen; say(seen, "…"); });
		search.addEventListener("end", (e) => {
			const data = JSON.parse(e.data);
			say(data.seen, "");
			end(data.next ? (data.full ? ", and there may be more." : ".") : "; there are no more.");
			if (data.next) { on.href = data.next; on.hidden = false; } else bar.value = bar.max;
			if (data.error) {
				const say = document.getElementById("searcherror");
				say.textContent = data.error;
				say.hidden = false;
			}
		});
		search.addEventListener("error", () => { end(", then the connection was lost."); on.hidden = false; });
		addEventListener("pagehide", () => search.close());
	}

	// The hour as a chart. What it shows is beside it as text and table.
	const hour = document.getElementById("hour"), place = hour && hour.querySelector(".chart");
	if (place && window.uPlot) {
		let plot = null;
		const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
		const clock = (u, v) => v == null ? "–" : new Date(v * 1000).toISOString().slice(11, 16);
		const shown = (u, v) => v == null ? "–" : number.format(v);
		async function draw() {
			const answer = await fetch(hour.dataset.hour).catch(() => null);
			if (!answer || !answer.ok) return;
			const f = await answer.json();
			if (f.t.length < 2) return;
			const data = [f.t, f.jobs, f.in, f.out];
			if (plot) { plot.setData(data); return; }
			const axis = { stroke: css("--quiet"), grid: { stroke: css("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui" };
			place.replaceChildren();
			plot = new uPlot({
				width: place.clientWidth, height: 180, cursor: { y: false },
				scales: { x: { time: true }, jobs: { range: (u, lo, hi) => [0, Math.max(hi, 1)] }, flow: { range: (u, lo, hi) => [0, Math.max(hi, 1)] } },
				axes: [
					{ ...axis, values: (u, at) => at.map((v) => clock(u, v)) },
					{ ...axis, scale: "jobs", size: 56, values: (u, at) => at.map((v) => Number.isInteger(v) ? number.format(v) : "") },
					{ ...axis, scale: "flow", side: 1, size: 56, grid: { show: false }, values: (u, at) => at.map((v) => Number.isInteger(v) ? number.format(v) : "") },
				],
				series: [
					{ label: "UTC", value: clock },
					{ label: "jobs", scale: "jobs", stroke: css("--accent"), width: 2, fill: css("--accent-soft"), points: { show: false }, value: shown },
					{ label: "in / min", scale: "flow", stroke: css("--quiet"), width: 1, points: { show: false }, value: shown },
					{ label: "out / min", scale: "flow", stroke: css("--quiet"), width: 1, dash: [3, 3], points: { show: false }, value: shown },
				],
			}, data, place);
			place.firstElementChild.setAttribute("role", "img");
			place.firstElementChild.setAttribute("aria-label", "Jobs in the last hour, and how many came and went in each minute");
		}
		draw();
		setInterval(() => { if (!document.hidden) draw(); }, 60000);
		new ResizeObserver(() => { if (plot) plot.setSize({ width: place.clientWidth, height: 180 }); }).observe(place);
	}

	// Keys: / goes to the filter, j and k from row to row.
	document.addEventListener("keydown", (e) => {
		if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, select, textarea")) return;
		if (e.key === "/") {
			const to = document.querySelector("[data-hotkey='/']") || document.getElementById("find");
			e.preventDefault();
			to.focus();
			to.select();
		}
		if (e.key === "j" || e.key === "k") {
			const links = [...main.querySelectorAll("tbody th a")];
			if (!links.length) return;
			const here = links.indexOf(document.activeElement);
			links[Math.max(0, Math.min(links.length - 1, here + (e.key === "j" ? 1 : -1)))].focus();
		}
	});
})();
