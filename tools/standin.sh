#!/usr/bin/env bash
# standin.sh: makes stand-ins for the base images of the Dockerfile, from Debian's packages and this machine's Go, for tests
# where no registry can or should be used. They have the public names, in a store of their own under build/image/, which
# buildah finds by the environment that `source tools/standin.sh` sets. Needs root.
set -euo pipefail

store=$PWD/build/image
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs CONTAINERS_STORAGE_CONF=$store/storage.conf

missing=()
for tool in buildah:buildah debootstrap:debootstrap unshare:util-linux setpriv:util-linux ip:iproute2; do
	command -v "${tool%:*}" >/dev/null || missing+=("${tool#*:}")
done
[ ${#missing[@]} = 0 ] || { echo "${0##*/}: not installed: ${missing[*]}" >&2; exit 1; }
[ "$(id -u)" = 0 ] || { echo "${0##*/}: must be run by root, who alone may make root folders and enter them" >&2; exit 1; }

mkdir -p "$store"
: >"$store/go.mod" # so that ./... does not include the Go sources in an image
cat >"$store/storage.conf" <<-END
	[storage]
	driver = "vfs"
	graphroot = "$store/graph"
	runroot = "$store/run"
END

# asked ARG: the default of the Dockerfile's ARG.
asked() { sed -n "s/^ARG $1=//p" Dockerfile; }

# standin NAME SUITE PACKAGES [COMMAND...]: makes an image NAME of the suite with the packages, unless it exists; the
# command completes its container.
standin() {
	local name=$1 suite=$2 packages=$3 root container mirror
	shift 3
	! buildah inspect --type image "$name" >/dev/null 2>&1 || return 0
	echo "standin.sh: making $name" >&2
	root=$(mktemp -d "$store/root.XXXXXX")
	# Use the system's mirror, as valkey.sh does; of several, the one that Debian's key has signed.
	for mirror in $(apt-get -oDebug::NoLocking=1 update --print-uris 2>/dev/null |
		sed -n "s|^'\(.*\)/dists/[^/]*/InRelease'.*|\1|p" | awk '!seen[$0]++'); do
		rm -rf "$root" && mkdir "$root"
		debootstrap --variant=minbase ${packages:+--include="$packages"} "$suite" "$root" "$mirror" >"$store/debootstrap.log" 2>&1 &&
			mirror=ok && break
	done
	[ "${mirror-}" = ok ] || { tail -n 20 "$store/debootstrap.log" >&2; return 1; }
	# As in Debian's images: installing a package starts no services.
	printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d" && chmod 755 "$root/usr/sbin/policy-rc.d"
	rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/archives/*.deb

	container=$(buildah from scratch)
	mv "$root"/* "$(buildah mount "$container")" && rmdir "$root"
	buildah config --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$container"
	[ $# = 0 ] || "$@" "$container"
	buildah commit --quiet --rm "$container" "$name" >/dev/null
}

# with_go CONTAINER: Go where its public image has it.
with_go() {
	cp -a "$(go env GOROOT)" "$(buildah mount "$1")/usr/local/go"
	buildah config --env PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		--env GOTOOLCHAIN=local "$1"
}

base=$(asked BASE_IMAGE)
go_image=$(asked GO_IMAGE)
standin "$base" trixie ''
[ "${1-}" = base ] || standin "$go_image" bookworm gcc,libc6-dev,make with_go
