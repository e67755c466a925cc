# syntax=docker/dockerfile:1

# The image of the program causeway: the worker, and its operators' commands. `make image` builds it. `make image-check` runs the steps of
# the later stages in plain Debian roots, without a container engine.

# The builder has the oldest C library that the image may run with: Debian 12's.
ARG SWIFT=6.3-bookworm
# Debian 13 has librdkafka 2.8.0. Debian 12's 2.0.2 works too (`--build-arg DEBIAN=bookworm-slim`), but has defects in
# rebalances and TLS that 2.4.0 fixed; the program works around them.
ARG DEBIAN=trixie-slim

FROM swift:${SWIFT} AS build
RUN apt-get update \
    && apt-get install --yes --no-install-recommends \
        libcurl4-openssl-dev libhiredis-dev libnghttp2-dev librdkafka-dev libssl-dev pkg-config \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /causeway
COPY . .
RUN --mount=type=cache,target=/causeway/.build \
    swift build --configuration release --static-swift-stdlib --product causeway \
    && mkdir -p /image/bin /image/lib \
    && cp .build/release/causeway /image/causeway.symbols \
    && strip -o /image/bin/causeway .build/release/causeway \
    && cp --dereference /usr/lib/*-linux-gnu/libhiredis.so.0.14 /image/lib/

# `docker build --target symbols --output . .` has the same program with its symbols, for a debugger.
FROM scratch AS symbols
COPY --from=build /image/causeway.symbols /

# The lab, for compose.yaml: simulated APNs and phones, with all of Swift and Debian's libraries.
# `docker build --target lab .` builds it. The image of the program contains no part of it.
FROM swift:${SWIFT} AS lab
RUN apt-get update \
    && apt-get install --yes --no-install-recommends \
        curl libcurl4-openssl-dev libhiredis-dev libnghttp2-dev librdkafka-dev libssl-dev pkg-config \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 65532 causeway \
    && useradd --uid 65532 --gid 65532 --no-create-home --home-dir / --shell /usr/sbin/nologin causeway \
    && install --directory --owner=65532 --group=65532 /apns
WORKDIR /causeway
COPY . .
RUN --mount=type=cache,id=lab,target=/causeway/.build \
    swift build --configuration release --product causeway-lab && cp .build/release/causeway-lab /usr/local/bin/
COPY Config/examples/ride/shapes.json /shapes.json
USER 65532:65532
ENTRYPOINT ["causeway-lab"]

FROM debian:${DEBIAN} AS debian
# The program's libraries, and the certificate authorities. In Debian 13 a package whose name ends in t64 provides libssl3.
ARG PACKAGES="ca-certificates libgcc-s1 librdkafka1 libssl3 libstdc++6"
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ${PACKAGES} \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/apt /var/log/dpkg.log \
    && groupadd --gid 65532 causeway \
    && useradd --uid 65532 --gid 65532 --no-create-home --home-dir / --shell /usr/sbin/nologin causeway
# Debian 13 has a later hiredis with another name. The copied one needs only the C library.
COPY --from=build /image/lib/ /usr/local/lib/
COPY --from=build /image/bin/ /usr/local/bin/
COPY .ci/image-files /
RUN ldconfig && /image-files /image

# The image has only the files that the program needs: no shell, no package manager, no other program.
FROM scratch
ENV PATH=/usr/local/bin
COPY --from=debian /image/ /

ARG VERSION=0.1.0
ARG REVISION=
LABEL org.opencontainers.image.title="causeway" \
      org.opencontainers.image.description="Sends Live Activity updates from Kafka to iPhones." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

USER 65532:65532
EXPOSE 9464
STOPSIGNAL SIGTERM
# The health check is for Docker and Compose; Kubernetes has its own probes. The image has no curl, so the program itself asks /livez.
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s \
    CMD ["causeway", "health"]
ENTRYPOINT ["causeway"]
CMD ["worker", "--config", "/etc/causeway/config/causeway.yaml"]
