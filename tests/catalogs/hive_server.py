"""A Hive metastore process from the JARs of pip's pyspark, on an embedded Derby."""

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pyspark

from tests.free_port import free_port

JARS = Path(pyspark.__file__).parent / "jars"
SETTINGS = """<configuration>
{properties}
</configuration>"""


def start_metastore(folder, seconds=120):
    """Start one whose database and warehouse lie in ``folder``; returns its URI, and a function that stops it."""
    port = free_port()
    properties = {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore;create=true",
        "hive.metastore.warehouse.dir": f"file:{folder}/warehouse",
        "hive.metastore.schema.verification": "false",
        "datanucleus.schema.autoCreateAll": "true",
        "hive.metastore.event.db.notification.api.auth": "false",
        "hive.async.log.enabled": "false",  # its library is not among the JARs
    }
    texts = (f"<property><name>{name}</name><value>{value}</value></property>" for name, value in properties.items())
    conf = Path(folder) / "conf"
    conf.mkdir(parents=True)
    (conf / "hive-site.xml").write_text(SETTINGS.format(properties="\n".join(texts)))
    log = (Path(folder) / "metastore.log").open("w")
    command = ["java", "-cp", f"{conf}{os.pathsep}{JARS}/*", f"-Dderby.stream.error.file={folder}/derby.log"]
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.net", "java.lang", "java.util")]
    main = ["org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(port)]
    process = subprocess.Popen([*command, *opened, *main], stdout=log, stderr=log, cwd=folder, start_new_session=True)

    def stop():
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        log.close()

    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return f"thrift://127.0.0.1:{port}", stop
        time.sleep(0.2)  # the JVM is still starting
    stop()
    raise RuntimeError((Path(folder) / "metastore.log").read_text()[-3_000:])
