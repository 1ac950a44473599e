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
		if (main.hasAttribute("data-failed") && !document.querySelector("#banner .banner")) location.reload();
		document.dispatchEvent(new Event("patched"));
	}

	// The stream is closed while nobody sees the page, so that tabs in the background cost nothing.
	let source = null, gone = 0;
	const banner = document.getElementById("gone");
	function listen() {
		if (source || document.hidden) return;
		let url = main.dataset.events;
		if (main.dataset.screen === "queues") { // the filter may be another by now
			const at = new URL(url, location.href);
			const filter = document.getElementById("filter"), rows = document.getElementById("rows");
			if (filter.value !== filter.defaultValue || rows.value !== rows.dataset.was) {
				at.searchParams.set("name", filter.value);
				at.searchParams.set("n", rows.value);
				at.searchParams.delete("page");
			}
			url = at.href;
		}
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
