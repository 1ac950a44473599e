#!/usr/bin/env bash
# Prints the path of a chromium, for `make test-browser`, and installs axe-core below test/browser. It uses the chromium on the
# PATH, else Debian's, installed by apt as root, else unpacked into build/chromium/ without a change to the system. Everything
# else goes to stderr.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec 3>&1 1>&2

# A font for text, and one for the emoji in a queue's name.
packages='chromium fonts-dejavu-core fonts-noto-color-emoji'
home=$PWD/build/chromium

die() { echo "browser.sh: $*"; exit 1; }

axe=test/browser/node_modules
if [ ! -e $axe ] || [ test/browser/package-lock.json -nt $axe ]; then
	command -v npm >/dev/null || die 'no npm: install Node 20 or newer'
	(cd test/browser && npm ci --ignore-scripts --no-audit --no-fund --silent && touch node_modules) || die 'npm cannot install axe-core'
fi

found=$(command -v chromium) && { echo "$found" >&3; exit 0; }
if [ ! -x "$home/chromium" ]; then
	command -v apt-get >/dev/null || die 'no chromium on the PATH, and no apt-get to fetch it with'
	# shellcheck disable=SC2086 # a list of words
	if [ "$(id -u)" = 0 ]; then
		export DEBIAN_FRONTEND=noninteractive
		apt-get -qq update && apt-get -qq install -y --no-install-recommends $packages >/dev/null || die "apt cannot install: $packages"
		command -v chromium >&3
		exit
	fi
	rm -rf "$home" && mkdir -p "$home/debs"
	# What apt would install here, unpacked. Its libraries are found by LD_LIBRARY_PATH, its fonts below a root of their own.
	# shellcheck disable=SC2086
	missing=$(apt-get -qq -s --no-install-recommends install $packages | awk '$1 == "Inst" { print $2 }') ||
		die "apt cannot tell what is missing for: $packages"
	# shellcheck disable=SC2086
	(cd "$home/debs" && apt-get -qq download $missing) || die 'apt cannot fetch chromium; apt-get update may help'
	for deb in "$home"/debs/*.deb; do
		dpkg -x "$deb" "$home/root"
	done
	rm -r "$home/debs"
	lib=$home/root/usr/lib own=$home/root/usr/lib/$(uname -m)-linux-gnu
	cat >"$home/fonts.conf" <<-END
		<?xml version="1.0"?>
		<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
		<fontconfig><dir>/usr/share/fonts</dir><dir>$home/root/usr/share/fonts</dir><cachedir>$home/cache</cachedir></fontconfig>
	END
	cat >"$home/chromium" <<-END
		#!/bin/sh
		export LD_LIBRARY_PATH='$own:$own/pulseaudio:$home/root/lib/$(uname -m)-linux-gnu' FONTCONFIG_FILE='$home/fonts.conf'
		exec '$lib/chromium/chromium' "\$@"
	END
	chmod 755 "$home/chromium"
fi
"$home/chromium" --version || die "$home/chromium does not start"
echo "$home/chromium" >&3
