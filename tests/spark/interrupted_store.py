"""A store of a table's log in which something happens right before a commit."""

from airflow_delta.core.storage.local_log_store import LocalLogStore


class InterruptedStore(LocalLogStore):
    """A local store that calls ``action`` right before its first commit file is written: after all reading."""

    def __init__(self, table_uri, action):
        super().__init__(table_uri)
        self.action = action

    def write_if_absent(self, path, content):
        action, self.action = self.action, lambda: None
        action()
        super().write_if_absent(path, content)
