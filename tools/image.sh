#!/usr/bin/env bash
# image.sh NAME [FLAG...]: builds the image with docker, podman or buildah, the first of these that works, or with $BUILDER.
# The flags are the builder's, for example --build-arg BASE_IMAGE=...
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

# works BUILDER: checks that it works; a docker client without an engine does not.
works() {
	case "$1" in
	docker) docker info ;;
	*) "$1" --version ;;
	esac >/dev/null 2>&1
}

name=$1
shift
builder=${BUILDER-}
for candidate in docker podman buildah; do
	[ -n "$builder" ] || ! works "$candidate" || builder=$candidate
done
[ -n "$builder" ] || {
	echo 'image.sh: needs docker with a running engine, podman or buildah' >&2
	exit 1
}

make -s build/emq.id
flags=(--tag "$name" --build-arg "EMQ_BUILD=$(<build/emq.id)")
[ "$builder" = docker ] || flags+=(--format docker) # OCI's own format knows no healthcheck
echo "image.sh: $builder builds $name" >&2
exec "$builder" build "${flags[@]}" "$@" .
