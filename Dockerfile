# The service, without anything that could build or install. Dependencies are pinned by hash; the base image by tag.
# Pin the base by digest too in your own registry's mirror: a digest is only worth something if its owner moves it on.
FROM python:3.13-slim-bookworm AS build

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_NO_INPUT=1
WORKDIR /src

COPY requirements/run.txt requirements/build.txt requirements/
RUN python -m venv /opt/holdtrue \
    && /opt/holdtrue/bin/pip install --require-hashes --only-binary :all: --requirement requirements/run.txt \
    && python -m venv /opt/build \
    && /opt/build/bin/pip install --require-hashes --only-binary :all: --requirement requirements/build.txt

COPY pyproject.toml README.md LICENSE ./
COPY app app
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
    && /opt/holdtrue/bin/pip install --no-deps /wheels/*.whl \
    && /opt/holdtrue/bin/pip uninstall --yes pip \
    && /opt/holdtrue/bin/python -m compileall -q /opt/holdtrue/lib

FROM python:3.13-slim-bookworm

# The base image's own pip is a build tool as well.
RUN python -m pip uninstall --yes --quiet --root-user-action ignore pip \
    && groupadd --gid 10001 holdtrue \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/holdtrue --shell /usr/sbin/nologin holdtrue \
    && install --directory --owner 10001 --group 10001 --mode 0750 /var/lib/holdtrue

COPY --from=build /opt/holdtrue /opt/holdtrue

# Listening beyond loopback needs HOLDTRUE_TOKEN, or HOLDTRUE_ALLOW_OPEN=1 said on purpose.
ENV PATH=/opt/holdtrue/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HOLDTRUE_CONFIG=/etc/holdtrue/holdtrue.yaml \
    HOLDTRUE_LISTEN=0.0.0.0:8080 \
    HOLDTRUE_LOG_FORMAT=json

# A number, so that Kubernetes can see that it is not root.
USER 10001:10001
WORKDIR /var/lib/holdtrue
VOLUME ["/var/lib/holdtrue"]
EXPOSE 8080
STOPSIGNAL SIGTERM

HEALTHCHECK --interval=15s --timeout=3s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8080/healthz', timeout=2).close()"]

ENTRYPOINT ["holdtrue"]
CMD ["serve"]
