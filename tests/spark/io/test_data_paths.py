"""Names of files as Hadoop takes them."""

from airflow_delta.spark.io.data_paths import file_uri, hadoop_uri, literal_pattern


def test_a_parent_is_that_of_what_a_link_leads_to(tmp_path):
    (tmp_path / "far" / "away").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "far" / "away")

    assert hadoop_uri(f"{tmp_path}/link/../t") == f"file:{tmp_path}/far/t"
    assert file_uri(f"file://{tmp_path}/link/..", "p=1/a%20b") == f"file:{tmp_path}/far/p=1/a b"
    assert hadoop_uri(f"{tmp_path}/link/t") == f"file:{tmp_path}/link/t"


def test_signs_of_patterns_are_escaped_and_nothing_else():
    assert literal_pattern("file:/in [1]/{a,b}/c?d*\\.csv") == "file:/in \\[1\\]/\\{a,b\\}/c\\?d\\*\\\\.csv"
    assert literal_pattern("s3a://lake/p=1/a%20b_ü.csv") == "s3a://lake/p=1/a%20b_ü.csv"
