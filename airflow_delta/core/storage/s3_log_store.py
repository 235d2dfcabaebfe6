"""Tables on Amazon S3 and compatible stores."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from airflow_delta.core.errors import UnsupportedStorageError
from airflow_delta.core.storage.fsspec_log_store import FsspecLogStore
from airflow_delta.core.storage.object_answers import ObjectContent, ObjectPage
from airflow_delta.core.storage.object_filesystem import OPTION_CURES
from airflow_delta.core.storage.object_location import ObjectService


class S3LogStore(FsspecLogStore):
    """A ``LogStore`` over s3fs. A file is created by a PUT with ``If-None-Match: *`` (AWS, MinIO, R2, recent Ceph)."""

    deleted_at_once = 1000

    async def _get(self, key: str) -> ObjectContent:
        content, answer = await self._body(key)
        return ObjectContent(content=content, size=len(content), version=answer.get("ETag", ""))

    async def _get_tail(self, key: str, length: int) -> ObjectContent:
        content, answer = await self._body(key, Range=f"bytes=-{length}")
        size = answer.get("ContentRange", "").rpartition("/")[2] or len(content)
        return ObjectContent(content=content, size=int(size), version=answer["ETag"])

    async def _get_range(self, key: str, start: int, length: int, version: str) -> bytes:
        return (await self._body(key, Range=f"bytes={start}-{start + length - 1}", IfMatch=version))[0]

    async def _head(self, key: str) -> None:
        await self._call("head_object", Key=key)

    async def _put(self, key: str, content: bytes) -> None:
        await self._call("put_object", Key=key, Body=content)

    async def _put_file(self, key: str, file: Path) -> None:
        await self._filesystem._put_file(str(file), f"{self._location.container}/{key}")  # noqa: SLF001 - fsspec's way to await

    async def _create(self, key: str, content: bytes) -> None:
        await self._call("put_object", Key=key, Body=content, IfNoneMatch="*")

    async def _page(self, prefix: str, start: str, *, nested: bool, rest: Any) -> ObjectPage:
        # StartAfter excludes the key itself, so the last character is cut off, which includes some earlier keys.
        optional = {
            "Delimiter": None if nested else "/",
            "StartAfter": prefix + start[:-1] if start[:-1] else None,
            "ContinuationToken": rest,
        }
        given = {name: value for name, value in optional.items() if value is not None}
        answer = await self._call("list_objects_v2", Prefix=prefix, **given)
        return ObjectPage(
            objects=[
                (item["Key"], item["Size"], int(item["LastModified"].timestamp() * 1000), item.get("ETag", ""))
                for item in answer.get("Contents", ())
            ],
            rest=answer.get("NextContinuationToken"),
        )

    async def _delete(self, keys: list[str]) -> None:
        answer = await self._call("delete_objects", Delete={"Objects": [{"Key": key} for key in keys], "Quiet": True})
        for failure in answer.get("Errors", ()):
            if failure.get("Code") == "AccessDenied":
                raise PermissionError(f"{failure.get('Key')} may not be deleted")
            raise OSError(f"{failure.get('Key')} could not be deleted: {failure.get('Code')}")

    @property
    def _endpoint(self) -> str:
        client = self._options.get("client_kwargs") or {}
        endpoint = self._options.get("endpoint_url") or client.get("endpoint_url")
        return str(endpoint or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or "")

    async def _body(self, key: str, **how: Any) -> tuple[bytes, dict[str, Any]]:
        answer = await self._call("get_object", Key=key, **how)
        async with answer["Body"] as stream:
            return await stream.read(), answer

    async def _call(self, method: str, **arguments: Any) -> dict[str, Any]:
        await self._connect()
        return await self._filesystem._call_s3(method, Bucket=self._location.container, **arguments)  # noqa: SLF001 - the same

    async def _connect(self) -> None:
        """Create the client, unless it exists; options that it does not accept fail on every try."""
        try:
            await self._filesystem.set_session()
        except (AttributeError, TypeError) as error:  # the error texts may contain a secret
            detail = f"no client is made of the storage options {sorted(self._options)} ({type(error).__name__})"
            raise UnsupportedStorageError(uri=self._table_uri, detail=detail, cure=OPTION_CURES[ObjectService.S3]) from None
