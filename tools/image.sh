#!/usr/bin/env bash
# image.sh NAME [FLAG...]: builds the image with docker, podman or buildah, whichever is there first and works, or with
# $BUILDER. The flags are the builder's, --build-arg BASE_IMAGE=... for one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

# works BUILDER: a docker client without an engine is not one.
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
