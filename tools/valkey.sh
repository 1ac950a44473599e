#!/usr/bin/env bash
# Prints the path of a valkey-server >= 8.0; everything else goes to stderr.
#
#   tools/valkey.sh                        $VALKEY_SERVER, else PATH, else Debian's packages
#   tools/valkey.sh --release 8.0|8.1|9    that release, always from Debian's packages
#   ... --arch arm64                       the same for arm64, to be run by qemu-aarch64-static
#
# The packages are fetched once, by apt's own client with private state, and unpacked into
# build/valkey/<suite>/ with a wrapper for each program in its bin/. That needs no root and
# changes nothing outside that folder. apt checks the archive's signature.
set -euo pipefail
exec 3>&1 1>&2

home=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/build/valkey
programs='valkey-server valkey-sentinel valkey-cli valkey-benchmark valkey-check-aof valkey-check-rdb'

advice='install Valkey 8.0 or newer, or set VALKEY_SERVER'

die() { echo "valkey.sh: $*"; exit 1; }
say() { echo "valkey.sh: $*"; }

# version PROGRAM: the version of a valkey-server; nothing for anything else.
version() { "$1" --version 2>/dev/null | sed -n 's/^Valkey server v=\([0-9.]*\).*/\1/p'; }

# recent VERSION: 8.0 or newer, by the major number.
recent() { [ "${1%%.*}" -ge 8 ] 2>/dev/null; }

answer() { printf '%s\n' "$1" >&3; exit 0; }

release='' arch=''
while [ $# -gt 0 ]; do
	case "$1" in
	--release) release=${2:-?} ;;
	--arch) arch=${2:-?} ;;
	*) die "usage: tools/valkey.sh [--release 8.0|8.1|9 [--arch arm64]]" ;;
	esac
	shift 2 || die "$1 of what?"
done
case "$arch" in
'') emulator='' ;;
arm64) emulator='qemu-aarch64-static ' ;;
*) die "no architecture $arch here: arm64" ;;
esac

if [ -z "$release$arch" ]; then
	if [ -n "${VALKEY_SERVER-}" ]; then
		found=$(command -v -- "$VALKEY_SERVER") || die "VALKEY_SERVER=$VALKEY_SERVER cannot be run"
		recent "$(version "$found")" || die "VALKEY_SERVER=$VALKEY_SERVER is not a valkey-server >= 8.0"
		answer "$(realpath -s -- "$found")" # -s: the server is often a link that goes by its own name
	fi
	if found=$(command -v valkey-server) && recent "$(version "$found")"; then
		answer "$(realpath -s -- "$found")"
	fi
fi

# The version in the host's own suite, if that is recent enough.
codename=$(. /etc/os-release 2>/dev/null && echo "${VERSION_CODENAME-}") || codename=
if [ -z "$release" ]; then
	case "$codename" in
	trixie) release=8.1 ;;
	forky | sid) release=9 ;;
	*) release=8.0 ;;
	esac
fi

case "$release" in
8.0) base=bookworm suite=bookworm-backports pin='8.0.1+dfsg1-1~bpo12+1' ;;
8.1) base=trixie suite=trixie pin='8.1.1+dfsg1-3+deb13u3' ;;
9) base=sid suite=sid pin='9.1.2-1' ;;
*) die "no release $release here: 8.0, 8.1 or 9" ;;
esac
target=$home/$suite${arch:+-$arch}

[ -x "$target/bin/valkey-server" ] && answer "$target/bin/valkey-server"

for tool in apt-get dpkg flock; do
	command -v "$tool" >/dev/null ||
		die "no valkey-server >= 8.0 on PATH, and no $tool to fetch Debian's; $advice"
done
keyring=
for file in /usr/share/keyrings/debian-archive-keyring.{gpg,pgp}; do
	[ -r "$file" ] && keyring=$file && break
done
[ -n "$keyring" ] ||
	die "no valkey-server >= 8.0 on PATH, and this is no Debian; $advice"

mkdir -p "$home"
exec 9>"$home/.$suite.lock"
flock 9
[ -x "$target/bin/valkey-server" ] && answer "$target/bin/valkey-server" # another run was faster
rm -rf "$target" "$home/.$suite".tmp.* # what a killed run left; none lives while we hold the lock
tmp=$(mktemp -d "$home/.$suite.tmp.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
chmod 755 "$tmp" # apt's own user needs access when root runs it

# apt reads the system's configuration first (it may name a proxy), then this file.
mkdir -p "$tmp"/{lists,archives}/partial "$tmp"/{root,state}
: >"$tmp/status" # nothing is installed: apt resolves every library
cat >"$tmp/apt.conf" <<-END
	Dir::Etc::sourcelist "$tmp/sources.list";
	Dir::Etc::sourceparts "/dev/null";
	Dir::Etc::preferences "$tmp/preferences";
	Dir::Etc::preferencesparts "/dev/null";
	Dir::State "$tmp/state";
	Dir::State::lists "$tmp/lists";
	Dir::State::status "$tmp/status";
	Dir::Cache "$tmp";
	Dir::Cache::archives "$tmp/archives";
	Debug::NoLocking "true";
	Acquire::Retries "3";
	Acquire::AllowInsecureRepositories "false";
	APT::Get::AllowUnauthenticated "false";
	APT::Update::Error-Mode "any";
	#clear APT::Update::Pre-Invoke;
	#clear APT::Update::Post-Invoke;
	#clear APT::Update::Post-Invoke-Success;
END
cat >"$tmp/preferences" <<-END
	Package: valkey-server valkey-tools
	Pin: version $pin
	Pin-Priority: 1001
END
[ -z "$arch" ] || printf 'APT::Architecture "%s"; APT::Architectures { "%s"; };\n' "$arch" "$arch" >>"$tmp/apt.conf"
apt() { local client=$1; shift; "$client" -c "$tmp/apt.conf" -qq "$@"; }

# Use the system's mirror. Of several sources, the archive's signature shows which is Debian's.
mirrors=$(apt-get -oDebug::NoLocking=1 update --print-uris 2>/dev/null |
	sed -n "s|^'\(.*\)/dists/[^/]*/InRelease'.*|\1|p" | awk '!seen[$0]++') || true
[ -n "$mirrors" ] || die "apt's sources name no mirror; $advice"

say "fetching Valkey $release of Debian $suite"
for mirror in $mirrors; do
	for s in $(printf '%s\n' "$suite" "$base" | sort -u); do
		echo "deb [signed-by=$keyring target=Packages] $mirror $s main"
	done >"$tmp/sources.list"
	if apt apt-get update >>"$tmp/log" 2>&1; then
		mirror=ok
		break
	fi
done
[ "$mirror" = ok ] || { cat "$tmp/log"; die "apt cannot read Debian $suite"; }

offered=$(apt apt-cache policy valkey-server | awk '$1 == "Candidate:" { print $2 }')
recent "$offered" || die "Debian $suite offers no valkey-server >= 8.0, but ${offered:-nothing}"
[ "$offered" = "$pin" ] || say "$suite no longer has $pin; taking $offered"

# The libraries of the programs, recursively.
libraries=$(apt apt-cache depends valkey-tools | awk '$1 ~ /Depends:$/ && $2 ~ /^lib/ { print $2 }')
(
	cd "$tmp/archives"
	apt apt-get --yes --download-only --no-install-recommends install $libraries
	apt apt-get download valkey-server valkey-tools
) >"$tmp/log" 2>&1 || { cat "$tmp/log"; die "apt cannot fetch Valkey"; }

# A release that needs a newer libc than the host's runs with its own libc and loader; so does one for another architecture.
own=$(dpkg-deb -f "$tmp"/archives/libc6_*.deb Version)
if [ -z "$arch" ] && dpkg --compare-versions "$(getconf GNU_LIBC_VERSION | cut -d ' ' -f 2)" ge "${own%%-*}"; then
	rm "$tmp"/archives/libc6_*.deb
fi
for deb in "$tmp"/archives/*.deb; do
	dpkg -x "$deb" "$tmp/root"
done

stage=$tmp/stage
mkdir -p "$stage"/{bin,lib,libexec}
find "$tmp/root" -regextype egrep -regex '.*/lib/[^/]+-linux-gnu[^/]*/[^/]+\.so(\.[^/]*)?' -exec cp -P -t "$stage/lib" {} +
cp -P "$tmp"/root/usr/bin/valkey-* "$stage/libexec"
[ -e "$stage/libexec/valkey-sentinel" ] || ln -s valkey-server "$stage/libexec/valkey-sentinel"
loader=$(find "$stage/lib" -name 'ld-linux*' -printf '%f')
for program in $programs; do
	{
		echo '#!/bin/sh'
		echo 'd=$(dirname "$(dirname "$(readlink -f "$0")")")'
		if [ -n "$loader" ]; then
			echo "exec $emulator\"\$d/lib/$loader\" --library-path \"\$d/lib\" \"\$d/libexec/$program\" \"\$@\""
		else
			echo 'LD_LIBRARY_PATH=$d/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \'
			echo "exec \"\$d/libexec/$program\" \"\$@\""
		fi
	} >"$stage/bin/$program"
done
chmod 755 "$stage/bin"/*

got=$(version "$stage/bin/valkey-server")
recent "$got" || { "$stage/bin/valkey-server" --version || true; die "the fetched server does not start"; }
mv "$stage" "$target"
say "Valkey $got is in ${target#"$PWD"/}"
answer "$target/bin/valkey-server"
