"""Rules that an attacker with write access to a table puts into its metadata never run with the rights of a job."""

import getpass
import json
import os
from dataclasses import replace

import pytest

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import DeltaError
from airflow_delta.core.schema import StructField, StructType, parse_schema, schema_json
from airflow_delta.core.schema.data_types import LONG, STRING
from airflow_delta.core.statements import MatchedUpdate, NotMatchedInsert
from airflow_delta.core.table_changes.columns import generated, with_default
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.spark.constraints.permitted import FUNCTIONS, permitted_expression
from airflow_delta.spark.constraints.violations import readable
from airflow_delta.spark.errors import TableRuleRefusedError
from airflow_delta.spark.io.scan import read_table
from airflow_delta.spark.jvm import is_connect
from airflow_delta.spark.schema_conversion import to_spark
from tests.spark.needs import looks_into_the_jvm, needs_doubled_quotes

TABLE = "s3://lake/flights"
COLUMNS = StructType((StructField("id", LONG), StructField("s", STRING)))

NOT_PLAIN = pytest.mark.classic(reason="over Spark Connect, only plain rules can be checked")
HOSTILE = {
    "java_method('java.lang.System', 'getenv', 'HOME')": "the function java_method",
    "reflect('java.lang.System', 'getenv', 'HOME')": "the function reflect",
    "try_reflect('java.lang.System', 'getenv', 'HOME')": "the function try_reflect",
    "java_method('javax.naming.InitialContext', 'doLookup', 'ldap://127.0.0.1/x')": "the function java_method",
    "java_method('java.lang.System', 'load', '/tmp/evil.so')": "the function java_method",
    "upper(lower(Java_Method('java.lang.System', 'getenv', 'HOME')))": "the function Java_Method",
    "`java_method`('java.lang.System', 'getenv', 'HOME')": "the function java_method",
    "CASE WHEN true THEN reflect('java.lang.System', 'getenv', 'HOME') END": "the function reflect",
    "coalesce(transform(array(1), x -> reflect('java.lang.System', 'getenv', 'HOME'))[0], 'x')": "the function reflect",
    "IDENTIFIER('java_' || 'method')('java.lang.System', 'getenv', 'HOME')": "ExpressionWithUnresolvedIdentifier",
    "(SELECT max(value) FROM text.`{secret}`)": "a subquery",
    "EXISTS (SELECT 1 FROM text.`{secret}`)": "a subquery",
    "s IN (SELECT value FROM text.`{secret}`)": "a subquery",
    "spark_catalog.default.f(s)": "the function spark_catalog, default, f",
    "xpath_string('<!DOCTYPE a SYSTEM \"http://127.0.0.1:9/x\"><a/>', 'a')": "the function xpath_string",
    "from_avro(s, '{{}}')": "the function from_avro",
    "input_file_name()": "the function input_file_name",
    "current_catalog()": "the function current_catalog",
    "version()": "the function version",
    "uuid()": "the function uuid",
    "rand() > 0.5": "the function rand",
    "max(s) OVER ()": "WindowExpression",
    "explode(array(s))": "the function explode",
    "aes_decrypt(s, 'k')": "the function aes_decrypt",
    "s = :parameter": "NamedParameter",
    "stolen(s)": "the function stolen",
    "repeat('x', 2147483632)": "a length for the function repeat",
    "repeat(concat(s, 'x'), id * 1000000)": "a length for the function repeat",
    "lpad(s, 99999999999999999999, '0')": "a length for the function lpad",
    "size(sequence(1, 2000000000))": "the function sequence",
    "case when true then " * 12 + "s" + " end" * 12: "nested too deeply",
    "s || '" + "x" * 20_000 + "'": "too long",
}


@pytest.fixture
def with_rule(table, create):
    """Make a table whose metadata an attacker wrote: text column ``s`` with a default, a generation expression or a CHECK."""

    def make(kind, text):
        create("id BIGINT, s STRING, other STRING")
        log = DeltaLog.for_table(table)
        snapshot = log.snapshot()
        fields = {field.name: field for field in snapshot.schema.fields}
        configuration = dict(snapshot.metadata.configuration)
        match kind:
            case "default":
                fields["other"] = with_default(fields["other"], text)
            case "generated":
                fields["other"] = generated(fields["other"], text)
            case "check":
                configuration["delta.constraints.odd"] = text
            case "invariant":
                rule = json.dumps({"expression": {"expression": text}})
                fields["other"] = replace(fields["other"], metadata={"delta.invariants": rule})
        transaction = log.start_transaction(snapshot)
        schema = schema_json(StructType(tuple(fields.values())))
        transaction.set_metadata(replace(snapshot.metadata, schema_string=schema, configuration=configuration))
        features = ("allowColumnDefaults", "appendOnly", "checkConstraints", "generatedColumns", "invariants")
        transaction.set_protocol(replace(snapshot.protocol, min_writer_version=7, writer_features=frozenset(features)))
        transaction.commit(operation=Operation(name="ALTER"))
        return table

    return make


@pytest.fixture
def nothing(spark):
    return spark.createDataFrame([], to_spark(COLUMNS))


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:40])
def test_a_hostile_expression_is_refused_before_spark_analyses_it(spark, tmp_path, text):
    (tmp_path / "secret").write_text("secret")
    sql = text.replace("{secret}", str(tmp_path / "secret")).replace("{{}}", "{}")
    with pytest.raises(TableRuleRefusedError) as caught:
        permitted_expression("CHECK odd", sql, table=TABLE, spark=spark)
    is_unknown = is_connect(spark) and caught.value.detail.endswith(", which cannot be checked over Spark Connect")
    assert is_unknown or HOSTILE[text] in caught.value.detail
    assert (caught.value.table, caught.value.rule) == (TABLE, "CHECK odd")
    assert not caught.value.retryable


@pytest.mark.parametrize("kind", ["default", "generated", "check", "invariant"])
def test_no_write_runs_a_hostile_rule(with_rule, write_rows, put_together, change, table, kind):
    planted = f"java_method('java.lang.System', 'setProperty', 'airflow.delta.test.{kind}', 'ran')"
    with_rule(kind, planted if kind in ("default", "generated") else f"{planted} IS NOT NULL")
    writes = [
        lambda: write_rows("SELECT 1L AS id, 's' AS s"),
        lambda: write_rows("SELECT 1L AS id, 's' AS s", mode="overwrite"),
        lambda: put_together("SELECT 1L AS id, 's' AS s", clauses=[NotMatchedInsert(assignments={"id": "source.id"})]),
    ]
    if kind == "default":
        writes.append(lambda: change(assignments={"other": "DEFAULT"}))
        writes.append(
            lambda: put_together("SELECT 1L AS id, 's' AS s", clauses=[MatchedUpdate(assignments={"other": "DEFAULT"})])
        )
    for write in writes:
        with pytest.raises(TableRuleRefusedError, match="the function java_method") as caught:
            write()
        assert caught.value.table == table
    assert DeltaLog.for_table(table).snapshot().version == 1


@pytest.mark.classic(reason="over Spark Connect, a text with ${ is refused")
@pytest.mark.parametrize("kind", ["default", "generated"])
def test_the_environment_is_never_put_into_a_text_of_a_table(with_rule, write_rows, put_together, table, reference_rows, kind):
    text = "'${env:HOME} ${spark.app.name} ${system:user.dir}'"
    with_rule(kind, text)
    write_rows("SELECT 1L AS id, 's' AS s")
    put_together("SELECT 2L AS id, 's' AS s", clauses=[NotMatchedInsert(assignments={"id": "source.id"})])
    assert [row[2] for row in reference_rows()] == [text.strip("'")] * 2


@pytest.mark.classic(reason="over Spark Connect, a text with ${ is refused")
def test_a_condition_with_a_dollar_sign_means_the_characters_that_stand_in_it(create, write_rows, change, reference_rows):
    assert os.environ["HOME"]
    create("id BIGINT, s STRING")
    write_rows("SELECT 1L AS id, concat('$', '{env:HOME}') AS s UNION ALL SELECT 2L, 'other'")
    change("s = '${env:HOME}'", assignments={"s": "'found ${env:HOME}'"})
    assert reference_rows() == [(1, "found ${env:HOME}"), (2, "other")]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("check", "upper(s) <> 'X' AND s LIKE 's%' OR s IN ('a', 'b') OR s RLIKE '^a.*' OR s IS NULL", None),
        ("check", "length(trim(s)) BETWEEN 1 AND 5 AND regexp_replace(s, 'a', 'b') <> '' AND NOT isnull(s)", None),
        ("check", "id > 0 AND (id % 2 = 1 OR id IS NULL) AND coalesce(s, 'x') <=> s", None),
        pytest.param(
            "check", "CASE WHEN id > 0 THEN true ELSE false END AND exists(array(1, 2), x -> x > id - 1)", None, marks=NOT_PLAIN
        ),
        ("invariant", "other IS NULL OR length(other) > 0", None),
        pytest.param("default", "'it''s ' || upper('fine')", "it's FINE", marks=needs_doubled_quotes),
        ("default", "cast(7 + 1 AS string)", "8"),
        ("default", "date_format(DATE'2024-01-02', 'yyyy')", "2024"),
        ("default", "current_user()", getpass.getuser()),
        ("default", "cast(current_timestamp() > TIMESTAMP'2020-01-01 00:00:00' AS string)", "true"),
        ("default", "cast(current_date > DATE'2020-01-01' AS string)", "true"),
        ("generated", "concat_ws('-', s, cast(id AS string))", "s-1"),
        ("generated", "date_format(timestamp_seconds(id), 'yyyy-MM')", "1970-01"),
        ("generated", "substring(s, 1, 1)", "s"),
        pytest.param("generated", "lpad(cast(id AS string), 3, '0') || repeat('a', 2)", "001aa", marks=NOT_PLAIN),
        ("generated", "cast(year(to_date('2024-03-01')) + month(DATE'2024-03-01') AS string)", "2027"),
        pytest.param(
            "generated",
            "substr(s FROM 1 FOR 1) || trim(BOTH 'x' FROM 'xax') || extract(YEAR FROM DATE'2024-01-01')",
            "sa2024",
            marks=NOT_PLAIN,
        ),
        ("generated", "nvl2(s, named_struct('a', s).a, map('k', 'v')['k'])", "s"),
        ("generated", "date_trunc('HOUR', TIMESTAMP'2024-01-01 10:11:12')::string", "2024-01-01 10:00:00"),
        ("generated", "hex(sha2(s, 256)) || md5(s) IS NOT NULL", "true"),
    ],
)
def test_an_honest_rule_is_followed(with_rule, write_rows, reference_rows, kind, text, value):
    with_rule(kind, text)
    write_rows("SELECT 1L AS id, 's' AS s" + (", 'o' AS other" if kind in ("check", "invariant") else ""))
    assert reference_rows() == [(1, "s", "o" if value is None else value)]


def test_a_function_of_the_session_serves_no_rule(spark, nothing):
    spark.udf.register("charindex", lambda text: text)
    try:
        with pytest.raises(TableRuleRefusedError, match="the function charindex"):
            readable(nothing, "CHECK odd", "charindex(s) = 'a'", table=TABLE, is_condition=True)
    finally:
        spark.sql("DROP TEMPORARY FUNCTION IF EXISTS charindex")


def test_a_variable_of_the_session_serves_no_rule(spark, nothing):
    spark.sql("DECLARE OR REPLACE VARIABLE of_the_session = 'secret'")
    try:
        for text in ("s = of_the_session", "s = session.of_the_session", "s = system.session.of_the_session"):
            with pytest.raises(TableRuleRefusedError, match="which is no column"):
                readable(nothing, "CHECK odd", text, table=TABLE, is_condition=True)
    finally:
        spark.sql("DROP TEMPORARY VARIABLE IF EXISTS of_the_session")


@pytest.mark.parametrize("key", ["EXISTS_DEFAULT", "CURRENT_DEFAULT"])
def test_reading_evaluates_no_default(spark, create, write_rows, table, key):
    create("id BIGINT")
    write_rows("SELECT 1L AS id")
    log = DeltaLog.for_table(table)
    snapshot = log.snapshot()
    schema = parse_schema(snapshot.metadata.schema_string)
    later = StructField("later", STRING, metadata={key: "current_user()"})
    transaction = log.start_transaction(snapshot)
    transaction.set_metadata(replace(snapshot.metadata, schema_string=schema_json(StructType((*schema.fields, later)))))
    transaction.commit(operation=Operation(name="ADD COLUMNS"))
    assert [tuple(row) for row in read_table(spark, log.refresh()).collect()] == [(1, None)]


def test_no_code_is_loaded_that_a_type_names(spark, table, create, tmp_path, monkeypatch):
    (tmp_path / "planted_type.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Planted: ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    create("id BIGINT")
    log = DeltaLog.for_table(table)
    snapshot = log.snapshot()
    document = json.loads(snapshot.metadata.schema_string)
    kind = {"type": "udt", "class": "java.lang.Object", "pyClass": "planted_type.Planted", "sqlType": "string"}
    for planted in (kind, {"type": "array", "elementType": kind, "containsNull": True}):
        field = {"name": "p", "type": planted, "nullable": True, "metadata": {}}
        text = json.dumps({**document, "fields": [*document["fields"], field]})
        transaction = log.start_transaction(log.refresh())
        transaction.set_metadata(replace(snapshot.metadata, schema_string=text))
        transaction.commit(operation=Operation(name="ADD COLUMNS"))
        with pytest.raises(DeltaError, match="cannot be read or written"):
            read_table(spark, log.refresh()).collect()
    assert not (tmp_path / "ran").exists()


@looks_into_the_jvm
def test_every_permitted_function_is_a_built_in_one_of_spark_or_unknown_to_it(spark):
    catalog = spark._jsparkSession.sessionState().catalog()
    found = {name: catalog.lookupBuiltinOrTempFunction(name) for name in FUNCTIONS}
    groups = {info.get().getGroup() for info in found.values() if info.isDefined()}
    assert groups.isdisjoint({"agg_funcs", "generator_funcs", "window_funcs", "xml_funcs", "avro_funcs", "protobuf_funcs"})
    assert sum(info.isDefined() for info in found.values()) > 300
