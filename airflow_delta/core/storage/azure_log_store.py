"""Tables on Azure Blob Storage and Data Lake Storage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow_delta.core.storage.fsspec_log_store import FsspecLogStore
from airflow_delta.core.storage.object_answers import UNREPEATED, ObjectContent, ObjectPage

_GONE, _DELETED = 404, 300
_ONCE = {"retry_total": 0}  # azure-core itself would repeat each request for a minute


class AzureLogStore(FsspecLogStore):
    """A ``LogStore`` over adlfs. A file is created by an upload with ``If-None-Match: *``."""

    deleted_at_once = 256
    repeats = UNREPEATED

    async def _get(self, key: str) -> ObjectContent:
        # The parts after the first one are of the same version, or the download fails.
        answer = await self._container.download_blob(key, **_ONCE)
        content = await answer.readall()
        return ObjectContent(content=content, size=len(content), version=_quoted(answer.properties.etag))

    async def _get_tail(self, key: str, length: int) -> ObjectContent:
        properties = await self._blob(key).get_blob_properties(**_ONCE)  # Azure does not support suffix ranges
        size, version = properties.size, _quoted(properties.etag)
        start = max(size - length, 0)
        content = await self._get_range(key, start, size - start, version) if size else b""
        return ObjectContent(content=content, size=size, version=version)

    async def _get_range(self, key: str, start: int, length: int, version: str) -> bytes:
        answer = await self._container.download_blob(key, offset=start, length=length, headers={"If-Match": version}, **_ONCE)
        return await answer.readall()

    async def _head(self, key: str) -> None:
        await self._blob(key).get_blob_properties(**_ONCE)

    async def _put(self, key: str, content: bytes) -> None:
        await self._container.upload_blob(key, content, overwrite=True)

    async def _put_file(self, key: str, file: Path) -> None:
        with file.open("rb") as stream:
            await self._container.upload_blob(key, stream, overwrite=True)

    async def _create(self, key: str, content: bytes) -> None:
        await self._container.upload_blob(key, content, overwrite=False)

    async def _page(self, prefix: str, start: str, *, nested: bool, rest: Any) -> ObjectPage:
        how: dict[str, Any] = {"name_starts_with": prefix, "include": ["metadata"], **_ONCE}
        if start:
            how["start_from"] = prefix + start
        listing = self._container.list_blobs(**how) if nested else self._container.walk_blobs(delimiter="/", **how)
        pages = listing.by_page(rest)
        try:
            page = await anext(pages)
        except StopAsyncIteration:
            return ObjectPage(objects=[])
        objects = [
            (blob.name, blob.size, int(blob.last_modified.timestamp() * 1000), _quoted(blob.etag))
            async for blob in page
            if blob.get("size") is not None and (blob.metadata or {}).get("hdi_isfolder") != "true"
        ]
        return ObjectPage(objects=objects, rest=pages.continuation_token or None)

    async def _delete(self, keys: list[str]) -> None:
        answers = await self._container.delete_blobs(*keys, raise_on_any_failure=False)
        async for answer in answers:
            if answer.status_code >= _DELETED and answer.status_code != _GONE:
                raise PermissionError(f"a blob could not be deleted: {answer.status_code} {answer.reason}")

    @property
    def _endpoint(self) -> str:
        return str(self._container.primary_endpoint).partition("?")[0]

    @property
    def _container(self) -> Any:
        return self._filesystem.service_client.get_container_client(self._location.container)

    def _blob(self, key: str) -> Any:
        return self._container.get_blob_client(key)


def _quoted(etag: str | None) -> str:
    """The ETag as a header has it; listings omit the quotation marks."""
    return f'"{etag.strip(chr(34))}"' if etag else ""
