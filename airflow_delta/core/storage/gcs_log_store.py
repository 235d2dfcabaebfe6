"""Tables on Google Cloud Storage."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any

from airflow_delta.core.storage.fsspec_log_store import FsspecLogStore
from airflow_delta.core.storage.object_answers import UNREPEATED, ObjectContent, ObjectPage
from airflow_delta.core.storage.storage_answers import Meaning, meaning_of

_OBJECT = "b/{}/o/{}"
_OBJECTS = "b/{}/o"


class GcsLogStore(FsspecLogStore):
    """A ``LogStore`` over gcsfs. A file is created by an upload with ``ifGenerationMatch=0``."""

    deleted_at_once = 100  # concurrent requests: the JSON API deletes one object per request
    repeats = UNREPEATED

    async def _get(self, key: str) -> ObjectContent:
        content, headers = await self._media(key)
        return ObjectContent(content=content, size=len(content), version=headers.get("X-Goog-Generation", ""))

    async def _get_tail(self, key: str, length: int) -> ObjectContent:
        content, headers = await self._media(key, headers={"Range": f"bytes=-{length}"})
        size = headers.get("Content-Range", "").rpartition("/")[2] or len(content)
        return ObjectContent(content=content, size=int(size), version=headers.get("X-Goog-Generation", ""))

    async def _get_range(self, key: str, start: int, length: int, version: str) -> bytes:
        headers = {"Range": f"bytes={start}-{start + length - 1}"}
        return (await self._media(key, headers=headers, generation=version or None))[0]

    async def _head(self, key: str) -> None:
        await self._call("GET", _OBJECT, key, fields="size")

    async def _put(self, key: str, content: bytes) -> None:
        await self._post(key, content)

    async def _put_file(self, key: str, file: Path) -> None:
        await self._filesystem._put_file(str(file), f"{self._location.container}/{key}")  # noqa: SLF001 - fsspec's way to await

    async def _create(self, key: str, content: bytes) -> None:
        await self._post(key, content, ifGenerationMatch="0")

    async def _page(self, prefix: str, start: str, *, nested: bool, rest: Any) -> ObjectPage:
        # Not ``updated``, the time of the metadata, which changes when a lifecycle rule changes the storage class.
        fields = "nextPageToken,items(name,size,timeCreated,generation)"
        delimiter = None if nested else "/"
        _, content = await self._call(
            "GET", _OBJECTS, prefix=prefix, startOffset=prefix + start, delimiter=delimiter, pageToken=rest, fields=fields
        )
        answer = json.loads(content)
        return ObjectPage(
            objects=[
                (item["name"], int(item["size"]), _milliseconds(item["timeCreated"]), str(item.get("generation", "")))
                for item in answer.get("items", ())
            ],
            rest=answer.get("nextPageToken"),
        )

    async def _delete(self, keys: list[str]) -> None:
        for outcome in await asyncio.gather(*(self._call("DELETE", _OBJECT, key) for key in keys), return_exceptions=True):
            if isinstance(outcome, BaseException) and meaning_of(outcome) is not Meaning.ABSENT:
                raise outcome

    @property
    def _endpoint(self) -> str:
        return str(self._options.get("endpoint_url") or os.environ.get("STORAGE_EMULATOR_HOST") or "")

    async def _media(self, key: str, **how: Any) -> tuple[bytes, Any]:
        place = f"{self._filesystem._location}/download/storage/v1/{_OBJECT}"  # noqa: SLF001 - gcsfs says it nowhere else
        headers, content = await self._call("GET", place, key, alt="media", **how)
        return content, headers

    async def _post(self, key: str, content: bytes, **condition: str) -> None:
        # Not gcsfs' multipart upload, whose fixed boundary may occur in a file.
        place = f"{self._filesystem._location}/upload/storage/v1/{_OBJECTS}"  # noqa: SLF001 - the same
        headers = {"Content-Type": "application/octet-stream"}
        await self._call("POST", place, uploadType="media", name=key, data=content, headers=headers, **condition)

    async def _call(self, method: str, place: str, *keys: str, **arguments: Any) -> Any:
        request = type(self._filesystem)._request  # noqa: SLF001 - gcsfs says it nowhere else
        if method != "POST":  # repeatable, but without gcsfs' six tries, which log a traceback in the end
            request = inspect.unwrap(request)
        try:
            _, headers, _, content = await request(
                self._filesystem, method, place, self._location.container, *keys, **arguments
            )
        except FileNotFoundError:
            if keys:
                raise
            raise PermissionError("the bucket does not exist") from None
        return headers, content


def _milliseconds(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp() * 1000)
