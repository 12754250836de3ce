"""Sessions of Spark. Lapwing asks in sessions of its own, which share the cluster with the caller's and nothing else.

A session has settings that change what a query means: time zone, ANSI mode, case, how literals are read. So every
answer gets a new session, in which all of them are set (MEANING). The caller's session stays as it is: its settings,
its views and which session is active. What only changes how fast a query runs is taken over from it, and so are
passwords of storage, which Spark keeps among its settings.

PySpark logs the message of a failed query, with the value that made it fail, and at DEBUG all that it sends, the salt
too. While Lapwing asks, its loggers are silent in that thread. What the JVM and the executors log is not ours:
docs/warehouse-spark.md says what remains.
Checked by: tests/engines/test_spark.py
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from lapwing.engines.temp_folder import TempFolder
from lapwing.errors import Misconfigured
from lapwing.expressions.refusal import hide_errors
from lapwing.quiet import quiet

JAVA = (17, 21)
"""The versions of Java that Spark 4.0 runs on."""

MEANING = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.caseSensitive": "false",
    "spark.sql.crossJoin.enabled": "true",
    "spark.sql.datetime.java8API.enabled": "false",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.groupByAliases": "true",
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled": "false",
    "spark.sql.legacy.setopsPrecedence.enabled": "false",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    # Spark would replace ${env:NAME} and ${spark.setting}, also in the analyst's constants, and tell her secrets.
    "spark.sql.variable.substitute": "false",
    # Parquet: dates as they are stored, and every row is read. Statistics of files leave NaN out, so a filter that goes
    # by them would keep or drop a row by the rows stored beside it, and the time would tell of other rows.
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.filterPushdown": "false",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.orc.filterPushdown": "false",
}
"""Settings that change what a query gives, as Lapwing's texts are written for."""

_FAST = ("shuffle.", "adaptive.", "autoBroadcast", "codegen.", "files.max", "join.")
_SPEED = tuple(f"spark.sql.{name}" for name in _FAST)
_PLACES = ("spark.sql.catalog.", "spark.sql.defaultCatalog")
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "pyspark.sql.connect.logging")
_GATEWAY = ("py4j.clientserver", "py4j.java_gateway")
_ADDRESS = re.compile(r"(sc|spark|k8s|mesos)://[^\s]+|yarn|local(-cluster)?(\[[\w*,. ]+\])?")
_SECRETS = re.compile(r"(?i)token|password|secret|key|user")


@dataclass(frozen=True, slots=True)
class SparkAddress:
    """A Spark Connect server, a master, or this machine. Its text has no token."""

    url: str = field(repr=False)

    @property
    def is_connect(self) -> bool:
        return self.url.startswith("sc://")

    @property
    def is_local(self) -> bool:
        """Whether Spark runs on this machine, and reads its files."""
        return self.url.startswith("local")

    def __str__(self) -> str:
        return re.sub(r"//[^/@]*@", "//", self.url.split(";")[0].rstrip("/"))


def read_spark_address(url: str, *, public: bool) -> SparkAddress:
    """An address as it was written. In a file, which others read too, it has no secret."""
    if not _ADDRESS.fullmatch(url):
        raise Misconfigured("a Spark address is sc://HOST:15002, spark://HOST:7077, yarn or local[2].")
    hidden = [part.split("=")[0] for part in url.split(";")[1:] if _SECRETS.search(part.split("=")[0])]
    if public and (hidden or re.search(r"//[^/@]*@", url)):
        raise Misconfigured(
            "the address of Spark holds a secret. Remove it, and give it to this process in the environment variable "
            "SPARK_CONNECT_AUTHENTICATE_TOKEN."
        )
    return SparkAddress(url)


def is_spark_address(text: str) -> bool:
    """Whether a text says where Spark is, and is no path."""
    return text == "yarn" or re.match(r"(sc|spark|k8s|mesos)://|local(-cluster)?(\[|$)", text) is not None


class Sessions:
    """Where new sessions come from: a session of the caller, or one that is made for an address."""

    def __init__(self, base: Any, *, owned: bool = False) -> None:
        self.base, self._owned = base, owned
        self.is_connect = ".connect." in type(base).__module__

    @contextmanager
    def fresh(self) -> Iterator[Any]:
        """A session of our own; its views end with it. Inside, failed queries are not logged; afterwards the caller's
        active session is the one before."""
        from pyspark.logger import PySparkLogger  # it makes loggers of a class of its own

        loggers = [*map(PySparkLogger.getLogger, _LOGGERS), *map(logging.getLogger, _GATEWAY)]
        with quiet(*loggers), self._active_kept():
            yield from self._session()

    def _session(self) -> Iterator[Any]:
        base = self.base
        session = type(base)(connection=base.client._builder) if self.is_connect else base.newSession()
        try:
            for name, value in self._taken_over().items():
                with suppress(Exception):  # some can be set only when Spark starts
                    session.conf.set(name, value)
            for name, value in MEANING.items():
                if session.conf.get(name) != value:  # Connect warns of old settings, even if they stay as they are
                    session.conf.set(name, value)
            yield session
        finally:
            if self.is_connect:
                session.release_session_on_close = False
                with suppress(Exception):
                    session.client.release_session()
                with suppress(Exception):
                    session.client.close()
            else:
                session._jsparkSession.sessionState().catalog().reset()

    def moved(self, data: Any, session: Any) -> Any:
        """The same rows in another session. Its plan stays the one that the caller's session made."""
        if self.is_connect:
            return type(data)(data._plan, session)
        plan = data._jdf.queryExecution().analyzed()
        made = session._jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, plan)
        return type(data)(made, session)

    def rows(self, data: pa.Table, session: Any = None) -> Any:
        return (self.base if session is None else session).createDataFrame(data)

    @contextmanager
    def tagged(self, session: Any, tag: str) -> Iterator[None]:
        """Inside, what this thread runs can be cancelled by this tag, from any thread."""
        jobs = session if self.is_connect else session.sparkContext
        add, remove = (jobs.addTag, jobs.removeTag) if self.is_connect else (jobs.addJobTag, jobs.removeJobTag)
        add(tag)
        try:
            yield
        finally:
            remove(tag)

    def cancel(self, session: Any, tag: str) -> None:
        if self.is_connect:
            session.interruptTag(tag)
        else:
            session.sparkContext.cancelJobsWithTag(tag)

    @contextmanager
    def _active_kept(self) -> Iterator[None]:
        """Making a DataFrame makes its session the active one; afterwards it is the caller's again."""
        if self.is_connect:
            yield
            return
        known = type(self.base)
        before, there = known._activeSession, self.base._jvm.SparkSession.getActiveSession()
        try:
            yield
        finally:
            known._activeSession = before
            if there.isDefined():
                self.base._jvm.SparkSession.setActiveSession(there.get())
            else:
                self.base._jvm.SparkSession.clearActiveSession()

    def _taken_over(self) -> dict[str, str]:
        """What the caller set in the running session: speed, catalogs, access to storage."""
        if self._owned:
            return {}
        kept = (*_SPEED, *_PLACES)
        return {k: v for k, v in self._settings().items() if k.startswith(kept) or not k.startswith("spark.")}

    def _settings(self) -> dict[str, str]:
        """In one call: `getAll` of PySpark makes three for each setting, which takes longer than a small query."""
        if self.is_connect:
            return dict(self.base.conf.getAll)
        listed = self.base._jsparkSession.conf().getAll().mkString("\0").split("\0")
        return dict(tuple(setting.split(" -> ", 1)) for setting in listed if " -> " in setting)


@cache
def open_sessions(address: SparkAddress) -> Sessions:
    """Connects to a server, or starts Spark in this process, where it runs until the process ends."""
    classic = load_pyspark()
    if address.is_connect:
        return Sessions(_connect(address), owned=True)
    running = classic._instantiatedSession
    if running is not None and running._sc._jsc is not None:
        if running.sparkContext.master != address.url:
            raise Misconfigured(
                f"this process runs Spark on {running.sparkContext.master} already, and cannot on {address} too. "
                "Pass a DataFrame of the running session, or use another process."
            )
        return Sessions(running)
    check_java()
    folder = TempFolder() if address.is_local else None
    session = _start(classic, address, folder)
    atexit.register(_stop, session, folder)
    return Sessions(session, owned=True)


def _stop(session: Any, folder: TempFolder | None) -> None:
    with suppress(Exception):
        session.stop()
    if folder is not None:
        folder.remove()


def _connect(address: SparkAddress) -> Any:
    packages = 'Spark Connect needs some packages. Install them: pip install "lapwing[spark-connect]".'
    with hide_errors(ImportError, lambda _: packages):
        from pyspark.sql.connect.session import SparkSession

    def unreachable(error: Exception) -> str:
        return f"no Spark answers at {address} ({type(error).__name__}). Check the address and the token."

    with hide_errors(Exception, unreachable):
        server = urlsplit(address.url)
        # Spark itself would try again for ten minutes.
        socket.create_connection((server.hostname or "", server.port or 15002), timeout=10).close()
        session = SparkSession(connection=address.url)
        session.version  # noqa: B018 (asks the server)
    return session


def _start(classic: Any, address: SparkAddress, folder: TempFolder | None) -> Any:
    builder = classic.builder.master(address.url).appName("lapwing").config("spark.ui.showConsoleProgress", "false")
    if folder is not None:  # on one machine nothing is left behind, and no port is opened but on loopback
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        local = {
            "spark.ui.enabled": "false",
            "spark.sql.catalogImplementation": "in-memory",
            "spark.sql.warehouse.dir": str(folder.path / "warehouse"),
            "spark.local.dir": str(folder.path),
            "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder.path} -Djava.io.tmpdir={folder.path}",
        }
        for name, value in local.items():
            builder = builder.config(name, value)

    def failed(error: Exception) -> str:
        return f"Spark does not start on {address} ({type(error).__name__}). Try it with spark-shell --master first."

    with hide_errors(Exception, failed):
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
    return session


def load_pyspark() -> Any:
    try:
        import pyspark
        from pyspark.sql import SparkSession
    except ImportError:
        raise Misconfigured('Spark needs a package. Install it: pip install "lapwing[spark]".') from None
    if not pyspark.__version__.startswith("4.0."):
        raise Misconfigured(
            f"pyspark is {pyspark.__version__}, and Lapwing's queries are tested on 4.0. "
            'Install it: pip install "lapwing[spark]".'
        )
    return SparkSession


def check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    wanted = "Install Java 17, and set JAVA_HOME to its folder."
    if java is None or not Path(java).exists():
        raise Misconfigured(f"Spark runs on Java 17 or 21, and this machine has none. {wanted}")
    output = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    number = re.search(r'version "(?:1\.)?([0-9]+)', output)
    version = int(number[1]) if number else 0
    if version not in JAVA:
        raise Misconfigured(f"Spark 4.0 runs on Java 17 or 21, and this is Java {version}. {wanted}")
