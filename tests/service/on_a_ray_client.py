"""Starts a Ray with a Ray Client server, and sends it jobs; see test_service_ray.py."""

import socket
import subprocess
import sys
import time
from contextlib import closing

from costmodel.service import open_engine


def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        return int(server.getsockname()[1])


def main() -> None:
    head, client = free_port(), free_port()
    ports = [f"--port={head}", f"--ray-client-server-port={client}", "--node-ip-address=127.0.0.1"]
    start = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--num-cpus=1"]
    with subprocess.Popen([*start, *ports, "--include-dashboard=false"], stdout=subprocess.DEVNULL) as ray:
        try:
            wait_for(client, ray)
            send(f"ray://127.0.0.1:{client}")
        finally:
            ray.terminate()


def wait_for(port: int, ray: "subprocess.Popen[bytes]") -> None:
    while ray.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    sys.exit(f"Ray ended with {ray.returncode}.")


def send(address: str) -> None:
    with open_engine(address) as engine:
        assert not engine.shares_files
        quotient = engine.submit(divmod, 7, 2).result(600)
        error = engine.submit(divmod, 1, 0).exception(600)
        waiting = engine.submit(time.sleep, 600, timeout_s=600)
        assert waiting.cancel()
        assert engine.submit(divmod, 7, 2).result(600) == quotient
        print(quotient, type(error).__name__, "cancelled")


if __name__ == "__main__":
    main()
