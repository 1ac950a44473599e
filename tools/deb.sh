#!/usr/bin/env bash
# deb.sh MODULE COMMAND [ARCH]: packs the module and the command as build/valkey-emq_VERSION_ARCH.deb. build/emq, which this
# machine runs, writes the command's man pages and completions. The same source gives the same bytes.
#
# The package does not touch Valkey's own configuration, and nothing breaks when it is removed: valkey.conf includes the
# snippet by a pattern, which may match nothing, and the snippet is removed with the module. Lines that CONFIG REWRITE has
# copied from it would keep the server from starting, so they must be removed first.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

module=$1 command=$2 arch=${3-}
for tool in dpkg-deb readelf; do
	command -v "$tool" >/dev/null || { echo "deb.sh: not installed: $tool (dpkg, binutils)" >&2; exit 1; }
done
[ -n "$arch" ] || arch=$(dpkg --print-architecture)
version=$(sed -n 's/^const Version = "\(.*\)"$/\1/p' commands/table.go)-1
[ "$version" != -1 ] || { echo 'no version in commands/table.go' >&2; exit 1; }
glibc=$(readelf -V "$module" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
maintainer="${DEBFULLNAME:-$(git config user.name || id -un)} <${DEBEMAIL:-$(git config user.email || echo "root@localhost")}>"
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
doc=$root/usr/share/doc/valkey-emq
install -d "$root/DEBIAN" "$doc"
install -D -m 0755 "$module" "$root/usr/lib/valkey/emq.so"
tools/install-command.sh build/emq "$command" "$root/usr"

# Only the module's settings and those that queues need. What an existing server persists, and where it listens, is up to the
# operator: turning appendonly on in a file makes a server without an append-only file start empty.
install -d "$root/usr/share/valkey-emq"
{
	printf '# Part of /etc/valkey/valkey.conf by its last line: include /usr/share/valkey-emq/*.conf\n'
	printf '# What you set below that line wins.\n\n'
	awk -v RS= -v ORS='\n\n' '/(^|\n)#? ?(loadmodule|maxmemory-policy|hash-max-listpack-value|emq\.[a-z-]+|crash-memcheck-enabled)[: ]/' valkey.conf.example
} >"$root/usr/share/valkey-emq/emq.conf"

cat >"$doc/README.Debian" <<-END
	To load the module, add this line to the end of /etc/valkey/valkey.conf and restart valkey-server:

	  include /usr/share/valkey-emq/*.conf

	As a pattern it may match nothing: without the package the server starts without the module, and the jobs are
	there as the plain hashes and sorted sets that they are. Settings emq.* of your own belong below that line.

	Without the module no server starts that has emq.* or a loadmodule line of the module's in valkey.conf itself. CONFIG
	REWRITE, which Sentinel sends at each failover, writes them there. They do no harm as long as the package is there, and
	it is not removed before they are taken out, with the server stopped:

	  sed -i -E '/^(loadmodule .*emq\.so|emq\.)/d' /etc/valkey/valkey.conf

	Jobs are only as safe as the server's persistence. On a server that has none of appendonly yet, turn it on with
	CONFIG SET appendonly yes first, and in the file afterwards: a restart with the file alone starts empty.
END
cp README.md "$doc/README.md"
if [ -e LICENSE ]; then cp LICENSE "$doc/copyright"; else echo 'The source of this package states no license.' >"$doc/copyright"; fi
gzip -9n <CHANGELOG.md >"$doc/changelog.gz"
gzip -9n >"$doc/changelog.Debian.gz" <<-END
	valkey-emq ($version) unstable; urgency=medium

	  * See changelog.gz.

	 -- $maintainer  $(date -uRd "@$SOURCE_DATE_EPOCH")
END

cat >"$root/DEBIAN/control" <<-END
	Package: valkey-emq
	Version: $version
	Architecture: $arch
	Maintainer: $maintainer
	Installed-Size: $(du -sk "$root/usr" | cut -f 1)
	Depends: libc6 (>= ${glibc#GLIBC_})
	Recommends: valkey-server (>= 8.0)
	Section: database
	Priority: optional
	Description: job queue inside Valkey
	 A module for Valkey 8.0 and newer that adds the commands EMQ.*: jobs that are
 claimed for a time, settled once, delayed, retried and kept as plain hashes
 and sorted sets. Every client of Redis or Valkey can send them. The command
 emq looks at the queues, and puts their jobs in order.
END
cat >"$root/DEBIAN/prerm" <<-'END'
	#!/bin/sh
	# Refuses a removal after which Valkey would not start; README.Debian has why. Its configuration is not ours to mend.
	set -e
	[ "$1" = remove ] && [ "$(dpkg-query -W -f '${db:Status-Want}' valkey-server 2>/dev/null)" = install ] || exit 0
	lines=$(grep -HniE '^[[:space:]]*(loadmodule[[:space:]].*emq\.so|emq\.)' /etc/valkey/*.conf) || exit 0
	cat >&2 <<-EOF
		valkey-emq: not removed, for without it valkey-server would not start with

		$lines

		Stop it and take these lines out:

		  sed -i -E '/^(loadmodule .*emq\\.so|emq\\.)/d' /etc/valkey/valkey.conf
	EOF
	exit 1
END
(cd "$root" && find usr -type f -exec md5sum {} +) | LC_ALL=C sort -k 2 >"$root/DEBIAN/md5sums"
find "$root" -type f ! -name emq.so ! -path '*/bin/emq' ! -name prerm -exec chmod 644 {} +
chmod 755 "$root/DEBIAN/prerm"
deb=build/valkey-emq_${version}_$arch.deb
dpkg-deb --root-owner-group --build "$root" "$deb" >/dev/null
echo "$deb"
