# The service in an image: docker build --build-arg VERSION=1.2.3 --build-arg COMMIT=abc1234 -t billing .

# cgo against glibc: librdkafka comes with the Go module, linked statically; the builder's and the image's Debian must be
# the same release.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG VERSION=dev
ARG COMMIT=unknown
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/go/cache \
    GOCACHE=/go/cache CGO_ENABLED=1 go build -trimpath -ldflags "-s -w -X main.version=$VERSION -X main.commit=$COMMIT" -o /out/billing ./cmd/billing

# Debian rather than distroless: compose's health checks need a shell, see docker-compose.yml.
FROM debian:bookworm-slim
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/billing /usr/local/bin/billing
# No name, no home, no rights: nothing in the image is writable.
USER 65532:65532
EXPOSE 8080
# SIGTERM starts the orderly stop, which takes up to BILLING_STOP_TIMEOUT (10 s): grant more before a kill.
STOPSIGNAL SIGTERM
ENTRYPOINT ["billing"]
CMD ["serve"]
