"""The provider info by which Airflow discovers this package."""

from __future__ import annotations

from typing import Any

_INTEGRATION = "Delta Lake"

_DELTA_CONNECTION = {
    "connection-type": "delta",
    "hook-class-name": "airflow_delta.hooks.delta.DeltaHook",
    "hook-name": "Delta Lake",
    "ui-field-behaviour": {
        "hidden-fields": ["port", "schema", "login", "password"],
        "relabeling": {"host": "Table root"},
        "placeholders": {"host": "s3://lake/tables"},
    },
    "conn-fields": {
        "storage_conn_id": {
            "label": "Storage connection",
            "description": (
                "The connection of the object store (Amazon Web Services, Google Cloud or Azure), whose keys are used. "
                "When empty, the identity of the machines."
            ),
            "schema": {"type": ["string", "null"]},
        },
        "storage_options": {
            "label": "Storage options",
            "description": "More options of the store's fsspec filesystem, as a JSON object. No secrets: they are shown here.",
            "schema": {"type": ["object", "null"]},
        },
        "allowed_prefixes": {
            "label": "Allowed prefixes",
            "description": (
                "Locations outside of table roots from which tables may read files, as a JSON list: the source of another "
                "engine's shallow clone, say."
            ),
            "schema": {"type": ["array", "null"], "items": {"type": "string"}},
        },
        "catalog": {
            "label": "Catalog",
            "description": (
                'Where tables have names: glue, or an object such as {"type": "hive", "uri": "thrift://metastore:9083"}. '
                "conn_id in it names the connection with its credentials. No secrets: they are shown here."
            ),
            "schema": {"type": ["object", "string", "null"]},
        },
        "scratch_uri": {
            "label": "Scratch URI",
            "description": "Location of job results: Spark's driver writes there, Airflow's workers read.",
            "schema": {"type": ["string", "null"]},
        },
        "workers_see_tables": {
            "label": "Workers have access to the tables",
            "description": "If false, only jobs read tables; a scratch URI is required, and sensors are refused.",
            "schema": {"type": ["boolean", "null"], "default": True},
        },
    },
}


def get_provider_info() -> dict[str, Any]:
    """The provider's description, in the form of Airflow's ``provider_info.schema.json``."""
    return {
        "package-name": "airflow-delta",
        "name": _INTEGRATION,
        "description": "Delta Lake pipelines on your own Spark, with no Delta JAR.",
        "integrations": [{"integration-name": _INTEGRATION, "external-doc-url": "https://delta.io", "tags": ["software"]}],
        "operators": [
            {
                "integration-name": _INTEGRATION,
                "python-modules": [
                    "airflow_delta.operators.alter",
                    "airflow_delta.operators.checkpoint",
                    "airflow_delta.operators.clone",
                    "airflow_delta.operators.convert",
                    "airflow_delta.operators.copy_into",
                    "airflow_delta.operators.create",
                    "airflow_delta.operators.delete",
                    "airflow_delta.operators.drop",
                    "airflow_delta.operators.expect",
                    "airflow_delta.operators.health",
                    "airflow_delta.operators.log_maintenance",
                    "airflow_delta.operators.maintenance",
                    "airflow_delta.operators.manifest",
                    "airflow_delta.operators.merge",
                    "airflow_delta.operators.new_commits",
                    "airflow_delta.operators.optimize",
                    "airflow_delta.operators.pin",
                    "airflow_delta.operators.publish",
                    "airflow_delta.operators.python",
                    "airflow_delta.operators.reorg",
                    "airflow_delta.operators.restore",
                    "airflow_delta.operators.result",
                    "airflow_delta.operators.sql",
                    "airflow_delta.operators.statements",
                    "airflow_delta.operators.statistics",
                    "airflow_delta.operators.tables",
                    "airflow_delta.operators.update",
                    "airflow_delta.operators.vacuum",
                    "airflow_delta.operators.write",
                ],
            }
        ],
        "sensors": [
            {
                "integration-name": _INTEGRATION,
                "python-modules": ["airflow_delta.sensors.commit", "airflow_delta.sensors.partition"],
            }
        ],
        "triggers": [
            {
                "integration-name": _INTEGRATION,
                "python-modules": [
                    "airflow_delta.triggers.commit",
                    "airflow_delta.triggers.commit_event",
                    "airflow_delta.triggers.result",
                ],
            }
        ],
        "hooks": [{"integration-name": _INTEGRATION, "python-modules": ["airflow_delta.hooks.delta"]}],
        "asset-uris": [
            {
                # Only schemes that no other provider registers, so that assets of other providers keep their URIs.
                "schemes": ["abfs", "abfss", "delta-table"],
                "handler": None,
                "factory": "airflow_delta.assets.create_asset",
                "to_openlineage_converter": "airflow_delta.assets.to_openlineage",
            }
        ],
        "task-decorators": [{"class-name": "airflow_delta.operators.task_delta.delta_task", "name": "delta"}],
        "extra-links": [
            "airflow_delta.observe.links.DeltaTableHistoryLink",
            "airflow_delta.observe.links.SparkApplicationLink",
        ],
        "notifications": ["airflow_delta.notifications.DeltaConflictNotifier"],
        "plugins": [{"name": "delta", "plugin-class": "airflow_delta.plugin.DeltaPlugin"}],
        "connection-types": [_DELTA_CONNECTION],
        "config": {
            "delta": {
                "description": "Settings of the Delta Lake operators.",
                "options": {
                    "scratch_uri": {
                        "description": (
                            "Location of job results: Spark's driver must be able to write there, and Airflow's workers to "
                            "read. When empty, a hidden folder inside of the table is used."
                        ),
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "s3://lake/_scratch",
                        "default": "",
                    },
                    "workers_see_tables": {
                        "description": (
                            "Whether Airflow's workers have access to the tables. If false, only jobs read tables, a scratch "
                            "URI is required, and sensors are refused. A connection may override it."
                        ),
                        "version_added": "0.1.0",
                        "type": "boolean",
                        "example": None,
                        "default": "True",
                    },
                    "driver_environment": {
                        "description": (
                            "Variables of the workers' environment that spark-submit gets beside those of Spark, Hadoop, "
                            "clouds, languages and proxies: names with commas between; one with * at its end stands for all "
                            "that begin so. Airflow's own variables stay with Airflow."
                        ),
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "TEAM_TOKEN,MINIO_*",
                        "default": "",
                    },
                    "spark_history_url": {
                        "description": (
                            "Spark's history server, to which tasks link their applications. On YARN the resource manager that "
                            "the Spark connection names goes first."
                        ),
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "http://history.example.org:18080",
                        "default": "",
                    },
                },
            }
        },
    }
