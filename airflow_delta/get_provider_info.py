"""What Airflow discovers of this package."""

from __future__ import annotations

from typing import Any

_INTEGRATION = "Delta Lake"


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
                    "airflow_delta.operators.checkpoint",
                    "airflow_delta.operators.merge",
                    "airflow_delta.operators.optimize",
                    "airflow_delta.operators.sql",
                    "airflow_delta.operators.vacuum",
                    "airflow_delta.operators.write",
                ],
            }
        ],
        "sensors": [{"integration-name": _INTEGRATION, "python-modules": ["airflow_delta.sensors.commit"]}],
        "triggers": [{"integration-name": _INTEGRATION, "python-modules": ["airflow_delta.triggers.commit"]}],
        "config": {
            "delta": {
                "description": "Settings of the Delta Lake operators.",
                "options": {
                    "scratch_uri": {
                        "description": (
                            "Where jobs leave their results: a place that Spark's driver can write and Airflow's workers can "
                            "read. When empty, a hidden folder beside the table is used."
                        ),
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "s3://lake/_scratch",
                        "default": "",
                    }
                },
            }
        },
    }
