"""A Spark of our own: two threads, Java 17 wherever it is, and everything it writes in a folder that goes."""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lapwing.engines.temp_folder import TempFolder
from support.needs import missing

LOGS = """
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {folder}/spark.log
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %c: %m%n%ex
"""
"""Everything that the JVM logs goes to a file, which tests search."""


def java_home() -> Path:
    """A Java that Spark runs on: that of JAVA_HOME, or one of Debian's packages; skips without one."""
    homes = [Path(os.environ["JAVA_HOME"])] if "JAVA_HOME" in os.environ else []
    homes += sorted(Path("/usr/lib/jvm").glob("*17*")) if Path("/usr/lib/jvm").exists() else []
    for home in homes:
        release = home / "release"
        told = release.read_text() if release.exists() else ""
        if re.search(r'JAVA_VERSION="(17|21)\b', told) and (home / "bin" / "java").exists():
            return home
    return missing("Java 17", "openjdk-17-jre-headless")


@contextmanager
def running(master: str | None = None, settings: Mapping[str, str] | None = None) -> Iterator[Any]:
    """A session on this master, which also is a Spark Connect server at `session.remote`. `session.folder` holds its
    logs and those of its executors. At the end all is gone.

    LAPWING_SPARK_MASTER puts every test of Spark on another one, such as local-cluster[2,1,1024]."""
    master = master or os.environ.get("LAPWING_SPARK_MASTER", "local[2]")
    try:
        from pyspark import SparkContext
        from pyspark.sql import SparkSession
    except ImportError:
        missing("pyspark", "python3-pip; pip install 'lapwing[spark]'")
    owned = TempFolder()  # what a killed run leaves is removed by the next one
    folder = owned.path
    (folder / "log4j2.properties").write_text(LOGS.format(folder=folder))
    known = {name: os.environ.get(name) for name in ("JAVA_HOME", "SPARK_LOCAL_IP", "PYSPARK_PYTHON", "SPARK_HOME")}
    os.environ.update(JAVA_HOME=str(java_home()), SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable)
    os.environ["SPARK_HOME"] = str(spark_home(folder / "home"))
    port = _spare_port()
    builder = SparkSession.builder.master(master).appName("lapwing-tests")
    for name, value in {**_settings(folder, port), **(settings or {})}.items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
        session.folder, session.remote = folder, f"sc://127.0.0.1:{port}"
        try:
            yield session
        finally:
            session.stop()
            gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait(60)
    finally:
        owned.remove()
        for name, before in known.items():
            if before is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = before


def _spare_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def spark_home(home: Path) -> Path:
    """Spark as it is installed, under another path: executors of a local cluster work in the folder `work` there."""
    import pyspark

    home.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        (home / part.name).symlink_to(part)
    return home


def _settings(folder: Path, port: int) -> dict[str, str]:
    options = (
        "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "  # a better compiler takes longer than all these small queries
        f"-Dderby.system.home={folder} -Djava.io.tmpdir={folder} "
        f"-Dlog4j2.configurationFile=file://{folder}/log4j2.properties"
    )
    return {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.local.dir": str(folder),
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": options,
        "spark.executor.extraJavaOptions": options,
    }
