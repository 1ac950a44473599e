#!/usr/bin/env bash
# Prints the path of promtool: the one on the PATH, else Debian's, which is fetched by apt and unpacked into
# build/promtool/, without root and without a change to the system. Everything else goes to stderr.
set -euo pipefail
exec 3>&1 1>&2

found=$(command -v promtool) && { echo "$found" >&3; exit 0; }
home=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/build/promtool
if [ ! -x "$home/promtool" ]; then
	command -v apt-get >/dev/null || { echo 'promtool.sh: no promtool on the PATH, and no apt-get to fetch it with'; exit 1; }
	tmp=$(mktemp -d)
	trap 'rm -rf "$tmp"' EXIT
	chmod 755 "$tmp"
	(cd "$tmp" && apt-get -qq -o APT::Sandbox::User=root download prometheus) || { echo 'promtool.sh: apt cannot fetch prometheus; apt-get update may help'; exit 1; }
	dpkg -x "$tmp"/prometheus_*.deb "$tmp/root"
	mkdir -p "$home"
	mv "$tmp/root/usr/bin/promtool" "$home/promtool"
fi
echo "$home/promtool" >&3
