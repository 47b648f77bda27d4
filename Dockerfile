# The service in a container: no compiler, a user without rights, and nothing written but under /tmp.
#
#   docker build --tag ideaw .
#   docker run --read-only --tmpfs /tmp:mode=1777,size=6g --cap-drop ALL --security-opt no-new-privileges \
#       --user "$(id -u):$(id -g)" --publish 127.0.0.1:8017:8017 --volume "$PWD/tokens:/run/tokens:ro" \
#       ideaw --token-file /run/tokens

FROM python:3.13-slim AS build
COPY . /src
RUN python -m venv /opt/ideaw
RUN /opt/ideaw/bin/python -m pip install --no-cache-dir --constraint /src/constraints.txt "/src[serve,formats,provenance]"

FROM python:3.13-slim
COPY --from=build /opt/ideaw /opt/ideaw
ENV PATH="/opt/ideaw/bin:$PATH" PYTHONUNBUFFERED=1
USER 10001:10001
EXPOSE 8017
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8017/health', timeout=4)"]
ENTRYPOINT ["ideaw", "serve", "--no-open", "--host", "0.0.0.0"]
