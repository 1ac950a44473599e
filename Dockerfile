# A Valkey with the module and the command emq, on Debian. `make image` builds it; docker build . does, too.
#
# The second stage takes a valkey-server from its base image where there is one, and Debian's otherwise:
#   --build-arg BASE_IMAGE=docker.io/valkey/valkey:9.1
# A base must have glibc 2.34 or newer; Alpine's musl can't load the module.
ARG GO_IMAGE=docker.io/library/golang:1.26-bookworm
ARG BASE_IMAGE=docker.io/library/debian:trixie-slim

FROM ${GO_IMAGE} AS build
WORKDIR /src
COPY . .
ARG EMQ_BUILD
# The module imports nothing but the standard library, so nothing is fetched.
RUN GOPROXY=off EMQ_BUILD="$EMQ_BUILD" make build/emq.so
# What the command imports is fetched, and is what cmd/emq/go.sum says.
ARG GOPROXY
RUN GOFLAGS=-mod=readonly EMQ_BUILD="$EMQ_BUILD" make build/emq && tools/install-command.sh build/emq build/emq /out/usr

FROM ${BASE_IMAGE}
USER root
# The ids are those of Valkey's own image, so a volume can change hands.
RUN set -eu; \
    if ! command -v valkey-server; then \
        groupadd --system --gid 999 valkey; \
        useradd --system --uid 999 --gid 999 --home-dir /data --no-create-home --shell /usr/sbin/nologin valkey; \
        apt-get update; \
        DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends valkey-server valkey-tools; \
        rm -rf /var/lib/apt/lists/* /var/log/*.log /var/log/apt/*; \
    fi; \
    install -d -o 999 -g 999 -m 0700 /data; \
    install -d -o 999 -g 999 -m 0755 /etc/valkey
COPY --from=build /src/build/emq.so /usr/lib/valkey/emq.so
COPY --from=build /out /
COPY tools/entrypoint.sh /usr/local/bin/emq-entrypoint
COPY valkey.conf.example /etc/valkey/valkey.conf
# In a container "this machine only" would be the container only. Who comes from outside needs a password, also where the
# base image has turned protected mode off. The server's user owns the file, which a failover rewrites.
RUN set -eu; \
    chmod 0755 /usr/lib/valkey/emq.so /usr/local/bin/emq-entrypoint; \
    sed -i -e 's/^# Reachable from this machine only\..*/# Reachable from outside, once the default user has a password./' \
           -e 's/^bind .*/bind * -::*\nprotected-mode yes/' /etc/valkey/valkey.conf; \
    chown 999:999 /etc/valkey/valkey.conf; chmod 0644 /etc/valkey/valkey.conf

USER 999:999
WORKDIR /data
VOLUME /data
EXPOSE 6379
# A server that asks for a password is alive; one that still loads its data is not yet healthy.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
    CMD case "$(valkey-cli ping 2>&1)" in PONG | *NOAUTH*) ;; *) exit 1 ;; esac
ENTRYPOINT ["emq-entrypoint"]
CMD ["valkey-server"]
