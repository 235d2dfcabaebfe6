"""A committer to a managed table of Unity Catalog that shares no code with ours: ``python foreign_committer.py ORDER``.

It appends files one by one, each with the number of rows in the order. For each it reads the ratified commits, stages a commit,
has it ratified, publishes all ratified commits in order, and reports that. It reads only the last commit, for its time.
"""

import contextlib
import json
import os
import sys
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq


class Committer:
    def __init__(self, order):
        self.order = order
        self.table = {"table_id": order["table_id"], "table_uri": order["table_uri"]}
        self.root = Path(unquote(urlsplit(order["table_uri"]).path)) / "_delta_log"
        (self.root / "_staged_commits").mkdir(exist_ok=True)

    def send(self, method, **document):
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.order['token']}"}
        url = f"{self.order['server']}/api/2.1/unity-catalog/delta/preview/commits"
        body = json.dumps(self.table | document).encode()
        with urllib.request.urlopen(urllib.request.Request(url, body, headers, method=method), timeout=60) as response:
            return json.loads(response.read())

    def ratified(self):
        answer = self.send("GET", start_version=0)
        infos = sorted(answer["commits"], key=lambda info: info["version"])
        return infos, max(answer["latest_table_version"], 0)

    def time_of(self, version, infos):
        staged = {info["version"]: self.root / "_staged_commits" / info["file_name"] for info in infos}
        path = staged.get(version, self.root / f"{version:020d}.json")
        return json.loads(path.read_text().splitlines()[0])["commitInfo"]["inCommitTimestamp"]

    def write_rows(self, path, first):
        """Write rows with ids from ``first`` on; return the file's size and statistics."""
        count = self.order.get("rows", 0)
        if not count:
            return 1, {}
        file = self.root.parent / path
        pq.write_table(pa.table({"id": range(first, first + count), "note": [f"writer {self.order['writer']}"] * count}), file)
        return file.stat().st_size, {"stats": json.dumps({"numRecords": count})}

    def append(self, path, first=0):
        size, stats = self.write_rows(path, first)
        while True:
            infos, latest = self.ratified()
            now = max(int(time.time() * 1000), self.time_of(latest, infos) + 1)
            info = {"inCommitTimestamp": now, "timestamp": now, "operation": "WRITE", "txnId": str(uuid.uuid4())}
            info["isBlindAppend"] = True
            add = {"path": path, "partitionValues": {}, "size": size, "modificationTime": now, "dataChange": True}
            content = f"{json.dumps({'commitInfo': info})}\n{json.dumps({'add': add | stats})}\n"
            name = f"{latest + 1:020d}.{uuid.uuid4()}.json"
            staged = self.root / "_staged_commits" / name
            staged.write_text(content)
            proposed = {
                "version": latest + 1,
                "timestamp": now,
                "file_name": name,
                "file_size": len(content),
                "file_modification_timestamp": int(staged.stat().st_mtime * 1000),
            }
            try:
                self.send("POST", commit_info=proposed)
            except urllib.error.HTTPError as error:
                if error.code == 429:
                    self.publish()
                elif error.code != 409:
                    raise
                continue
            self.publish()
            return latest + 1

    def publish(self):
        infos, _ = self.ratified()
        for info in infos:
            with contextlib.suppress(FileExistsError):
                os.link(self.root / "_staged_commits" / info["file_name"], self.root / f"{info['version']:020d}.json")
        if infos:
            self.send("POST", latest_backfilled_version=infos[-1]["version"])


def main():
    order = json.loads(sys.argv[1])
    committer = Committer(order)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while not Path(order["go"]).exists():
        time.sleep(0.01)
    for number in range(order["appends"]):
        version = committer.append(f"{order['writer']}-{number}", order["writer"] * 1_000_000 + number * 1_000)
        sys.stdout.write(f"{version}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
