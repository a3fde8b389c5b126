# tracer in a container. It traces processes of the whole host:
#
#   docker build -t tracer .
#   docker run --rm -it --privileged --pid=host -v /sys/kernel/tracing:/sys/kernel/tracing tracer info
#   docker run --rm -it --privileged --pid=host -v /sys/kernel/tracing:/sys/kernel/tracing tracer demo
#   docker run --rm -it --privileged --pid=host -v /sys/kernel/tracing:/sys/kernel/tracing tracer \
#       -p 4242 -e 'uprobe:libc:malloc { @bytes = hist(arg0); }'
#
# --privileged   bpf(), perf_event_open() and writing uprobe_events need CAP_SYS_ADMIN, and no seccomp filter before them
# --pid=host     process numbers are the host's, so that -p, pid and /proc mean the processes you see there
# tracing        the ftrace backend's files; a container has none of its own
# -it            Ctrl-C reaches the tracer, which then prints its maps
#
# A path in a program is looked up in the container. With -p it is looked up in that process's own root; the host's
# /usr/bin/app without -p is /proc/1/root/usr/bin/app here.
# `scripts/check-dockerfile` runs these steps in a root made by debootstrap.
FROM debian:bookworm-slim

ENV DEBIAN_FRONTEND=noninteractive
ENV PIP_DISABLE_PIP_VERSION_CHECK=1

# gcc, libc6-dev and systemtap-sdt-dev are for `tracer demo`, which builds its small program with them.
RUN apt-get update \
    && apt-get install -y --no-install-recommends \
        ca-certificates python3 python3-venv python3-bpfcc gcc libc6-dev systemtap-sdt-dev \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/tracer
COPY pyproject.toml README.md /opt/tracer/
COPY tracer /opt/tracer/tracer
COPY bpf_programs /opt/tracer/bpf_programs

RUN python3 -m venv /opt/venv \
    && /opt/venv/bin/pip install --no-cache-dir /opt/tracer \
    && /opt/venv/bin/tracer --version

ENTRYPOINT ["/opt/venv/bin/tracer"]
CMD ["--help"]
