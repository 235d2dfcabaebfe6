"""Tables whose metadata is not what the protocol says: a change succeeds or is refused with a typed error."""

import json
from contextlib import suppress

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import DeltaError
from airflow_delta.core.schema import StructField, StructType
from airflow_delta.core.schema.data_types import LONG, STRING
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from airflow_delta.core.table_changes import FIRST, NewColumn, NewTable
from airflow_delta.core.table_features.feature import FEATURES
from airflow_delta.core.table_features.support import READABLE, WRITABLE

HUGE = "9" * 5_000
FIELD_KEYS = [
    "delta.columnMapping.id",
    "delta.columnMapping.physicalName",
    "delta.typeChanges",
    "delta.identity.start",
    "delta.identity.step",
    "delta.identity.highWaterMark",
    "delta.generationExpression",
    "delta.invariants",
    "CURRENT_DEFAULT",
]
PROPERTIES = [
    "delta.columnMapping.mode",
    "delta.columnMapping.maxColumnId",
    "delta.dataSkippingNumIndexedCols",
    "delta.dataSkippingStatsColumns",
    "delta.dataSkippingStringPrefixLength",
    "delta.enableTypeWidening",
    "delta.enableRowTracking",
    "delta.requireCheckpointProtectionBeforeVersion",
    "delta.checkpointInterval",
    "delta.constraints.c",
    "delta.dropFeatureTruncateHistory.retentionDuration",
]
junk = st.sampled_from([None, True, 1, -1, 2**70, 1.5, "1", "x", "a > 1", "(", HUGE, [], {}, [{"toType": 1}]])
text = st.sampled_from(["", "true", "name", "id", "v2", "0", "-1", "٣", "1e3", "x", "a,b", "`", "a > 1", "( ", HUGE])
clustering = st.sampled_from(
    ["{", "[]", "null", '{"clusteringColumns":null}', '{"clusteringColumns":[[1]]}', '{"clusteringColumns":"a"}', "[" * 9_000]
)
schemas = st.builds(
    lambda a, x: {
        "type": "struct",
        "fields": [
            {"name": "a", "type": "integer", "nullable": True, "metadata": a},
            {"name": "b", "type": "string", "nullable": True, "metadata": {}},
            {
                "name": "st",
                "type": {"type": "struct", "fields": [{"name": "x", "type": "short", "nullable": True, "metadata": x}]},
                "nullable": True,
                "metadata": {},
            },
        ],
    },
    *[st.dictionaries(st.sampled_from(FIELD_KEYS), junk, max_size=2)] * 2,
)
LISTED = sorted(READABLE & WRITABLE & FEATURES.keys())
CHANGES = [
    lambda log: log.alter().add_columns(NewColumn(path="st.n", type=STRING)),
    lambda log: log.alter().rename_column("a", "n"),
    lambda log: log.alter().drop_columns("st"),
    lambda log: log.alter().widen_column("a", LONG),
    lambda log: log.alter().widen_column("st.x", LONG),
    lambda log: log.alter().set_default("a", "1"),
    lambda log: log.alter().move_column("b", FIRST),
    lambda log: log.alter().sync_identity("a", 5),
    lambda log: log.alter().set_properties({"delta.columnMapping.mode": "name"}),
    lambda log: log.alter().set_properties({"delta.enableRowTracking": "true"}),
    lambda log: log.alter().unset_properties(*PROPERTIES, if_exists=True),
    lambda log: log.alter().add_constraint("d", "a > 1"),
    lambda log: log.alter().cluster_by("a", "st.x"),
    lambda log: log.alter().cluster_by(),
    lambda log: log.create(NewTable(schema=StructType((StructField("a", LONG),))), mode="replace"),
    *[lambda log, name=name: log.drop_feature(name) for name in LISTED],
    lambda log: log.drop_feature("checkpointProtection", truncate_history=True),
]


@given(schemas, st.dictionaries(st.sampled_from(PROPERTIES), text, max_size=3), clustering, st.lists(st.sampled_from(CHANGES)))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_change_of_a_strange_table_is_made_or_refused(schema, configuration, domain, changes):
    readers = [name for name in LISTED if FEATURES[name].for_readers]
    actions = [
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": readers, "writerFeatures": LISTED}},
        {"metaData": {"id": "x", "schemaString": json.dumps(schema), "partitionColumns": [], "configuration": configuration}},
        {"domainMetadata": {"domain": "delta.clustering", "configuration": domain, "removed": False}},
    ]
    store = InMemoryLogStore("memory://strange", clock=lambda: 0)
    store.write("_delta_log/00000000000000000000.json", "\n".join(map(json.dumps, actions)).encode())
    log = DeltaLog.for_table("memory://strange", store=store, clock=lambda: 0)
    for change in changes:
        with suppress(DeltaError):
            assert not change(log).hook_failures
