# syntax=docker/dockerfile:1

# Compiles on the platform that builds, for the platform that runs: Go needs no emulation for that. Digests are those of
# the indexes of all platforms.
FROM --platform=${BUILDPLATFORM} golang:1.26.8@sha256:3c3e25a4da13fd0478eed2df1eb35a0e667094a7124d3993a6a1d30f71c17e79 AS build
WORKDIR /workspace

ARG GOPROXY=https://proxy.golang.org,direct
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod \
    go mod download

# default.pgo is the profile by which the compiler optimizes the manager.
COPY main.go default.pgo ./
COPY api/ api/
COPY baremetal/ baremetal/
COPY controllers/ controllers/
COPY internal/ internal/

ARG TARGETOS
ARG TARGETARCH
ARG LDFLAGS="-s -w"
# The tag keeps the managed fields of cached objects as strings, which saves memory.
RUN --mount=type=cache,target=/go/pkg/mod \
    --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} \
    go build -tags=fieldsv1string -trimpath -ldflags "${LDFLAGS}" -o manager .

FROM gcr.io/distroless/static:nonroot@sha256:e2e927ec666bae08560abb3c55d0659eceabb657f56b6782ab500a9fc7f555e3
ARG VERSION=dev
ARG COMMIT=unknown
ARG CREATED=1970-01-01T00:00:00Z
LABEL org.opencontainers.image.title="cluster-api-provider-metal3" \
      org.opencontainers.image.description="Cluster API provider for bare metal whose Ironic endpoint survives a pivot" \
      org.opencontainers.image.source="https://github.com/metal3-pivot/cluster-api-provider-metal3" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT}" \
      org.opencontainers.image.created="${CREATED}"
COPY --from=build /workspace/manager /manager
COPY LICENSE /licenses/LICENSE
# By number, because Kubernetes checks runAsNonRoot against it.
USER 65532:65532
ENTRYPOINT ["/manager"]
