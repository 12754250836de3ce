"""A client that is killed while its query runs: the query ends on the cluster, and nothing of it stays behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.spark import java_home, spark_home

ROOT = Path(__file__).parents[2]
MOST = 150
"""Seconds that anything may take here before the test fails. The query itself would take hours."""

SERVER = """
import sys
from support.spark import running

limits = {
    "spark.connect.execute.reattachable.senderMaxStreamDuration": "2s",
    "spark.connect.execute.manager.detachedTimeout": "3s",
    "spark.connect.execute.manager.maintenanceInterval": "1s",
    "spark.connect.session.manager.defaultSessionTimeout": "5s",
    "spark.connect.session.manager.maintenanceInterval": "1s",
}
with running("local[2]", limits) as session:
    print(session.remote, flush=True)
    tracker = session.sparkContext.statusTracker()
    service = getattr(session._jvm.org.apache.spark.sql.connect.service, "SparkConnectService$")
    sessions = getattr(service, "MODULE$").sessionManager()
    for _ in sys.stdin:
        print(len(tracker.getActiveJobsIds()), sessions.listActiveSessions().size(), flush=True)
"""
"""A Spark Connect server that says how many jobs and sessions it has, once for each line it reads."""

CLIENT = """
import sys, threading, time
from lapwing.expressions.table import Field, Table
from lapwing.engines.dialect import EngineQuery
from lapwing.engines.source import SparkTable
from lapwing.engines.spark import SparkEngine
from lapwing.engines.spark_session import open_sessions, read_spark_address
from lapwing.expressions.types import Type

address = read_spark_address(sys.argv[1], public=True)
engine = SparkEngine([(Table("t", (Field("x", Type.INTEGER),), None), SparkTable(address, sys.argv[2]))], salt=1)

def tell():
    tracker = open_sessions(address).base.sparkContext.statusTracker()
    while not tracker.getActiveJobsIds():
        time.sleep(0.1)
    print("running", flush=True)

if not address.is_connect:
    threading.Thread(target=tell, daemon=True).start()
engine.fetch(EngineQuery(
    "SELECT COUNT(*) AS n FROM t CROSS JOIN RANGE(1000000) AS a CROSS JOIN RANGE(1000000) AS b "
    "WHERE XXHASH64(a.id, b.id, t.x) = 7", {}))
"""


@contextmanager
def started(code: str, *arguments: str, env: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", code, *arguments]
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def world(**more: str) -> dict[str, str]:
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    ours = {"PYTHONPATH": paths, "JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": "127.0.0.1"}
    return {**os.environ, **ours, **more}


def wait_for(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + MOST
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.2)


@pytest.fixture
def data(tmp_path: Path) -> str:
    (tmp_path / "data").mkdir()
    pq.write_table(pa.table({"x": [1, 2, 3]}), tmp_path / "data" / "one.parquet")
    return f"{tmp_path}/data/"


@pytest.mark.slow
def test_a_connect_server_ends_the_query_of_a_client_that_is_gone(data: str) -> None:
    """threat:A26 after `detachedTimeout`; its sessions, with their views, after `defaultSessionTimeout`."""
    pytest.importorskip("grpc")
    with started(SERVER, env=world()) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        remote = server.stdout.readline().strip()

        def held() -> tuple[int, int]:
            print(file=server.stdin, flush=True)
            jobs, sessions = server.stdout.readline().split()  # type: ignore[union-attr]
            return int(jobs), int(sessions)

        with started(CLIENT, remote, data, env=world()) as client:
            wait_for(lambda: held()[0] > 0)
            assert held()[1] > 0
            client.kill()
            client.wait(MOST)
        wait_for(lambda: held() == (0, 0))
        assert held() == (0, 0)
        server.stdin.close()
        assert server.wait(MOST) == 0


@pytest.mark.slow
def test_a_cluster_ends_with_the_client_that_started_it(data: str, tmp_path: Path) -> None:
    """Driver and executors go within seconds; what they leave is in one folder, which the next process removes."""
    (tmp_path / "temp").mkdir()
    (tmp_path / "home").mkdir()
    mark = uuid4().hex
    env = world(
        TMPDIR=str(tmp_path / "temp"), SPARK_HOME=str(spark_home(tmp_path / "home" / "spark")), LAPWING_MARK=mark
    )
    with started(CLIENT, "local-cluster[2,1,1024]", data, env=env) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "running\n"
        assert len(marked(mark)) >= 4  # this client, the driver and two executors
        client.kill()
        client.wait(MOST)
    wait_for(lambda: not marked(mark))
    left = [path.name for path in (tmp_path / "temp").iterdir()]
    assert all(name.startswith("lapwing-temp-") for name in left), left
    code = "from lapwing.engines.temp_folder import TempFolder; TempFolder().remove()"
    assert subprocess.run([sys.executable, "-c", code], env=env, check=False).returncode == 0
    assert list((tmp_path / "temp").iterdir()) == []


def marked(mark: str) -> list[int]:
    """The processes that have inherited this environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if f"LAPWING_MARK={mark}".encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found
