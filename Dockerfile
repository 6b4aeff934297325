# The tag names the toolchain of rust-toolchain.toml; that file stays out of the image, else rustup would add its components.
FROM rust:1.95.0-slim-trixie AS dependencies
WORKDIR /build
COPY Cargo.toml Cargo.lock ./
# A layer of its own: built anew only when the two files above change.
RUN mkdir src \
 && touch src/lib.rs \
 && echo 'fn main() {}' > src/main.rs \
 && cargo build --release --locked

FROM dependencies AS build
COPY crd crd
COPY docs docs
COPY src src
RUN touch src/lib.rs src/main.rs && cargo build --release --locked

FROM debian:trixie-slim
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /build/target/release/raygate /usr/local/bin/raygate
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/raygate"]
