"""The stores of S3, Azure and GCS keep the promises of a LogStore, also with slashes and signs in the table's path."""

import pytest

from airflow_delta.core.storage.resolve import log_store_for
from tests.core.storage.log_store_contract import LogStoreContract


class TestS3LogStore(LogStoreContract):
    @pytest.fixture
    def store(self, s3):
        return log_store_for(f"{s3.uri}/lake/a table%20 #?ü", s3.options)


class TestS3LogStoreInTheRootOfABucket(LogStoreContract):
    @pytest.fixture
    def store(self, s3):
        return log_store_for(f"{s3.uri}/", s3.options)


class TestAzureLogStore(LogStoreContract):
    @pytest.fixture
    def store(self, azure):
        return log_store_for(f"{azure.uri}/lake/a table%20 #?ü", azure.options)


class TestGcsLogStore(LogStoreContract):
    @pytest.fixture
    def store(self, gcs):
        return log_store_for(f"{gcs.uri}/lake/a table%20 #?ü", gcs.options)
