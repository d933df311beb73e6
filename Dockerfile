# hotseat and Debian's llama-server in one image; docs/howto/compose.md explains how to use it.
# Debian 14 (forky) is the first release that has llama.cpp.

FROM debian:forky-slim AS build
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3-hatchling python3-venv
WORKDIR /source
COPY requirements/runtime.txt requirements/
RUN python3 -m venv /opt/hotseat \
 && /opt/hotseat/bin/pip install --no-cache-dir --require-hashes -r requirements/runtime.txt
COPY pyproject.toml README.md LICENSE ./
COPY src src
# The backend is Debian's, so that nothing is fetched that is not locked.
RUN python3 -m hatchling build -t wheel -d /wheel \
 && /opt/hotseat/bin/pip install --no-cache-dir --no-deps /wheel/*.whl

FROM debian:forky-slim
# For GPUs through Vulkan: --build-arg MORE="libggml0-backend-vulkan mesa-vulkan-drivers"
ARG MORE=""
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    ca-certificates curl llama.cpp-tools python3 $MORE \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 10001 --home-dir /var/lib/hotseat --shell /usr/sbin/nologin hotseat \
 && install -d -m 0700 -o hotseat -g hotseat /var/lib/hotseat /var/lib/hotseat/cache
COPY --from=build /opt/hotseat /opt/hotseat
ENV PATH=/opt/hotseat/bin:$PATH \
    XDG_STATE_HOME=/var/lib \
    XDG_CACHE_HOME=/var/lib/hotseat/cache
USER 10001
WORKDIR /var/lib/hotseat
VOLUME /var/lib/hotseat
EXPOSE 8080
HEALTHCHECK --interval=15s --timeout=5s --start-period=30s \
  CMD ["curl", "-fsS", "http://127.0.0.1:8080/hotseat/ready"]
# No separate init: hotseat forwards signals, and its guard reaps every process that a model server leaves behind.
ENTRYPOINT ["hotseat"]
CMD ["serve", "--config", "/etc/hotseat/config.yaml", "--listen", "0.0.0.0:8080"]
