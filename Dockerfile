# syntax=docker/dockerfile:1
FROM node:24-trixie-slim AS build
# Do not pin libjemalloc2: the Debian release of the base image determines its version.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends libjemalloc2 && rm -rf /var/lib/apt/lists/*
WORKDIR /build
COPY . .
# The SBOM (CycloneDX) lists the packages in the bundles. LICENSES.txt contains their licences. npm creates no SBOM if
# a package.json names a package that is not installed. So delete devDependencies first.
RUN npm ci --omit=dev --no-audit --no-fund \
  && npm run build \
  && npm pkg delete devDependencies --workspaces --include-workspace-root \
  && npm sbom --sbom-format=cyclonedx --sbom-type=application > dist/sbom.cdx.json \
  && cp /usr/lib/*/libjemalloc.so.2 . \
  && cat /usr/share/doc/libjemalloc2/copyright >> dist/LICENSES.txt

# This image contains Node and its libraries, but no shell and no package manager.
FROM gcr.io/distroless/nodejs24-debian13:nonroot
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="User Group Service" \
      org.opencontainers.image.description="User groups and their tokens over gRPC, gRPC-Web, Connect and REST, on Redis" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
WORKDIR /app
# Root owns the files, so that the process cannot change its program.
COPY --from=build --chown=0:0 /build/dist/ ./
# jemalloc shortens the pauses of V8's garbage collector to a third of the pauses with the allocator of glibc.
COPY --from=build --chown=0:0 /build/libjemalloc.so.2 /usr/lib/libjemalloc.so.2
ENV LD_PRELOAD=libjemalloc.so.2
# More memory for new objects increases the throughput of a worker with many HTTP/1.1 connections.
ENV NODE_OPTIONS=--max-semi-space-size=32
# HOST makes the port reachable from outside the container. With UGS_URL, `ugs` calls the service in its own container.
ENV NODE_ENV=production HOST=0.0.0.0 PORT=8080 UGS_URL=http://127.0.0.1:8080
# The user is numeric, because Kubernetes cannot verify that a named user is not root.
USER 65532:65532
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s --retries=3 \
  CMD ["/nodejs/bin/node", "/app/ugs.js", "ping", "--local"]
ENTRYPOINT ["/nodejs/bin/node"]
CMD ["/app/main.js"]
