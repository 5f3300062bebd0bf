# The image: one static binary and the roots of trust, in an empty file system,
# run by a user without a name. Build it from a full clone ("make image"), since
# the binary records the commit it is made from.
#
# The same commit and version give the same binary, whoever builds it and
# wherever: the Go release is named, and no path, time or machine goes into it.
ARG GO_VERSION=1.26.8
FROM --platform=$BUILDPLATFORM golang:${GO_VERSION}-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS
ARG TARGETARCH
# Such as v1.2.3; the commit when it is empty.
ARG VERSION
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -buildvcs=true \
    -ldflags "-s -w -buildid= -X github.com/leaderbridge/leaderbridge/internal/buildinfo.version=$VERSION" \
    -o /leaderbridge ./cmd/leaderbridge

FROM scratch
LABEL org.opencontainers.image.title="leaderbridge" \
      org.opencontainers.image.description="Leader election whose every change is an event on NATS JetStream" \
      org.opencontainers.image.source="https://github.com/leaderbridge/leaderbridge" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /leaderbridge /leaderbridge
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["/leaderbridge"]
