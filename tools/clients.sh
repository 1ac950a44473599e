#!/usr/bin/env bash
# Installs the clients for `make test-clients`: interpreters and their libraries from the host's Debian, as root; newer
# libraries that need no compiler below build/clients/; those of Node beside the programs that use them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
exec 1>&2

host='python3-redis ruby-redis ruby-connection-pool php-cli php-redis libredis-fast-perl elixir'
newer='python3-redis=6.4.0-3 python3-valkey=6.1.1-3 ruby-redis=6.0.0-2 ruby-redis-client=0.31.0-1'
node='test/clients/testdata/node clients/node'
clients=$PWD/build/clients

die() { echo "clients.sh: $*"; exit 1; }

# shellcheck disable=SC2086 # lists of words
if ! dpkg -s $host >/dev/null 2>&1; then
	[ "$(id -u)" = 0 ] || die "not installed, and only root can: $host"
	export DEBIAN_FRONTEND=noninteractive
	apt-get -qq update && apt-get -qq install -y --no-install-recommends $host >/dev/null || die "apt cannot install: $host"
fi

if [ ! -e "$clients/done" ]; then
	keyring=/usr/share/keyrings/debian-archive-keyring.gpg
	rm -rf "$clients" && mkdir -p "$clients"/apt/{lists,archives}/partial && cd "$clients/apt"
	mirror=$(apt-get -oDebug::NoLocking=1 update --print-uris 2>/dev/null |
		sed -n "s|^'\(.*/debian\)/dists/[^/]*/InRelease'.*|\1|p" | awk 'NR == 1')
	[ -n "$mirror" ] || die "apt's sources name no mirror of Debian"
	echo "deb [signed-by=$keyring target=Packages] $mirror sid main" >sources.list
	: >status
	sid() {
		local client=$1
		shift
		"$client" -qq -o Dir::Etc::sourcelist="$PWD/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::State="$PWD" \
			-o Dir::State::lists="$PWD/lists" -o Dir::State::status="$PWD/status" -o Dir::Cache="$PWD" -o APT::Sandbox::User=root "$@"
	}
	sid apt-get update || die "apt cannot read Debian sid"
	for package in $newer; do
		sid apt-get download "$package" 2>/dev/null || {
			echo "clients.sh: sid no longer has $package; taking what it has"
			sid apt-get download "${package%=*}" || die "apt cannot fetch ${package%=*}"
		}
	done
	for package in *.deb; do
		dpkg -x "$package" root
	done
	mv root/usr/lib/python3/dist-packages ../python
	mkdir ../ruby
	cp -r root/usr/share/rubygems-integration/all/gems/*/lib/. ../ruby
	cd ../../.. && rm -rf "$clients/apt"
	touch "$clients/done"
fi

# touch: npm leaves the time of the folder as it was.
for package in $node; do
	if [ ! -e "$package/node_modules" ] || [ "$package/package-lock.json" -nt "$package/node_modules" ]; then
		command -v npm >/dev/null || die "no npm: install Node 20 or newer"
		(cd "$package" && npm ci --ignore-scripts --no-audit --no-fund --silent && touch node_modules) || die "npm cannot install what $package needs"
	fi
done
