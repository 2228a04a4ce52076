# The workshop's machine, for laptops with macOS or Windows and for workspaces in the cloud (docs/00_setup.md): a Debian,
# what setup.sh installs from its packages, and a user who is not root. tests/container.sh runs these lines in a folder.
#     docker build -t ddp.c . && docker run --rm -it --init --shm-size 1g ddp.c
FROM debian:bookworm-slim
WORKDIR /setup
COPY setup.sh .
COPY tools/parts.sh tools/cuda_home.sh tools/
RUN ./setup.sh && rm -rf /var/lib/apt/lists/*
RUN useradd --create-home --shell /bin/bash student
USER student
WORKDIR /home/student/ddp.c
# Nothing is built here: make builds for the processor that it runs on, and an image may go to another.
COPY --chown=student:student . .
CMD ["bash"]
